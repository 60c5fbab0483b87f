"""Directories that a person trusts: what Codex is asked for it, and what is left out without it.
Also what of a directory leads out of it.

Looks at the file system, because trust is by repository; asks Codex nothing itself.
Source: ``ConfigBatchWriteParams`` of ``schema/codex/experimental.json``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp.codex.threads.opening import brought, distrusting, left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.jsonrpc.message import JsonValue

LONGEST_LINE: Final = 8192
"""Characters read of a ``.git`` file: twice the longest path."""


def trust_root(directory: str) -> str:
    """Return the directory to trust so that ``directory`` is trusted: its repository, else itself.

    The nearest directory with a ``.git`` that Codex takes for one; what a file of that name says
    is not followed.
    """
    start = path = os.path.realpath(directory)
    while True:
        git = os.path.join(path, ".git")  # noqa: PTH118 - a string of the wire
        if os.path.isfile(git) or os.path.exists(os.path.join(git, "HEAD")):  # noqa: PTH110, PTH113, PTH118
            return path
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return start
        path = parent


def undecided_root(directory: str, read: JsonValue) -> str | None:
    """Return the `trust_root`, if nobody has decided on it: ``read`` answers ``config/read``."""
    if not isinstance(value_at(read, "config"), dict):
        return None
    root = trust_root(directory)
    return None if {directory, root} & object_at(read, "config", "projects").keys() else root


def is_trusted(directory: str, read: JsonValue) -> bool:
    """Whether the user trusts a directory: ``read`` is the answer of ``config/read`` in it."""
    projects, root = object_at(read, "config", "projects"), trust_root(directory)
    places = [os.path.realpath(directory), root]
    git = os.path.join(root, ".git")  # noqa: PTH118 - a string of the wire, as all below
    kept = os.path.join(root, _line(git).removeprefix("gitdir:").strip())  # noqa: PTH118
    if os.path.isfile(git) and "worktrees" in kept and not is_false_worktree(root):  # noqa: PTH113
        common = os.path.join(kept, _line(os.path.join(kept, "commondir")))  # noqa: PTH118
        places.append(os.path.dirname(os.path.realpath(common)))  # noqa: PTH120
    level = next((text_at(projects, p, "trust_level") for p in places if p in projects), None)
    return level == "trusted"


def linked_instructions(opened: JsonValue) -> list[tuple[str, str]]:
    """Return the files of instructions that lead out of the repository of a thread: path, target.

    ``opened`` is the answer that began the thread: Codex says there what it reads to the model,
    and follows links (measured with 0.147, 0.163 and 0.169).
    """
    sources, cwd = list_at(opened, "instructionSources"), text_at(opened, "cwd")
    if not sources or cwd is None:
        return []
    root, found = trust_root(cwd), []
    for source in filter(os.path.isabs, map(str, sources)):
        target = os.path.realpath(source)
        folder = os.path.realpath(os.path.dirname(source))  # noqa: PTH120
        if _is_in(folder, root) and not _is_in(target, root):
            found.append((source, target))
    return found


def _is_in(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def without_false_worktree(
    params: dict[str, JsonValue], directory: str, read: JsonValue
) -> dict[str, JsonValue]:
    """Return params of a thread with which a Codex that `believes_worktrees` trusts none falsely.

    ``read`` is the answer of ``config/read`` in its ``directory``.
    """
    cwd = os.path.realpath(directory)
    known = isinstance(value_at(read, "config"), dict)
    root = undecided_root(cwd, read) if known else trust_root(cwd)
    given = object_at(params, "config", "projects")
    if root is None or {root, cwd} & given.keys() or not is_false_worktree(root):
        return params
    return distrusting(params, read, root, cwd)


def is_false_worktree(root: str) -> bool:
    """Whether a ``.git`` file calls it a worktree of a repository that does not know of it.

    Source: gitrepository-layout(5), ``worktrees/<id>/gitdir``.
    """
    git = os.path.join(root, ".git")  # noqa: PTH118 - a string of the wire, as all below
    kept = os.path.join(root, _line(git).removeprefix("gitdir:").strip())  # noqa: PTH118
    if not os.path.isfile(git) or "worktrees" not in kept:  # noqa: PTH113
        return False
    back = os.path.join(kept, _line(os.path.join(kept, "gitdir")))  # noqa: PTH118
    there, name = os.path.split(back)
    return os.path.islink(git) or (os.path.realpath(there), name) != (root, ".git")  # noqa: PTH114


def _line(path: str) -> str:
    """Read a small file; return nothing of what is no file, such as a pipe, which would not end."""
    if not os.path.isfile(path):  # noqa: PTH113
        return ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file.read(LONGEST_LINE).partition("\0")[0].strip()  # a text of C, to git
    except OSError:
        return ""


def trust_edit(root: str) -> dict[str, JsonValue]:
    """Return params of ``config/batchWrite`` that keep a trust; open threads load it at once."""
    table: JsonValue = {root: {"trust_level": "trusted"}}
    edit: JsonValue = {"keyPath": "projects", "value": table, "mergeStrategy": "upsert"}
    if root.isprintable() and not set(root) & set('"\\'):  # its own line; else a whole table
        path = f'projects."{root}".trust_level'
        edit = {"keyPath": path, "value": "trusted", "mergeStrategy": "upsert"}
    return {"edits": [edit], "reloadUserConfig": True}


def trust_arguments(roots: Sequence[str]) -> list[str]:
    """Return arguments of a ``codex app-server`` that trusts these roots as long as it runs."""
    if not roots:
        return []
    import json  # the agent that starts without options has no use for it

    names = [json.dumps(root, ensure_ascii=False) for root in roots]  # TOML writes texts alike
    tables = ",".join(f'{name}={{trust_level="trusted"}}' for name in names)
    return ["-c", f"projects={{{tables}}}"]


def left_out_here(read: JsonValue) -> list[tuple[str, list[str]]]:
    """Return each folder that is left out as untrusted and not empty, with its content in words."""
    found = ((folder, brought(config, _names(folder))) for folder, config in left_out(read))
    return [(folder, words) for folder, words in found if words]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:  # the app-server may run on another machine
        return []
