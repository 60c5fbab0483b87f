"""The programs that a directory's own git configuration would have Codex run, found without git.

Codex runs ``git status`` in the directory of a thread, outside of any sandbox: with each turn, with
``thread/fork`` and ``thread/resume``. Filters, helpers and such that the configuration in the
directory names run then. What the user has configured for all directories is not looked at.

Reads files only, of a bounded number and size; what cannot be read so is told as if it named a
program. Who is asked, and what is remembered of the answer, is not known here.

The second half reads configurations and indexes as git does (config.c and read-cache.c of git 2.39
to 2.51): git itself would run what they name. What git would refuse to read is a ValueError there.
A key names a program by its last word, in whichever section: a key that a later git brings is
found, too. Left out are sections whose programs git runs for a person alone (``alias``,
``difftool`` and such), and what Codex switches off itself (hooks).
Source: git-config(1), gitattributes(5), gitremote-helpers(7), gitformat-index(5),
gitrepository-layout(5), setup.c of git.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from struct import Struct, iter_unpack
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp.codex.threads.opening import GitProgram

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator


LOOK_SECONDS: Final = 30.0
"""Seconds that a look may take: a file system may hang."""

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
"""Depth of includes at which git gives up, too."""

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
        formats = [*_values_of(own, "extensions.objectformat")]  # git heeds the last, of no other
        hash_bytes = 32 if formats[-1:] == ["sha256"] else 20
        trees = [tree, *(os.path.join(git, each) for each in _values_of(entries, "core.worktree"))]  # noqa: PTH118
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
        for name, included in entries:  # whatever the conditions of a path say
            section, sub, key = _name_parts(name)
            is_path = name == "include.path" or (section == "includeif" and sub and key == "path")
            if not included or not is_path:
                continue
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
            file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe, which would not end
                    self._unreadable(path, "it is no regular file")
                    return None
                data = b""
                while len(data) <= most and (more := os.read(file, most + 1 - len(data))):
                    data += more
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._unreadable(path, f"it cannot be read: {error.strerror}")
            return None
        if len(data) > most and not cut:
            self._unreadable(path, f"it is too large: no more than {most} bytes are read")
            return None
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


Entries: TypeAlias = "list[tuple[str, str | None]]"
"""Names, ``section.sub section.key``, with their values; None: the key stands alone."""


# Configurations and indexes, as git reads them.

_BLANK: Final = re.compile(r"(?:[ \t\n\r]++|[#;][^\n]*+)*+")
_SECTION: Final = re.compile(r'\[(?!\])([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_PIECE: Final = re.compile(r'[^\\"\n;#]+|\\(?:\n|\Z|[tbn"\\])|["\n;#]')
_ESCAPES: Final = {"\\t": "\t", "\\b": "\b", "\\n": "\n", "\\\n": ""}
_ESCAPED: Final = re.compile(r"\\(.)")

_PROGRAM: Final = re.compile(
    r"(?:clean|smudge|process|driver|textconv|external|vcs|uploadpack|receivepack|askpass|gitproxy"
    r"|.*command|.*cmd|.*program|.*helper|.*hook)\Z"
)
"""The last word of a key that names a program."""
_BY_HAND: Final = re.compile(
    r"(?:alias|browser|difftool|guitool|man|mergetool|pager|sendemail|tar|trailer)\Z"
)
"""Sections whose programs git runs for a person alone."""
_BOOLEAN: Final = re.compile(r"(?:|true|false|yes|no|on|off|[0-9]+[kmg]?)\Z", re.IGNORECASE)
_ALLOWS_HELPERS: Final = frozenset({"protocol.allow", "protocol.ext.allow"})

_LFS: Final = re.compile(
    r"git[- ]lfs (?:clean(?: --)? %f|smudge(?: --skip)?(?: --)? %f|filter-process(?: --skip)?)\Z"
)
"""Values that ``git lfs install`` writes, in all of its versions."""

_NETWORK: Final = re.compile(r"(?:https?|ssh|git|git\+ssh|ssh\+git|ftps?)://|[^/:]+:(?!:|//)")
"""A URL of which git itself knows how to fetch, and which is no path of this machine."""
_HELPER: Final = re.compile(r"[A-Za-z0-9.+-]*::|(?!file://)[A-Za-z0-9.+-]+://")
"""A URL for which git runs ``git-remote-NAME``, if it is none of the others."""


MAX_ENTRIES: Final = 100_000
"""Entries of all configuration files together; a branch has three."""


def parse(data: bytes, most: int = MAX_ENTRIES) -> Entries:
    """Read the entries of one file, without its includes.

    Raises ValueError where git stops, and for more than ``most`` entries.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    text = text.replace("\r\n", "\n")
    entries: Entries = []
    section, at = "", 0  # with the dot behind it
    while True:
        if blank := _BLANK.match(text, at):
            at = blank.end()
        if at == len(text):
            return entries
        if header := _SECTION.match(text, at):
            section, sub = header[1].lower() + ".", header[2]
            if sub is not None:
                section += _ESCAPED.sub(r"\1", sub) + "."
            at = header.end()
            continue
        key = _KEY.match(text, at)
        if key is None:
            raise ValueError(_where(text, at))
        at, value = key.end(), None
        if text[at : at + 1] == "=":
            value, at = _value(text, at + 1)
        elif at < len(text) and text[at] != "\n":
            raise ValueError(_where(text, at))
        name = f"{section}{key[1].lower()}".partition("\0")[0]  # git takes both as texts of C
        entries.append((name, value and value.partition("\0")[0]))
        if len(entries) > most:
            raise ValueError(f"it is too long: no more than {MAX_ENTRIES} entries are read")


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins here, and where its line ends."""
    pieces: list[str] = []
    begin, quoted = at, False
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise ValueError(_where(text, at))
        found = piece[0]
        if found == "\n" or (found in ";#" and not quoted):
            if quoted:
                raise ValueError(_where(text, at))
            break
        at = piece.end()
        if found == '"':
            quoted = not quoted
        elif found[0] == "\\":
            pieces.append(_ESCAPES.get(found, found[1:]))
        else:
            pieces.append(found)
    if quoted:
        raise ValueError(_where(text, begin))
    return "".join(pieces).strip(" \t\r"), at


def _where(text: str, at: int) -> str:
    return f"its line {text.count(chr(10), 0, at) + 1} is none of a git configuration"


def _name_parts(name: str) -> tuple[str, str, str]:
    """Return section, sub-section and key of a name."""
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    return section, sub, key


def _values_of(entries: Entries, wanted: str) -> Iterator[str]:
    """Yield the values of one key."""
    return (value for name, value in entries if name == wanted and value)


def programs(found: Iterable[tuple[str, Entries]]) -> list[GitProgram]:
    """Return what is named in the files of one repository that is not known to do no harm."""
    files = [
        (file, name, *_name_parts(name), value) for file, known in found for name, value in known
    ]
    named = [
        GitProgram(file, name, value)
        for file, name, section, sub, key, value in files
        if value and _is_program(section, sub, key, value)
    ]
    fetched = {
        sub or value or "": GitProgram(file, name, value or "true")
        for file, name, section, sub, key, value in files
        if (section == "remote" and sub and key in ("promisor", "partialclonefilter"))
        or name == "extensions.partialclone"
    }
    for remote, program in fetched.items():  # git fetches by itself what is missing
        urls = [
            value
            for *_, section, sub, key, value in files
            if section == "remote" and sub == remote and key == "url" and value
        ]
        if not urls or not all(map(_NETWORK.match, urls)):
            where = ", ".join(urls) or remote
            named.append(program._replace(value=f"fetches missing objects from {where}"))
    return list(dict.fromkeys(named))


def _is_program(section: str, sub: str, key: str, value: str) -> bool:
    name = f"{section}.{sub}.{key}" if sub else f"{section}.{key}"
    if section == "remote" and key in ("url", "pushurl"):
        return bool(_HELPER.match(value)) and not _NETWORK.match(value)
    if section == "url":
        return key in ("insteadof", "pushinsteadof") and not _NETWORK.match(sub)
    if name in _ALLOWS_HELPERS:
        return value != "never"
    if _BOOLEAN.match(value) or _BY_HAND.match(section):
        return False
    if section == "filter" and sub == "lfs" and _LFS.match(value):
        return False
    return name == "core.fsmonitor" or bool(_PROGRAM.match(key))


# The index.

_KIND: Final = 0o170000
"""Bits of a mode that say what an entry is; git looks at no others for that."""
_GITLINK: Final = 0o160000
_DIRECTORY: Final = 0o040000
_FIXED: Final = 40
"""Bytes of an entry before its object's name; its mode is at 24."""
_NAME_LENGTH: Final = 0xFFF
"""Bits of an entry's flags that have the length of its name, or this for all that is longer."""
_MORE_FLAGS: Final = 0x4000
_NO_INDEX: Final = "it is no index as git writes it"


