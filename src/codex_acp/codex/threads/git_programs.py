"""The programs that a directory's own git configuration would have Codex run, found without git.

Codex runs ``git status`` in the directory of a thread, outside of any sandbox: with each turn, with
``thread/fork`` and ``thread/resume``. Filters, helpers and such that the configuration in the
directory names run then. What the user has configured for all directories is not looked at.

Reads files only, of a bounded number and size; what cannot be read so is told as if it named a
program. Who is asked, and what is remembered of the answer, is not known here.
Source: gitrepository-layout(5), git-config(1), setup.c and config.c of git.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp.codex.threads.git_config import (
    MAX_ENTRIES,
    GitProgram,
    includes,
    parse,
    programs,
    submodules,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex.threads.git_config import Entries

LOOK_SECONDS: Final = 30.0
"""How long a look may take: a file system may hang."""

MAX_CONFIG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all configuration files together; a repository with a thousand branches has 200 kB."""

MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
"""Bytes of one index: a million files."""

MAX_LINE_BYTES: Final = 8192
"""Bytes of a ``.git`` file or a ``commondir``: twice the longest path."""

MAX_FILES: Final = 8192
MAX_REPOSITORIES: Final = 512
"""A repository and its sub-modules, whatever their depth."""

MAX_LINKS: Final = 40
"""Symbolic links in one path; as many as Linux follows."""

MAX_INCLUDES: Final = 10
"""How deep includes go; git gives up there, too."""

_HEAD: Final = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")
_ELSEWHERE: Final = ("/proc", "/dev/fd")
"""Directories whose paths lead elsewhere in each process."""

Stamp: TypeAlias = "tuple[int, ...] | None"


