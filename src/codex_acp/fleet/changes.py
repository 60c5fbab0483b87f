"""Make a patch of a task's changes in its worktree, with the files that git does not track yet.

A git directory of our own compares the worktree with its content before the task. Our directory
borrows nothing but objects from the repository: git reads no configuration of the repository or the
agent, and no index that the agent may have written. Changes that git cannot take are named.
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
"""Most bytes of a patch: a longer patch shows a build directory rather than a change."""

FILE_LIMIT: Final = 256 * 1024 * 1024
"""Most bytes of a file that git reads: a sparse file of terabytes is made in no time."""

INDEX_LIMIT: Final = 512 * 1024 * 1024
"""Most bytes of an index that is read."""

MOST_LEFT_OUT: Final = 200
"""Most files that are left out to shorten a patch; if more are too large, there is no patch."""

SHOWN: Final = 5
"""File names in a message."""

LONGEST_SHOWN: Final = 200
"""Characters of a file name in a message."""

LOOK_SECONDS: Final = 60.0
"""Seconds for git to find the repository of a directory."""

PATCH_SECONDS: Final = 60.0
"""Seconds to read a worktree before a task, and to make the patch after the task. A rule file can
keep git busy for ever. Half of the driver's `GRACE_SECONDS` lets the report come in time."""

_GITLINK: Final = b"160000 "
"""Mode of an index entry that is a commit of another repository, as git prints the mode."""

_GITLINK_BYTES: Final = b"\x00\x00\xe0\x00"
"""The mode of a gitlink as bytes in an index of any version."""

_NO_CONVERSION: Final = "* !working-tree-encoding !text !eol !ident !filter\n"
"""Attributes with which git takes every file without a conversion."""

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_RULE_FILES: Final = (".gitignore", ".gitattributes")

NOT_A_REPOSITORY: Final = "the directory is in no git repository"


@dataclass(frozen=True, slots=True)
class Changes:
    """The patch of a task, or None, and the report's sentences about the patch."""

    patch: bytes | None
    missing: str | None = None
    """Sentence about changes of the task that the patch lacks."""
    note: str | None = None
    """A remark on the patch."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Content of a worktree before the task."""

    work_tree: Path
    git_dir: Path
    """Git directory of our own."""
    objects: Path
    """Directory of the repository's objects."""
    tree: str
    """Id of the commit or tree with the content."""
    object_format: str = "sha1"
    index_digest: str | None = None
    """Digest of the only index in ``git_dir`` that is read; None if there was no index."""
    not_taken: frozenset[str] = frozenset()
    """Paths that git cannot take."""

    @property
    def env(self) -> dict[str, str]:
        """Environment in which git uses ``git_dir``."""
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.work_tree)}

    def set_up(self, index: Path | None, *more: Path, digest: str | None = None) -> Baseline:
        """Make the git directory, without a subprocess; return the baseline with its index digest.
        Copies ``index``, which saves reading every file again, if its digest is ``digest`` or
        ``digest`` is None. ``more`` are further directories of objects. Raises CheckoutError for a
        pipe among the repository's objects."""
        for path in (*self.objects.glob("info/*"), *self.objects.glob("pack/*")):
            if path.is_fifo():
                raise CheckoutError(f"{path} is a pipe, which git would wait for")
        make_private(self.git_dir / "objects" / "info")
        make_private(self.git_dir / "refs")
        (self.git_dir / "HEAD").write_text("ref: refs/heads/fleet\n", encoding="utf-8")
        config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        if self.object_format != "sha1":
            config = config.replace("= 0", "= 1")
            config += f"[extensions]\n\tobjectformat = {self.object_format}\n"
        (self.git_dir / "config").write_text(config, encoding="utf-8")
        folders = "".join(f"{folder}\n" for folder in (self.objects, *more))
        (self.git_dir / "objects" / "info" / "alternates").write_text(folders, encoding="utf-8")
        with suppress(OSError, ValueError):
            if index is not None:
                written = index.stat().st_mtime_ns  # git compares this time with the files' times
                content = read_regular(index, INDEX_LIMIT)
                digest_read = hashlib.sha256(content).hexdigest()
                if digest in (None, digest_read):
                    copy = self.git_dir / "index"
                    copy.write_bytes(content)
                    os.utime(copy, ns=(written, written))
                    return replace(self, index_digest=digest_read)
        return replace(self, index_digest=None)


