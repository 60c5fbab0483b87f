"""Find and record trust in directories, and list the folders that Codex leaves out without trust.

Also finds instructions that lead out of a directory. Looks at the file system, because trust is by
repository; makes no call itself. Source: ``ConfigBatchWriteParams`` of
``schema/codex/experimental.json``.
"""

# No pathlib here: paths are strings of the wire.
# ruff: noqa: PTH113, PTH114, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from codex_acp._files import resolved, resolved_or_empty
from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp.codex.threads.opening import contents_of, distrusting, untrusted_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.jsonrpc import JsonValue

MAX_LINE: Final = 8192
"""Characters read of a ``.git`` file: twice the longest path."""


def trust_root(directory: str) -> str:
    """Return the directory to trust so that ``directory`` is trusted: its repository, else itself.
    The repository is the nearest directory with a ``.git`` that Codex accepts; a ``.git`` file is
    not followed."""
    start = path = os.path.realpath(directory)
    while True:
        git = os.path.join(path, ".git")
        if os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD")):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return start
        path = parent


def undecided_root(directory: str, config_read: JsonValue) -> str | None:
    """Return the `trust_root` if the answer to ``config/read`` has no decision about it."""
    if not isinstance(value_at(config_read, "config"), dict):
        return None
    root, projects = trust_root(directory), object_at(config_read, "config", "projects")
    return None if directory in projects or root in projects else root


def is_trusted(directory: str, config_read: JsonValue) -> bool:
    """Return whether the user trusts a directory, by the answer to ``config/read``."""
    projects, root = object_at(config_read, "config", "projects"), trust_root(directory)
    places = [os.path.realpath(directory), root]
    git_dir = _worktree_git_dir(root)
    if git_dir is not None and not is_false_worktree(root):  # the main work tree counts, too
        common = os.path.join(git_dir, _content_of(os.path.join(git_dir, "commondir")))
        if found := resolved_or_empty(common):
            places.append(os.path.dirname(found))
    level = next((text_at(projects, p, "trust_level") for p in places if p in projects), None)
    return level == "trusted"


def linked_instructions(opened: JsonValue) -> list[tuple[str, str]]:
    """Return path and target of each instruction file that is a link out of a thread's repository.
    ``opened`` is the answer that opened the thread: it lists the files that Codex gives to the
    model. Codex follows links (measured with 0.147, 0.163, 0.169 and 0.171)."""
    sources, cwd = list_at(opened, "instructionSources"), text_at(opened, "cwd")
    if not sources or cwd is None:
        return []
    root, links = trust_root(cwd), []
    for source in filter(os.path.isabs, map(str, sources)):
        try:
            target = resolved(source)
        except OSError as error:  # Codex's process may see another file there
            target = error.filename or source
        folder = resolved_or_empty(os.path.dirname(source)) or root
        if _is_in(folder, root) and not _is_in(target, root):
            links.append((source, target))
    return links


def _is_in(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def without_false_worktree(
    params: dict[str, JsonValue], directory: str, config_read: JsonValue
) -> dict[str, JsonValue]:
    """Return params with which Codex does not trust a false worktree, for a Codex that
    `believes_worktrees`. ``config_read`` is the answer to ``config/read`` in ``directory``."""
    cwd = os.path.realpath(directory)
    is_known = isinstance(value_at(config_read, "config"), dict)
    root = undecided_root(cwd, config_read) if is_known else trust_root(cwd)
    own_projects = object_at(params, "config", "projects")
    if root is None or {root, cwd} & own_projects.keys() or not is_false_worktree(root):
        return params
    return distrusting(params, config_read, root, cwd)


def is_false_worktree(root: str) -> bool:
    """Return whether the ``.git`` file of ``root`` names a repository without this worktree.
    Source: gitrepository-layout(5), ``worktrees/<id>/gitdir``."""
    git_dir = _worktree_git_dir(root)
    if git_dir is None:
        return False
    named = os.path.join(git_dir, _content_of(os.path.join(git_dir, "gitdir")))
    worktree, name = os.path.split(named)
    is_link = os.path.islink(os.path.join(root, ".git"))
    return is_link or (resolved_or_empty(worktree), name) != (root, ".git")


def _worktree_git_dir(root: str) -> str | None:
    """Return the git directory that the ``.git`` file of a linked worktree names, or None."""
    git = os.path.join(root, ".git")
    git_dir = os.path.join(root, _content_of(git).removeprefix("gitdir:").strip())
    return git_dir if os.path.isfile(git) and "worktrees" in git_dir else None


def _content_of(path: str) -> str:
    """Return the content of a small regular file, else an empty text: a pipe may never end."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(MAX_LINE).partition("\0")[0].strip()  # git reads up to a NUL
    except OSError:
        return ""


def trust_edit(root: str) -> dict[str, JsonValue]:
    """Return params of ``config/batchWrite`` that record a trust, also for open threads."""
    table: JsonValue = {root: {"trust_level": "trusted"}}
    edit: JsonValue = {"keyPath": "projects", "value": table, "mergeStrategy": "upsert"}
    if root.isprintable() and not set(root) & set('"\\'):  # the path can be a key of its own
        path = f'projects."{root}".trust_level'
        edit = {"keyPath": path, "value": "trusted", "mergeStrategy": "upsert"}
    return {"edits": [edit], "reloadUserConfig": True}


def trust_arguments(roots: Sequence[str]) -> list[str]:
    """Return arguments of a ``codex app-server`` that trusts these roots as long as it runs."""
    if not roots:
        return []
    import json  # rarely needed at the start of the agent

    names = [json.dumps(root, ensure_ascii=False) for root in roots]  # also a string of TOML
    tables = ",".join(f'{name}={{trust_level="trusted"}}' for name in names)
    return ["-c", f"projects={{{tables}}}"]


def unused_folders(config_read: JsonValue) -> list[tuple[str, list[str]]]:
    """Return each ``.codex`` folder that is left out as untrusted, with a list of its contents."""
    folders = [
        (folder, contents_of(config, _file_names(folder)))
        for folder, config in untrusted_folders(config_read)
    ]
    return [(folder, contents) for folder, contents in folders if contents]


def _file_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the app-server may run on another machine
        return []