class Look(NamedTuple):
    """Programs that were found for one directory, and the files that were read."""

    programs: tuple[GitProgram, ...]
    stamps: tuple[tuple[str, Stamp], ...]
    """Files that were looked at, missing ones too, and each one's state in the file system."""

    @property
    def holds(self) -> bool:
        """Whether all of that looks as it did."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps)


def look(directory: str) -> Look:
    """Find the programs that git would run for a directory."""
    return _Reader().run(directory)


async def look_within(
    directory: str, in_thread: Callable[[Callable[[], Look]], Awaitable[Look]]
) -> Look:
    """Look by ``in_thread``; a look that fails or takes too long finds that nobody can tell."""
    import asyncio  # not for who only looks, before anything runs

    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await in_thread(lambda: look(directory))
    except Exception as error:  # noqa: BLE001 - what could not be looked at could name any
        why = "it cannot be read in time" if isinstance(error, TimeoutError) else repr(error)
        git = os.path.join(directory, ".git")  # noqa: PTH118
        return Look((GitProgram(git, "", why),), ((directory, ()),))  # which never holds


def _stamp(path: str) -> Stamp:
    try:
        s = os.stat(path)  # noqa: PTH116 - no pathlib before a session is open, as all below
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(s.st_mode):  # what is in it has stamps of its own
        return (s.st_ino, s.st_dev)
    return (s.st_ino, s.st_dev, s.st_mtime_ns, s.st_ctime_ns, s.st_size)


class _UnreadableError(Exception):
    """A file that may say anything; why it cannot be read."""


class _Reader:
    """Reads for one look."""

    def __init__(self) -> None:
        self._found: list[GitProgram] = []
        self._stamps: dict[str, Stamp] = {}
        self._bytes_left, self._entries_left = MAX_CONFIG_BYTES, MAX_ENTRIES
        self._todo: list[tuple[str, str]] = []
        self._seen: set[tuple[str, str]] = set()

    def run(self, directory: str) -> Look:
        self._discover(os.path.realpath(directory))
        while self._todo:
            git, tree = self._todo.pop()
            if (git, tree) in self._seen:
                continue
            if len(self._seen) == MAX_REPOSITORIES:
                self._unreadable(git, "it is one of too many sub-modules")
                break
            self._seen.add((git, tree))
            self._repository(git, tree)
        return Look(tuple(dict.fromkeys(self._found)), tuple(self._stamps.items()))

    def _unreadable(self, path: str, why: str) -> None:
        self._found.append(GitProgram(path, "", why))

    # Which repositories.

    def _discover(self, path: str) -> None:
        """Note each repository that git may take the directory to be in, the nearest first."""
        while True:
            git = self._git_of(path)
            if git is not None:
                self._todo.append((git, path))
            bare = git is None and self._place(os.path.join(path, "HEAD")) is not None  # noqa: PTH118
            if bare and self._place(os.path.join(path, "objects")) is not None:  # noqa: PTH118
                git = path
                self._todo.append((path, path))
            parent = os.path.dirname(path)  # noqa: PTH120
            if parent == path or (git is not None and self._surely(git)):
                return
            path = parent

    def _git_of(self, tree: str) -> str | None:
        """Return the directory that git keeps of a work tree, None if it has none of its own."""
        git = os.path.join(tree, ".git")  # noqa: PTH118
        place = self._place(git)
        if place is None:
            return None
        if os.path.isdir(place):  # noqa: PTH112
            return git
        said = self._line(git)
        if said is None or not said.startswith("gitdir: "):
            return None
        return os.path.join(tree, said.removeprefix("gitdir: "))  # noqa: PTH118

    def _surely(self, git: str) -> bool:
        """Whether git surely takes it for one, and looks no further."""
        head = self._read(os.path.join(git, "HEAD"), 256, cut=True)  # noqa: PTH118
        common = self._common(git)
        inside = (os.path.join(common, name) for name in ("objects", "refs"))  # noqa: PTH118
        return head is not None and bool(_HEAD.match(head)) and all(map(os.path.isdir, inside))

    def _common(self, git: str) -> str:
        """Return the directory that has the configuration: the main one of a linked work tree."""
        said = self._line(os.path.join(git, "commondir"))  # noqa: PTH118
        return git if said is None else os.path.join(git, said)  # noqa: PTH118

    # One repository.

    def _repository(self, git: str, tree: str) -> None:
        common = self._common(git)
        files: list[tuple[str, Entries]] = []
        first = os.path.join(common, "config")  # noqa: PTH118
        for path in (first, os.path.join(git, "config.worktree")):  # noqa: PTH118
            self._config(path, files)
        self._found += programs(files)
        entries = [entry for _, found in files for entry in found]
        own = [entry for path, found in files[:1] if path == first for entry in found]
        formats = [*values(own, "extensions.objectformat")]  # git heeds no other file, and the last
        hash_bytes = 32 if formats[-1:] == ["sha256"] else 20
        trees = [tree, *(os.path.join(git, each) for each in values(entries, "core.worktree"))]  # noqa: PTH118
        for path, left_out in self._submodules(git, hash_bytes):
            for root in trees:
                below = os.path.join(root, path)  # noqa: PTH118
                if left_out:
                    if self._place(below) is not None:
                        self._unreadable(below, "the index leaves it out, yet it is there")
                elif (inside := self._git_of(below)) is not None:
                    self._todo.append((inside, below))

    def _config(self, path: str, files: list[tuple[str, Entries]], depth: int = 0) -> None:
        """Read one file and all that it includes."""
        data = self._read(path, self._bytes_left)
        if data is None:
            return
        self._bytes_left -= len(data)
        try:
            entries = parse(data, self._entries_left)
        except ValueError as error:
            self._unreadable(path, str(error))
            return
        self._entries_left -= len(entries)
        files.append((path, entries))
        for included in includes(entries):
            if depth == MAX_INCLUDES:
                self._unreadable(path, f"its includes are more than {MAX_INCLUDES} deep")
            elif included.startswith(("%(", ":(")):
                self._unreadable(path, f"what it includes depends on git: {included}")
            else:
                where = os.path.join(os.path.dirname(path), os.path.expanduser(included))  # noqa: PTH111, PTH118, PTH120
                self._config(where, files, depth + 1)

    def _submodules(self, git: str, hash_bytes: int) -> list[tuple[str, bool]]:
        """Return the paths that git looks at, too, as `submodules` does."""
        index = os.path.join(git, "index")  # noqa: PTH118
        found: list[tuple[str, bool]] = []
        data = self._read(index, MAX_INDEX_BYTES)
        if data is None:
            return found
        names = [index]
        if b"link" in data:  # most of it may be in another file
            names += self._shared(git)
        for path in names:
            more = data if path is index else self._read(path, MAX_INDEX_BYTES)
            if more is not None:
                try:
                    found += submodules(more, hash_bytes)
                except ValueError as error:
                    self._unreadable(path, str(error))
        return found

    def _shared(self, git: str) -> list[str]:
        found: list[str] = []
        with os.scandir(git) as listed:
            for count, entry in enumerate(listed):
                if count == MAX_FILES:
                    self._unreadable(git, "it has too many files")
                    break
                if entry.name.startswith("sharedindex."):
                    found.append(entry.path)
        return found

    # Files.

    def _place(self, path: str) -> str | None:
        """Return where a path leads; None if nothing is there, or if nobody can tell."""
        if len(self._stamps) > MAX_FILES:
            return None
        self._stamps[path] = stamp = _stamp(path)
        if len(self._stamps) > MAX_FILES:
            self._unreadable(path, "it is one of too many files")
            return None
        try:
            place = _resolved(path)
        except _UnreadableError as error:
            self._unreadable(path, str(error))
            return None
        return None if stamp is None else place

    def _line(self, path: str) -> str | None:
        """Return what a small file says; None if it is none, or not there."""
        data = self._read(path, MAX_LINE_BYTES)
        if data is None:
            return None
        return os.fsdecode(data.rstrip(b"\r\n").partition(b"\0")[0])  # git takes it as a text of C

    def _read(self, path: str, most: int, *, cut: bool = False) -> bytes | None:
        """Return the bytes of a file, None without one, or if it cannot be read, which is noted."""
        place = self._place(path)
        if place is None:
            return None
        try:
            return _bytes(place, most, cut=cut)
        except _UnreadableError as error:
            self._unreadable(path, str(error))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._unreadable(path, f"it cannot be read: {error.strerror}")
        return None


def _bytes(path: str, most: int, *, cut: bool) -> bytes:
    """Read one file that has no more bytes than that. Raises _UnreadableError, OSError."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe, which would not end
            raise _UnreadableError("it is no regular file")
        data = b""
        while len(data) <= most and (more := os.read(file, most + 1 - len(data))):
            data += more
    finally:
        os.close(file)
    if len(data) > most and not cut:
        raise _UnreadableError(f"it is too large: no more than {most} bytes are read")
    return data


def _resolved(path: str) -> str:
    """Follow the links in a path, none to where processes differ. Raises _UnreadableError."""
    done, links = "/", 0
    todo = path.split("/")[::-1]
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)  # noqa: PTH120
            continue
        step = os.path.join(done, name)  # noqa: PTH118
        if step in _ELSEWHERE:
            raise _UnreadableError(f"its path leads through {step}")
        try:
            target = os.readlink(step)  # noqa: PTH115
        except OSError:  # no link, or nothing
            done = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise _UnreadableError("its path has too many links")
        todo += target.split("/")[::-1]
        if target.startswith("/"):
            done = "/"
    return done