async def directory_baseline(directory: Path, git_dir: Path) -> Baseline | str:
    """Return the baseline of the repository around ``directory``, with ``git_dir`` as its git
    directory; without a baseline, return the reason."""
    paths = ("--show-toplevel", "--git-path", "objects", "--git-path", "index")
    words = ("--path-format=absolute", *paths, "--show-object-format")
    try:
        out = await git("rev-parse", *words, cwd=directory, seconds=LOOK_SECONDS)
    except CheckoutError as error:
        no_repository = "not a git repository" in str(error)
        return NOT_A_REPOSITORY if no_repository else str(error)
    lines = out.decode(errors="surrogateescape").splitlines()
    # Four questions, four lines. A repository's configuration can name any directory as worktree.
    if len(lines) != 4 or not os.path.lexists(f"{lines[0]}/.git"):  # noqa: ASYNC240
        return "git does not say where the repository is"
    top, objects, index, object_format = lines
    baseline = Baseline(Path(top), git_dir, Path(objects), "", object_format)
    try:
        async with asyncio.timeout(PATCH_SECONDS):
            baseline = await asyncio.to_thread(baseline.set_up, Path(index))
            not_taken = await _add_files(baseline, users_index=True)
            tree = (await git("write-tree", env=baseline.env)).decode().strip()
            content = await asyncio.to_thread(read_regular, git_dir / "index", INDEX_LIMIT)
    except TimeoutError:
        return f"git took longer than {PATCH_SECONDS:g} seconds to read the files before the task"
    except (CheckoutError, OSError, ValueError) as error:
        return str(error)
    digest = hashlib.sha256(content).hexdigest()
    return replace(baseline, tree=tree, index_digest=digest, not_taken=not_taken)


async def changes_since(baseline: Baseline) -> Changes:
    """Return the changes of a worktree since the baseline. Raises nothing but CancelledError."""
    current = baseline
    try:
        if not stat.S_ISDIR(baseline.work_tree.lstat().st_mode):
            return Changes(None, "the patch is not made: the worktree is no directory any more")
        async with asyncio.timeout(PATCH_SECONDS):
            # A new git directory, because the agent may have written to the baseline's directory.
            old, digest = baseline.git_dir, baseline.index_digest
            new = old.with_name(f"{old.name}-{uuid.uuid4().hex}")
            current = replace(baseline, git_dir=new)  # removed below, also if the copy is too slow
            index = None if digest is None else old / "index"
            current = await asyncio.to_thread(current.set_up, index, old / "objects", digest=digest)
            if current.index_digest is None:
                await git("read-tree", current.tree, env=current.env)
            not_taken = await _add_files(current) - baseline.not_taken
            patch, left_out = await _make_patch(current)
            ignored = await _newly_ignored(current)
    except TimeoutError:
        return Changes(
            None, f"the patch is not made: it took longer than {PATCH_SECONDS:g} seconds"
        )
    except (CheckoutError, OSError) as error:
        return Changes(None, f"the patch is not made: {error}")
    finally:
        if current is not baseline:
            await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, current.git_dir)))
    missing = None
    if not_taken:
        why = "git does not take it, it cannot be read, is a repository of its own or too large"
        missing = f"the patch lacks {_listed(not_taken)}: {why}"
    if patch is None:
        missing = f"the changes are longer than {PATCH_LIMIT >> 20} MiB and not kept"
    elif left_out:
        too_long = f"with them it would be longer than {PATCH_LIMIT >> 20} MiB"
        lacks = f"the patch lacks {_listed(left_out)}: {too_long}"
        missing = f"{missing}; {lacks}" if missing else lacks
    note = f"ignored, by rules that the task has written: {_listed(ignored)}" if ignored else None
    return Changes(patch, missing, note)


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    shown = [os.fsencode(name).decode(errors="replace")[:LONGEST_SHOWN] for name in names[:SHOWN]]
    more = len(names) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


# Adding the worktree's files to our index.


async def _add_files(baseline: Baseline, *, users_index: bool = False) -> frozenset[str]:
    """Add the worktree's files that are not ignored to our index; return files that git cannot
    take. ``users_index``: our index is a copy of the user's."""
    large, unreadable = await asyncio.to_thread(_find_problems, baseline.work_tree)
    complete = await _git_add(baseline, large, users_index=users_index)
    not_taken = {f"{name}/" for name in await _drop_gitlinks(baseline)}
    if large or not complete:
        not_taken |= await _names(baseline, "ls-files", "--others", "--exclude-standard")
        not_taken |= await _names(baseline, "diff-files", "--name-only", "--ignore-submodules=all")
    if unreadable:
        not_taken |= unreadable - {name for _, name in await _rules_and_names(baseline, unreadable)}
    return frozenset(not_taken)