def submodules(index: bytes, hash_bytes: int) -> Iterator[tuple[str, bool]]:
    """Yield the paths of the sub-modules, and of directories whose files the index leaves out.

    True for such a directory: git reads its files, and sub-modules, from objects if it is there.
    Raises ValueError for what is no index, and for what git could read otherwise than this: it
    takes the length of a name from the flags, and the places of entries from a table.
    """
    for mode, name in _entries(index, hash_bytes):
        kind = mode & _KIND
        if kind in (_GITLINK, _DIRECTORY):
            if not name:  # it stands in another file, beside an entry of any kind
                raise ValueError("it is split, and changes a sub-module")
            yield name.decode("utf-8", "surrogateescape"), kind == _DIRECTORY


def _entries(index: bytes, hash_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield mode and name of each entry. Raises ValueError as `submodules`."""
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("it is no index of git")
    head = Struct(f">24xI12x{hash_bytes}xH")
    at, name = 12, b""
    for start, entries in _blocks(index, count):
        if start != at:
            raise ValueError(_NO_INDEX)
        for number in range(entries):
            begin = at + head.size
            mode, flags = head.unpack_from(index, at) if begin <= len(index) else (0, 0)
            if flags & _MORE_FLAGS and version > 2:
                begin += 2
            kept = b""
            if version == 4:
                cut, begin = _offset(index, begin)
                if cut > len(name) or (number == 0 and cut < len(name)):
                    raise ValueError(_NO_INDEX)
                kept = name[: len(name) - cut]
            end = index.find(b"\0", begin)
            name = kept + index[begin:end]
            read = min(len(name), _NAME_LENGTH) | (flags & _MORE_FLAGS if version > 2 else 0)
            if end < 0 or read != flags & (_NAME_LENGTH | _MORE_FLAGS):
                raise ValueError(_NO_INDEX)
            yield mode, name
            at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8


def _blocks(index: bytes, count: int) -> list[tuple[int, int]]:
    """Return where git may begin to read entries, and how many there (`index.threads`)."""
    tables, found = [[(12, count)]], -1
    while (found := index.find(b"IEOT", found + 1)) >= 0:
        size, version = (int.from_bytes(index[found + n : found + n + 4], "big") for n in (4, 8))
        table = index[found + 12 : found + 8 + size]
        if version == 1 and found + 8 + size <= len(index) and len(table) >= 8:
            tables.append(list(iter_unpack(">II", table[: len(table) // 8 * 8])))
    if any(table != tables[-1] or sum(n for _, n in table) != count for table in tables[1:]):
        raise ValueError(_NO_INDEX)
    return tables[-1]


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length (gitformat-pack), and where it ends."""
    number = -1
    while at < len(data):
        byte = data[at]
        at += 1
        number = (number + 1) << 7 | byte & 0x7F
        if not byte & 0x80:
            return number, at
    raise ValueError("it is no index of git")
