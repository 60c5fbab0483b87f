"""Make a patch of a task's changes in its worktree, with the files that git does not track yet.

The comparison is made with a git directory of our own, which borrows the objects of the real one
and nothing else: no configuration that the repository or the agent has written is read, and no
index that an agent could have written to. What git does not take is named, and the rest compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.fleet.errors import CheckoutError
from codex_acp.fleet.git_commands import GitFailed, git
from codex_acp.fleet.private_files import make_private, remove_tree
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Iterable

PATCH_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a patch that are kept: what is longer is rather a build directory than a change."""

FILE_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of a file that is read for a patch; an empty one of terabytes is made in no time."""

INDEX_LIMIT: Final = 512 * 1024 * 1024

MOST_LEFT_OUT: Final = 200
"""Files that a patch which is too long may lack; with more of them there is none."""

SHOWN: Final = 5
"""Names that are told."""

LONGEST_SHOWN: Final = 200

LOOK_SECONDS: Final = 60.0
"""For git to find the repository of a directory."""

_LINK: Final = b"160000 "
"""The mode of an entry that is a commit of another repository, as it is printed."""

_LINK_BYTES: Final = b"\x00\x00\xe0\x00"
"""The same as it stands in an index of any version."""

_PLAIN: Final = "* !working-tree-encoding !text !eol !ident !filter\n"
"""Attributes with which git takes every file as it is."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_RULES: Final = (".gitignore", ".gitattributes")

NOT_A_REPOSITORY: Final = "the directory is in no git repository"


@dataclass(frozen=True, slots=True)
class Changes:
    """The patch, None where there is none."""

    patch: bytes | None
    missing: str | None = None
    """Changes of the task that the patch lacks, in words."""
    note: str | None = None
    """A remark on the patch."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Content of a worktree before the task: ``tree`` is a commit or tree, ``git_dir`` ours,
    ``objects`` the directory of the repository's own."""

    work_tree: Path
    git_dir: Path
    objects: Path
    tree: str
    object_format: str = "sha1"
    index: str | None = None
    """The digest of the index in ``git_dir``; another one is not read."""
    left_out: frozenset[str] = frozenset()
    """Paths that git did not take."""

    @property
    def env(self) -> dict[str, str]:
        """Where git is to look, whatever lies in the worktree."""
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.work_tree)}

    def set_up(self, index: Path, *more: Path, digest: str | None = None) -> Baseline:
        """Make the git directory, without a subprocess; a copy of the index saves reading every
        file again, unless it is another one than that with ``digest``. ``more`` are directories of
        objects, too."""
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
        with suppress(OSError, ValueError):
            written = index.stat().st_mtime_ns  # by which git knows racy entries
            content = read_regular(index, INDEX_LIMIT)
            found = hashlib.sha256(content).hexdigest()
            if digest in (None, found):
                ours = self.git_dir / "index"
                ours.write_bytes(content)
                os.utime(ours, ns=(written, written))
                return replace(self, index=found)
        return replace(self, index=None)

    def again(self) -> Baseline:
        """The same in a new git directory: the agent may have been able to write in this one."""
        beside = self.git_dir.with_name(f"{self.git_dir.name}-{uuid.uuid4().hex}")
        made = replace(self, git_dir=beside)
        return made.set_up(
            self.git_dir / "index", self.git_dir / "objects", digest=self.index or "none"
        )


async def directory_baseline(directory: Path, scratch: Path) -> Baseline | str:
    """Of the repository that a directory is in, as it is now; else why there is none."""
    wanted = ("--show-toplevel", "--git-path", "objects", "--git-path", "index")
    words = ("--path-format=absolute", *wanted, "--show-object-format")
    try:
        found = await git("rev-parse", *words, cwd=directory, seconds=LOOK_SECONDS)
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
        made = await asyncio.to_thread(made.set_up, Path(index))
        left_out = await _add(made, users_index=True)
        tree = (await git("write-tree", env=made.env)).decode().strip()
        content = await asyncio.to_thread(read_regular, scratch / "index", INDEX_LIMIT)
    except (CheckoutError, OSError, ValueError) as error:
        return str(error)
    digest = hashlib.sha256(content).hexdigest()
    return replace(made, tree=tree, index=digest, left_out=left_out)


def _is_worktree(top: str) -> bool:
    return os.path.lexists(os.path.join(top, ".git"))  # noqa: PTH118


