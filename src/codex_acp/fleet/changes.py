"""What a task changed in its worktree, as a patch, files that git does not know yet included.

The comparison is made with a git directory of our own, which borrows the objects of the real one
and nothing else: no configuration that the repository or the agent has written is read.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from codex_acp.fleet.errors import CheckoutError
from codex_acp.fleet.git_commands import git
from codex_acp.fleet.private_files import make_private, remove_tree
from codex_acp.transport.shielding import shielded

PATCH_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a patch that are kept: what is longer is rather a build directory than a change."""

_LINK: Final = b"160000 "
"""The mode of an entry that is a commit of another repository, as it is printed."""

_LINK_BYTES: Final = b"\x00\x00\xe0\x00"
"""The same as it stands in an index of any version."""

NOT_A_REPOSITORY: Final = "the directory is in no git repository"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a worktree held before: ``tree`` is a commit or tree, ``git_dir`` ours, ``objects`` the
    directory of the repository's own."""

    work_tree: Path
    git_dir: Path
    objects: Path
    tree: str
    object_format: str = "sha1"

    @property
    def env(self) -> dict[str, str]:
        """Where git is to look, whatever lies in the worktree."""
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.work_tree)}

    def set_up(self, index: Path, *more: Path) -> None:
        """Make the git directory, without a subprocess; a copy of the index saves reading every
        file again. ``more`` are directories of objects, too."""
        make_private(self.git_dir / "objects" / "info")
        make_private(self.git_dir / "refs")
        (self.git_dir / "HEAD").write_text("ref: refs/heads/fleet\n", encoding="utf-8")
        config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        if self.object_format != "sha1":
            config = config.replace("= 0", "= 1")
            config += f"[extensions]\n\tobjectformat = {self.object_format}\n"
        (self.git_dir / "config").write_text(config, encoding="utf-8")
        others = "".join(f"{folder}\n" for folder in (self.objects, *more))
        (self.git_dir / "objects" / "info" / "alternates").write_text(others, encoding="utf-8")
        with suppress(FileNotFoundError):
            # With its time, by which git knows racy entries.
            shutil.copy2(index, self.git_dir / "index")

    def again(self) -> Baseline:
        """The same in a new git directory: the agent may have been able to write in this one."""
        beside = self.git_dir.with_name(f"{self.git_dir.name}-{uuid.uuid4().hex}")
        made = replace(self, git_dir=beside)
        made.set_up(self.git_dir / "index", self.git_dir / "objects")
        return made


async def directory_baseline(directory: Path, scratch: Path) -> Baseline | str:
    """Of the repository that a directory is in, as it is now; else why there is none."""
    wanted = ("--show-toplevel", "--git-path", "objects", "--git-path", "index")
    words = ("--path-format=absolute", *wanted, "--show-object-format")
    try:
        found = await git("rev-parse", *words, cwd=directory)
    except CheckoutError as error:
        named = "not a git repository" in str(error)
        return NOT_A_REPOSITORY if named else str(error)
    lines = found.decode(errors="surrogateescape").splitlines()
    # A repository's configuration can name any directory as its worktree.
    if len(lines) != 4 or not _is_worktree(lines[0]):
        return "git does not say where the repository is"
    top, objects, index, object_format = lines
    made = Baseline(Path(top), scratch, Path(objects), "", object_format)
    try:
        await asyncio.to_thread(made.set_up, Path(index))
        await _add(made)
        tree = (await git("write-tree", env=made.env)).decode().strip()
    except (CheckoutError, OSError) as error:
        return str(error)
    return replace(made, tree=tree)


def _is_worktree(top: str) -> bool:
    return os.path.lexists(os.path.join(top, ".git"))  # noqa: PTH118


async def changes_since(baseline: Baseline) -> tuple[bytes | None, str | None]:
    """The patch, and what is to be said of it. Never raises but when it is cancelled."""
    words = ("--cached", "-p", "--binary", "--full-index", "-M")
    safe = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
    made = baseline
    try:
        made = await asyncio.to_thread(baseline.again)
        await _add(made)
        patch = await git(
            "diff-index", *words, *safe, made.tree, "--", env=made.env, limit=PATCH_LIMIT
        )
    except (CheckoutError, OSError) as error:
        return None, str(error)
    finally:
        if made is not baseline:
            await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, made.git_dir)))
    if len(patch) > PATCH_LIMIT:
        return None, f"the changes are longer than {PATCH_LIMIT >> 20} MiB and not kept"
    return patch, None


async def _add(baseline: Baseline) -> None:
    """Take what the worktree holds now into our index; ignored files are left out."""
    if await asyncio.to_thread(_may_have_links, baseline.git_dir / "index"):
        await _drop_links(baseline)
    # Without --ignore-errors: a file that cannot be read would be missing without a word.
    await git("add", "--all", "--", ":/", env=baseline.env, cwd=baseline.work_tree)


def _may_have_links(index: Path) -> bool:
    """Whether the bytes of that mode are there; it saves a process where they are not."""
    with suppress(FileNotFoundError):
        return _LINK_BYTES in index.read_bytes()
    return False


async def _drop_links(baseline: Baseline) -> None:
    """Of a repository within this one that the index knows, git would have a look at the state by
    that one's own configuration, filters included. What is new to the index is only named."""
    listed = await git("ls-files", "--stage", "-z", env=baseline.env)
    inner = [entry.split(b"\t", 1)[1] for entry in listed.split(b"\0") if entry.startswith(_LINK)]
    if inner:
        names = b"".join(name + b"\0" for name in inner)
        words = ("--force-remove", "-z", "--stdin")
        await git("update-index", *words, env=baseline.env, cwd=baseline.work_tree, given=names)