def _find_problems(work_tree: Path) -> tuple[list[str], set[str]]:
    """Find files that are too large and directories that cannot be read. Raises CheckoutError for a
    pipe that git would wait for."""
    large: list[str] = []
    unreadable: set[str] = set()
    top = os.open(work_tree, _OPEN_FOLDER)
    folders = [""]
    try:
        while folders:
            folder = folders.pop()
            try:
                entries = _list_entries(top, folder)
            except FileNotFoundError:
                continue
            except OSError:
                unreadable.add(folder or "./")
                continue
            for name, mode, size in entries:
                if stat.S_ISDIR(mode):
                    folders.append(f"{name}/")
                elif size > FILE_LIMIT:
                    large.append(name)
                elif stat.S_ISFIFO(mode) and name.endswith(_RULE_FILES):
                    raise CheckoutError(f"{name} is a pipe, which git would wait for")
    finally:
        os.close(top)
    return large, unreadable


def _list_entries(top: int, folder: str) -> list[tuple[str, int, int]]:
    """Return path, mode and size of each entry of a folder, without ``.git``. Raises OSError."""
    folder_fd = os.open(folder or ".", _OPEN_FOLDER, dir_fd=top)
    try:
        with os.scandir(folder_fd) as entries:
            stats = [(e.name, e.stat(follow_symlinks=False)) for e in entries if e.name != ".git"]
        return [(f"{folder}{name}", stat_.st_mode, stat_.st_size) for name, stat_ in stats]
    finally:
        os.close(folder_fd)