async def changes_since(baseline: Baseline) -> Changes:
    """The patch, and what is to be said of it. Never raises but when it is cancelled."""
    made = baseline
    try:
        if not stat.S_ISDIR(baseline.work_tree.lstat().st_mode):
            return Changes(None, "the patch is not made: the worktree is no directory any more")
        made = await asyncio.to_thread(baseline.again)
        if made.index is None:
            await git("read-tree", made.tree, env=made.env)
        names = await _add(made) - baseline.left_out
        if not names:
            missing = None
        else:
            why = "git does not take it, it cannot be read, is a repository of its own or too large"
            missing = f"the patch lacks {_told(names)}: {why}"
        patch, left_out = await _patch(made)
        hidden = await _hidden(made)
    except (CheckoutError, OSError) as error:
        return Changes(None, f"the patch is not made: {error}")
    finally:
        if made is not baseline:
            await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, made.git_dir)))
    if patch is None:
        missing = f"the changes are longer than {PATCH_LIMIT >> 20} MiB and not kept"
    elif left_out:
        too_long = f"with them it would be longer than {PATCH_LIMIT >> 20} MiB"
        missing = "; ".join(
            filter(None, (missing, f"the patch lacks {_told(left_out)}: {too_long}"))
        )
    ignored = f"ignored, by rules that the task has written: {_told(hidden)}" if hidden else None
    return Changes(patch, missing, ignored)


def _told(names: Iterable[str]) -> str:
    found = sorted(names)
    shown = [os.fsencode(name).decode(errors="replace")[:LONGEST_SHOWN] for name in found[:SHOWN]]
    more = len(found) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


# What the worktree holds now.


async def _add(baseline: Baseline, *, users_index: bool = False) -> frozenset[str]:
    """Take the worktree's files into our index but for ignored ones; return those that git does not
    take."""
    large, unreadable = await asyncio.to_thread(_look, baseline.work_tree)
    complete = await _taken(baseline, large, users_index=users_index)
    left = {f"{name}/" for name in await _drop_links(baseline)}
    if large or not complete:
        left |= await _names(baseline, "ls-files", "--others", "--exclude-standard")
        left |= await _names(baseline, "diff-files", "--name-only", "--ignore-submodules=all")
    if unreadable:
        left |= unreadable - {name for _, name in await _ignoring(baseline, unreadable)}
    return frozenset(left)


def _look(work_tree: Path) -> tuple[list[str], set[str]]:
    """Find files that are too large and directories that cannot be read. Raises CheckoutError for a
    pipe that git would wait for."""
    large: list[str] = []
    unreadable: set[str] = set()
    top = os.open(work_tree, _FOLDER)
    folders = [""]
    try:
        while folders:
            folder = folders.pop()
            try:
                found = _entries(top, folder)
            except FileNotFoundError:
                continue
            except OSError:
                unreadable.add(folder or "./")
                continue
            for name, mode, size in found:
                if stat.S_ISDIR(mode):
                    folders.append(f"{name}/")
                elif size > FILE_LIMIT:
                    large.append(name)
                elif stat.S_ISFIFO(mode) and name.endswith(_RULES):
                    raise CheckoutError(f"{name} is a pipe, which git would wait for")
    finally:
        os.close(top)
    return large, unreadable


def _entries(top: int, folder: str) -> list[tuple[str, int, int]]:
    """Path, mode and size of all in a folder but git's own. Raises OSError."""
    opened = os.open(folder or ".", _FOLDER, dir_fd=top)
    try:
        with os.scandir(opened) as entries:
            found = [(e.name, e.stat(follow_symlinks=False)) for e in entries if e.name != ".git"]
        return [(f"{folder}{name}", it.st_mode, it.st_size) for name, it in found]
    finally:
        os.close(opened)


