"""Asks git for the uncommitted changes of a folder.

git runs inside Codex's sandbox, read-only: the folder's own configuration can name programs that
git would start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.mapping.prompt.commands import DIFF_LIMIT, diff_report
from codex_acp.routing.display import block

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

TIMEOUT_MS: Final = 20_000

_GIT: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.pager=cat")
_DIFF: Final = ("--no-color", "--no-ext-diff", "--no-textconv")
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for a tree without files: what a repository without a commit is compared with."""


async def uncommitted(codex: AppServerConnection, cwd: str) -> str:
    """The difference to the last commit and the new files, as Markdown; or why there is none."""
    inside = await _run(codex, cwd, "rev-parse", "--show-toplevel")
    if inside.exit_code != 0:
        return "This folder is not in a git repository."
    head = await _run(codex, cwd, "rev-parse", "--verify", "--quiet", "HEAD")
    base = "HEAD" if head.exit_code == 0 else _EMPTY_TREE
    diff = await _run(codex, cwd, "diff", *_DIFF, base, "--")
    if diff.exit_code != 0:
        return f"git could not show the changes:\n{block(diff.stderr.strip())}"
    new = await _run(codex, cwd, "ls-files", "--others", "--exclude-standard", "-z")
    return diff_report(diff.stdout, [name for name in new.stdout.split("\0") if name])


async def _run(codex: AppServerConnection, cwd: str, *arguments: str) -> models.CommandExecResponse:
    return await codex.command_exec(
        models.CommandExecParams(
            command=[*_GIT, *arguments],
            cwd=cwd,
            timeout_ms=TIMEOUT_MS,
            output_bytes_cap=4 * DIFF_LIMIT,
            sandbox_policy=models.ReadOnlySandboxPolicy(),
        )
    )