async def _git_add(baseline: Baseline, without: list[str], *, users_index: bool) -> bool:
    """Add all files but those in ``without``; return whether git could take all of them."""
    specs = os.fsencode("\0".join((":/", *(f":(exclude,top,literal){name}" for name in without))))
    words = ("--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    env, cwd = baseline.env, baseline.work_tree
    for repair in (_drop_attributes, _drop_index, None):  # between the attempts
        try:
            if users_index:
                await _forget_bits(baseline)
            await _drop_gitlinks(baseline)
            await git("add", *words, env=env, cwd=cwd, stdin=specs)
        except GitFailed as error:
            if error.code == 1:  # git could not take some files
                return False
            if repair is None or error.code is None:  # None: git did not start, or took too long
                raise
            await repair(baseline)
        else:
            return True
    raise AssertionError("the last round returns or raises")


async def _drop_attributes(baseline: Baseline) -> None:
    """Have git take every file without a conversion: git fails at an encoding that is not known."""
    make_private(baseline.git_dir / "info")
    (baseline.git_dir / "info" / "attributes").write_text(_NO_CONVERSION, encoding="utf-8")


async def _drop_index(baseline: Baseline) -> None:
    """Have git read every file again, because the copied index is split or damaged."""
    (baseline.git_dir / "index").unlink(missing_ok=True)
    if baseline.tree:
        await git("read-tree", baseline.tree, env=baseline.env)


async def _forget_bits(baseline: Baseline) -> None:
    """Have git look at files that the user's index marks as assume-unchanged or skip-worktree."""
    listed = await git("ls-files", "-v", "-z", env=baseline.env)
    marked = [entry for entry in listed.split(b"\0") if entry[:1] not in (b"", b"H")]
    # An entry begins with a tag: a small letter for assume-unchanged, S for skip-worktree.
    for tags, bit in ((b"hsmrck", "--no-assume-unchanged"), (b"Ss", "--no-skip-worktree")):
        names = b"".join(entry[2:] + b"\0" for entry in marked if entry[:1] in tags)
        if names:
            words = (bit, "-z", "--stdin")
            await git("update-index", *words, env=baseline.env, cwd=baseline.work_tree, stdin=names)


async def _drop_gitlinks(baseline: Baseline) -> list[str]:
    """Drop inner repositories from our index, because git would read their configuration; return
    the paths of these repositories."""
    if not await asyncio.to_thread(_may_have_gitlinks, baseline.git_dir / "index"):
        return []
    listed = await git("ls-files", "--stage", "-z", env=baseline.env)
    entries = [entry for entry in listed.split(b"\0") if entry.startswith(_GITLINK)]
    inner = [entry.split(b"\t", 1)[1] for entry in entries]
    if inner:
        names = b"".join(name + b"\0" for name in inner)
        words = ("--force-remove", "-z", "--stdin")
        await git("update-index", *words, env=baseline.env, cwd=baseline.work_tree, stdin=names)
    return list(map(os.fsdecode, inner))


def _may_have_gitlinks(index: Path) -> bool:
    """Return whether an index contains `_GITLINK_BYTES`; without them, no process has to look."""
    with suppress(FileNotFoundError):
        return _GITLINK_BYTES in index.read_bytes()
    return False


async def _names(baseline: Baseline, command: str, *words: str) -> set[str]:
    """Return the file names that a git command prints."""
    printed = await git(command, "-z", *words, env=baseline.env, cwd=baseline.work_tree)
    return {os.fsdecode(name) for name in printed.split(b"\0") if name}


# Comparing our index with the baseline.


async def _make_patch(baseline: Baseline) -> tuple[bytes | None, list[str]]:
    """Return the patch, or None if it is too long, and the files left out to shorten the patch."""
    patch = await _read_diff(baseline, [])
    if len(patch) <= PATCH_LIMIT:
        return patch, []
    words = ("--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
    raw = await git("diff-index", *words, baseline.tree, env=baseline.env)
    fields = raw.split(b"\0")[:-1]
    ids_before_and_after = {
        os.fsdecode(name): entry.split()[2:4]
        for entry, name in zip(fields[::2], fields[1::2], strict=True)
    }
    # Zeros stand for no file.
    ids = [id_ for pair in ids_before_and_after.values() for id_ in pair if id_.strip(b"0")]
    lines = b"".join(id_ + b"\n" for id_ in ids)
    out = await git("cat-file", "--batch-check=%(objectsize)", env=baseline.env, stdin=lines)
    size_of = {
        id_: int(size) for id_, size in zip(ids, out.splitlines(), strict=False) if size.isdigit()
    }
    sizes = {
        name: max((size_of.get(id_, 0) for id_ in pair), default=0)
        for name, pair in ids_before_and_after.items()
    }
    for part in (4, 16, 64, 256):  # rather a few very large files than many large files
        large = [name for name, size in sizes.items() if size > PATCH_LIMIT // part]
        if 0 < len(large) <= MOST_LEFT_OUT:
            patch = await _read_diff(baseline, large)
            if len(patch) <= PATCH_LIMIT:
                return patch, large
    return None, []


async def _read_diff(baseline: Baseline, without: list[str]) -> bytes:
    words = ("--cached", "-p", "--binary", "--full-index", "-M")
    safe = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
    specs = (":/", *(f":(exclude,top,literal){name}" for name in without))
    arguments = (*words, *safe, baseline.tree, "--", *specs)
    env, cwd = baseline.env, baseline.work_tree
    return await git("diff-index", *arguments, env=env, cwd=cwd, limit=PATCH_LIMIT)


async def _newly_ignored(baseline: Baseline) -> list[str]:
    """Return the files that rules of the task ignore. A directory whose own ``.gitignore`` ignores
    the whole directory, like ``.venv``, does not count."""
    changed = ("--cached", "--name-only", baseline.tree, "--", ":(glob,top)**/.gitignore")
    rules = await _names(baseline, "diff-index", *changed)
    words = ("--others", "--ignored", "--exclude-standard")
    rules |= await _names(baseline, "ls-files", *words, "--", ":(top,literal).gitignore")
    if not rules:
        return []
    ignored = await _names(baseline, "ls-files", *words)
    return [name for rule, name in await _rules_and_names(baseline, ignored) if rule in rules]


async def _rules_and_names(baseline: Baseline, names: set[str]) -> list[tuple[str, str]]:
    """Return a pair for each ignored name: the file with the rule, and the name."""
    stdin = os.fsencode("".join(f"{name}\0" for name in names))
    words = ("-v", "-z", "--stdin")
    env, cwd = baseline.env, baseline.work_tree
    try:
        out = await git("check-ignore", *words, env=env, cwd=cwd, stdin=stdin)
    except GitFailed as error:
        if error.code != 1:  # 1: none of the names is ignored
            raise
        return []
    # For each name four fields: the rule's file, line and pattern, then the name.
    fields = list(map(os.fsdecode, out.split(b"\0")))[:-1]
    return list(zip(fields[::4], fields[3::4], strict=True))