async def _taken(baseline: Baseline, without: list[str], *, users_index: bool) -> bool:
    """Have git take all but the files ``without``; return whether it has."""
    specs = [":/", *(f":(exclude,top,literal){name}" for name in without)]
    words = ("--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    for mend in (_no_attributes, _no_index, None):
        try:
            if users_index:
                await _forget_bits(baseline)
            await _drop_links(baseline)
            await git(
                "add",
                *words,
                env=baseline.env,
                cwd=baseline.work_tree,
                given=os.fsencode("\0".join(specs)),
            )
        except GitFailed as error:
            if error.code == 1:  # all but some files
                return False
            if mend is None or error.code is None:
                raise
            await mend(baseline)
        else:
            return True
    return False


async def _no_attributes(baseline: Baseline) -> None:
    """Take every file as it is: an encoding that git does not know ends it."""
    make_private(baseline.git_dir / "info")
    (baseline.git_dir / "info" / "attributes").write_text(_PLAIN, encoding="utf-8")


async def _no_index(baseline: Baseline) -> None:
    """Read every file: the index is split or damaged."""
    (baseline.git_dir / "index").unlink(missing_ok=True)
    if baseline.tree:
        await git("read-tree", baseline.tree, env=baseline.env)


async def _forget_bits(baseline: Baseline) -> None:
    """Of an index that a user has: the files that git was told not to look at."""
    listed = await git("ls-files", "-v", "-z", env=baseline.env)
    marked = [entry for entry in listed.split(b"\0") if entry[:1] not in (b"", b"H")]
    for tags, bit in ((b"hsmrck", "--no-assume-unchanged"), (b"Ss", "--no-skip-worktree")):
        names = b"".join(entry[2:] + b"\0" for entry in marked if entry[:1] in tags)
        if names:
            words = (bit, "-z", "--stdin")
            await git("update-index", *words, env=baseline.env, cwd=baseline.work_tree, given=names)


async def _drop_links(baseline: Baseline) -> list[str]:
    """Drop repositories within this one from our index: git would look at their state by their own
    configuration."""
    if not await asyncio.to_thread(_may_have_links, baseline.git_dir / "index"):
        return []
    listed = await git("ls-files", "--stage", "-z", env=baseline.env)
    inner = [entry.split(b"\t", 1)[1] for entry in listed.split(b"\0") if entry.startswith(_LINK)]
    if inner:
        names = b"".join(name + b"\0" for name in inner)
        words = ("--force-remove", "-z", "--stdin")
        await git("update-index", *words, env=baseline.env, cwd=baseline.work_tree, given=names)
    return list(map(os.fsdecode, inner))


def _may_have_links(index: Path) -> bool:
    """Whether the bytes of that mode are there; it saves a process where they are not."""
    with suppress(FileNotFoundError):
        return _LINK_BYTES in index.read_bytes()
    return False


async def _names(baseline: Baseline, command: str, *words: str) -> set[str]:
    found = await git(command, "-z", *words, env=baseline.env, cwd=baseline.work_tree)
    return {os.fsdecode(name) for name in found.split(b"\0") if name}


# What is different.


async def _patch(baseline: Baseline) -> tuple[bytes | None, list[str]]:
    """The patch, and what it lacks since it would be too long; None if it is so anyhow."""
    patch = await _diff(baseline, [])
    if len(patch) <= PATCH_LIMIT:
        return patch, []
    words = ("--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
    raw = await git("diff-index", *words, baseline.tree, env=baseline.env)
    fields = raw.split(b"\0")[:-1]
    objects = {
        os.fsdecode(n): f.split()[2:4] for f, n in zip(fields[::2], fields[1::2], strict=True)
    }
    wanted = [oid for pair in objects.values() for oid in pair if oid.strip(b"0")]
    asked = b"".join(oid + b"\n" for oid in wanted)
    told = await git("cat-file", "--batch-check=%(objectsize)", env=baseline.env, given=asked)
    known = dict(zip(wanted, told.splitlines(), strict=False))
    sizes = {
        name: max((int(known[oid]) for oid in pair if known.get(oid, b"").isdigit()), default=0)
        for name, pair in objects.items()
    }
    for part in (4, 16, 64, 256):
        large = [name for name, size in sizes.items() if size > PATCH_LIMIT // part]
        if 0 < len(large) <= MOST_LEFT_OUT:
            patch = await _diff(baseline, large)
            if len(patch) <= PATCH_LIMIT:
                return patch, large
    return None, []


async def _diff(baseline: Baseline, without: list[str]) -> bytes:
    words = ("--cached", "-p", "--binary", "--full-index", "-M")
    safe = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
    specs = (":/", *(f":(exclude,top,literal){name}" for name in without))
    env, cwd = baseline.env, baseline.work_tree
    return await git(
        "diff-index",
        *words,
        *safe,
        baseline.tree,
        "--",
        *specs,
        env=env,
        cwd=cwd,
        limit=PATCH_LIMIT,
    )


async def _hidden(baseline: Baseline) -> list[str]:
    """Return the files ignored by rules that the task has written; a directory that ignores itself
    is none."""
    changed = ("--cached", "--name-only", baseline.tree, "--", ":(glob,top)**/.gitignore")
    rules = await _names(baseline, "diff-index", *changed)
    words = ("--others", "--ignored", "--exclude-standard")
    rules |= await _names(baseline, "ls-files", *words, "--", ":(top,literal).gitignore")
    if not rules:
        return []
    ignored = await _names(baseline, "ls-files", *words)
    return [name for rule, name in await _ignoring(baseline, ignored) if rule in rules]


async def _ignoring(baseline: Baseline, names: set[str]) -> list[tuple[str, str]]:
    """The file of rules by which each of the names is ignored, of those that are."""
    given = os.fsencode("".join(f"{name}\0" for name in names))
    words = ("-v", "-z", "--stdin")
    env, cwd = baseline.env, baseline.work_tree
    try:
        told = await git("check-ignore", *words, env=env, cwd=cwd, given=given)
    except GitFailed as error:
        if error.code != 1:  # none is
            raise
        return []
    fields = list(map(os.fsdecode, told.split(b"\0")))[:-1]
    return list(zip(fields[::4], fields[3::4], strict=True))
