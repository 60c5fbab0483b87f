"""Find the programs that git would run because of a directory's own git configuration.

Codex runs ``git status`` in the directory of a thread, outside of any sandbox: with each turn, with
``thread/fork`` and ``thread/resume``. Git then runs the filters and helpers that the directory's
configuration names. The user's configuration for all directories does not count.

Never runs git, because git could run the programs: only reads files, of a bounded number and size.
An unreadable file counts as one that names a program. Must not know whose consent is asked.

The second half parses configurations and indexes as git does (config.c and read-cache.c of git 2.39
to 2.51), and raises ValueError where git refuses to read. The key after the last dot decides
whether an entry names a program, in any section: entries of later versions of git are found, too.
Left out are sections whose programs git runs only for a person (``difftool``), aliases that no
found program uses, and hooks, which Codex switches off itself.
Source: git-config(1), gitattributes(5), gitremote-helpers(7), gitformat-index(5),
gitrepository-layout(5), setup.c of git.
"""

# No pathlib here: it is not loaded before a session is open.
# ruff: noqa: PTH111, PTH112, PTH114, PTH116, PTH118, PTH120

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice
from struct import Struct, iter_unpack
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp._files import resolved, resolved_or_empty
from codex_acp._record import NamedTuple
from codex_acp.codex.threads.opening import GitProgram

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator


LOOK_SECONDS: Final = 30.0
"""Seconds for one look, because a file system may hang."""

MAX_CONFIG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all configuration files together; a repository with a thousand branches has 200 kB."""

MAX_ENTRIES: Final = 100_000
"""Entries of all configuration files together; a branch has three."""

MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
"""Bytes of one index, enough for a million files."""

MAX_LINE_BYTES: Final = 8192
"""Bytes of a ``.git`` file or a ``commondir``: twice the longest path."""

MAX_FILES: Final = 8192
"""Files of one look, and files in one git directory."""

MAX_REPOSITORIES: Final = 512
"""Repositories of one look: a repository and its sub-modules of any depth."""

MAX_INCLUDES: Final = 10
"""Depth of includes, the same as git's own limit."""

_HEAD: Final = re.compile(rb"ref:[ \t\n\r]*refs/|[0-9a-f]{40}")
"""Begin of a ``HEAD`` that git accepts: a branch or a commit."""

Entries: TypeAlias = "list[tuple[str, str | None]]"
"""Pairs of name and value; the value is None for a key without one. A name is ``section.key``, or
``section.sub.key``, whose middle part may have blanks and dots."""

Stamp: TypeAlias = "tuple[int, ...] | None"
"""State of a file in the file system; None for a missing file."""


class Look(NamedTuple):
    """Programs that were found for one directory, and the files that were examined."""

    directory: str
    real: str | None
    """Where ``directory`` led at the time of the look: a link in its path may change. None: the
    look failed."""
    programs: tuple[GitProgram, ...]
    stamps: tuple[tuple[str, Stamp], ...]
    """Path and state of each examined file, even of missing ones."""

    @property
    def is_current(self) -> bool:
        """Whether the look succeeded, and the directory's place and all files are unchanged."""
        return (
            self.real is not None
            and resolved_or_empty(self.directory) == self.real
            and all(_stamp(path) == stamp for path, stamp in self.stamps)
        )


def look(directory: str) -> Look:
    """Find the programs that git would run for a directory."""
    return _Reader().run(directory)


async def look_within(
    directory: str, in_worker_thread: Callable[[Callable[[], Look]], Awaitable[Look]]
) -> Look:
    """Call `look` by ``in_worker_thread``, for at most `LOOK_SECONDS`. If the call fails, return a
    `Look` that is never current, with the whole ``.git`` as an unreadable file."""
    import asyncio  # `look` alone does not need it

    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await in_worker_thread(lambda: look(directory))
    except Exception as error:  # noqa: BLE001 - an unreadable directory could name any program
        why = "it cannot be read in time" if isinstance(error, TimeoutError) else repr(error)
        git = os.path.join(directory, ".git")
        return Look(directory, None, (GitProgram(git, "", why),), ())


def _stamp(path: str, *, follow: bool = True) -> Stamp:
    """Return the state of a file, or of a link that leads nowhere."""
    try:
        state = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return _stamp(path, follow=False) if follow else None
    if stat.S_ISDIR(state.st_mode):  # its files have stamps of their own
        return (state.st_ino, state.st_dev, state.st_mode)
    return (state.st_ino, state.st_dev, state.st_mtime_ns, state.st_ctime_ns, state.st_size)


class _Reader:
    """Reads the files of one look, within its bounds."""

    def __init__(self) -> None:
        self._found: list[GitProgram] = []
        self._stamps: dict[str, Stamp] = {}
        self._bytes_left, self._entries_left = MAX_CONFIG_BYTES, MAX_ENTRIES
        self._unread: list[tuple[str, str]] = []
        """Git directory and work tree of the repositories that are still to be read."""

    def run(self, directory: str) -> Look:
        real = resolved_or_empty(directory)
        if real:
            self._find_repositories(real)
        else:
            self._note_unreadable(directory, "where it leads cannot be found out")
        seen: set[tuple[str, str]] = set()
        while self._unread:
            git_dir, tree = self._unread.pop()
            if (git_dir, tree) in seen:
                continue
            if len(seen) == MAX_REPOSITORIES:
                self._note_unreadable(git_dir, "it is one of too many sub-modules")
                break
            seen.add((git_dir, tree))
            self._read_repository(git_dir, tree)
        programs = tuple(dict.fromkeys(self._found))
        return Look(directory, real, programs, tuple(self._stamps.items()))

    def _note_unreadable(self, path: str, why: str) -> None:
        self._found.append(GitProgram(path, "", why))

    # Repositories.

    def _find_repositories(self, path: str) -> None:
        """Note each repository that git may find in the directory or above, the nearest first."""
        while True:
            git_dirs = [self._git_dir_of(path)]
            # Git takes ``path`` for a bare repository if its ``.git`` is no repository.
            if self._place(os.path.join(path, "HEAD")):
                git_dirs.append(path)
            for git_dir in filter(None, git_dirs):
                self._unread.append((git_dir, path))
                if self._is_repository(git_dir):
                    return
            parent = os.path.dirname(path)
            if parent == path:
                return
            path = parent

    def _git_dir_of(self, tree: str) -> str | None:
        """Return the git directory of a work tree; None if it has none."""
        git = os.path.join(tree, ".git")
        place = self._place(git)
        if place is None:
            return None
        if os.path.isdir(place):
            return git
        line = self._line(git)
        if line is None or not line.startswith("gitdir: "):
            return None
        return os.path.join(tree, line.removeprefix("gitdir: "))

    def _is_repository(self, git_dir: str) -> bool:
        """Return whether git surely takes this for a repository: then git looks no further up."""
        path = os.path.join(git_dir, "HEAD")
        head = self._read(path, 255, cut=True)  # git reads no more
        if head is None or not _HEAD.match(head) or os.path.islink(path):
            return False  # git reads the path in a linked HEAD, and not the file there
        common = self._common_dir(git_dir)
        needed = (os.path.join(common, name) for name in ("objects", "refs"))
        return all(self._place(each) and os.access(each, os.X_OK) for each in needed)

    def _common_dir(self, git_dir: str) -> str:
        """Return the git directory with the configuration, another one for a linked work tree."""
        line = self._line(os.path.join(git_dir, "commondir"))
        return git_dir if line is None else os.path.join(git_dir, line)

    def _read_repository(self, git_dir: str, tree: str) -> None:
        """Find the programs of a repository, and note its sub-modules."""
        files: list[tuple[str, Entries]] = []
        main = os.path.join(self._common_dir(git_dir), "config")
        for path in (main, os.path.join(git_dir, "config.worktree")):
            self._read_config(path, files)
        self._found += programs(files)
        hash_bytes, trees = 20, [tree]  # 20: SHA-1
        for path, entries in files:
            for name, value in entries:
                if name == "core.worktree" and value:
                    trees.append(os.path.join(git_dir, value))
                elif name == "extensions.objectformat" and value and path == main:
                    hash_bytes = 32 if value == "sha256" else 20  # git uses the last value
        for path, is_left_out in self._submodules(git_dir, hash_bytes):
            for root in trees:
                submodule = os.path.join(root, path)
                if is_left_out and self._place(submodule) is not None:
                    self._note_unreadable(submodule, "the index leaves it out, yet it is there")
                elif not is_left_out and (its_git_dir := self._git_dir_of(submodule)) is not None:
                    self._unread.append((its_git_dir, submodule))

    def _read_config(self, path: str, files: list[tuple[str, Entries]], depth: int = 0) -> None:
        """Read one file and all that it includes into ``files``."""
        data = self._read(path, self._bytes_left)
        if data is None:
            return
        self._bytes_left -= len(data)
        try:
            entries = parse(data, self._entries_left)
        except ValueError as error:
            self._note_unreadable(path, str(error))
            return
        self._entries_left -= len(entries)
        files.append((path, entries))
        for name, included in entries:  # conditions of ``includeIf`` count as true
            section, sub, key = _name_parts(name)
            is_path = name == "include.path" or (section == "includeif" and sub and key == "path")
            if not included or not is_path:
                continue
            if depth == MAX_INCLUDES:
                self._note_unreadable(path, f"its includes are more than {MAX_INCLUDES} deep")
            elif included.startswith(("%(", ":(")):  # %(prefix), :(optional): git interprets them
                self._note_unreadable(path, f"what it includes depends on git: {included}")
            else:
                target = os.path.join(os.path.dirname(path), os.path.expanduser(included))
                self._read_config(target, files, depth + 1)

    def _submodules(self, git_dir: str, hash_bytes: int) -> list[tuple[str, bool]]:
        """Return the result of `submodules` for all index files of a git directory."""
        paths = [os.path.join(git_dir, "index")]
        found: list[tuple[str, bool]] = []
        for path in paths:  # the loop also visits the shared indexes that it adds
            data = self._read(path, MAX_INDEX_BYTES)
            if data is None:
                continue
            if path is paths[0] and b"link" in data:  # a split index: entries are in other files
                paths += self._shared_indexes(git_dir)
            try:
                found += submodules(data, hash_bytes)
            except ValueError as error:
                self._note_unreadable(path, str(error))
        return found

    def _shared_indexes(self, git_dir: str) -> list[str]:
        with os.scandir(git_dir) as entries:
            files = [*islice(entries, MAX_FILES + 1)]
        if len(files) > MAX_FILES:
            self._note_unreadable(git_dir, "it has too many files")
        return [file.path for file in files[:MAX_FILES] if file.name.startswith("sharedindex.")]

    # Files.

    def _place(self, path: str) -> str | None:
        """Return where a path leads; None if nothing is there, or if it is noted as unreadable."""
        if len(self._stamps) > MAX_FILES:  # noted already
            return None
        self._stamps[path] = stamp = _stamp(path)
        if len(self._stamps) > MAX_FILES:
            self._note_unreadable(path, "it is one of too many files")
            return None
        try:
            place = resolved(path)
        except OSError as error:
            self._note_unreadable(path, str(error.strerror))
            return None
        return None if stamp is None else place

    def _line(self, path: str) -> str | None:
        """Return the line in a small file; None if the file is missing or unreadable."""
        data = self._read(path, MAX_LINE_BYTES)
        if data is None:
            return None
        return os.fsdecode(data.rstrip(b"\r\n").partition(b"\0")[0])  # git reads up to a NUL

    def _read(self, path: str, limit: int, *, cut: bool = False) -> bytes | None:
        """Return the bytes of a file; None if the file is missing, or noted as unreadable. A file
        with more than ``limit`` bytes is unreadable, or with ``cut`` is cut off there."""
        place = self._place(path)
        if place is None:
            return None
        try:
            file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe may never end
                    self._note_unreadable(path, "it is no regular file")
                    return None
                data = b""
                while len(data) <= limit and (more := os.read(file, limit + 1 - len(data))):
                    data += more
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._note_unreadable(path, f"it cannot be read: {error.strerror}")
            return None
        if len(data) > limit and not cut:
            self._note_unreadable(path, f"it is too large: no more than {limit} bytes are read")
            return None
        return data[:limit]


# Configurations and indexes, as git reads them.

# `++` and `*+` never step back, so that a hostile file takes no more time than others.
_BLANK: Final = re.compile(r"(?:[ \t\n\r]++|[#;][^\n]*+)*+")
"""Blanks and comments."""
_SECTION: Final = re.compile(r'\[(?!\])([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
"""``[section]``, ``[section.sub]`` or ``[section "sub"]``; group 2 is the text in quotes."""
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_PIECE: Final = re.compile(r'[^\\"\n;#]+|\\(?:\n|\Z|[tbn"\\])|["\n;#]')
"""A piece of a value: plain text, an escape, or a sign with a meaning."""
_ESCAPES: Final = {"\\t": "\t", "\\b": "\b", "\\n": "\n", "\\\n": ""}
_ESCAPED: Final = re.compile(r"\\(.)")

_PROGRAM_KEY: Final = re.compile(
    r"(?:clean|smudge|process|driver|textconv|external|vcs|uploadpack|receivepack|askpass|gitproxy"
    r"|.*command|.*cmd|.*program|.*helper|.*hook)\Z"
)
"""Keys that name a program."""
_SECTION_FOR_PERSONS: Final = re.compile(
    r"(?:advice|alias|browser|difftool|guitool|man|mergetool|pager|sendemail|tar|trailer)\Z"
)
"""Sections whose programs git runs only for a person; ``advice`` has only booleans."""
_WORD: Final = re.compile(r"[\w.-]+")
_BOOLEAN: Final = re.compile(r"(?:true|false|yes|no|on|off|0|1)\Z", re.IGNORECASE)
_ALLOWS_HELPERS: Final = frozenset({"protocol.allow", "protocol.ext.allow"})
"""Names of entries that can allow URLs by which git runs a program."""

_LFS: Final = re.compile(
    r"git[- ]lfs (?:clean(?: --)? %f|smudge(?: --skip)?(?: --)? %f|filter-process(?: --skip)?)\Z"
)
"""Values that ``git lfs install`` writes, in all of its versions."""

_NETWORK: Final = re.compile(r"(?:https?|ssh|git|git\+ssh|ssh\+git|ftps?)://|[^/:]+:(?!:|//)")
"""URLs of other machines, also ``host:path``, from which git fetches without a helper."""
_HELPER: Final = re.compile(r"[A-Za-z0-9.+-]*::|(?!file://)[A-Za-z0-9.+-]+://")
"""URLs for which git runs ``git-remote-NAME``, unless `_NETWORK` matches."""


def parse(data: bytes, limit: int = MAX_ENTRIES) -> Entries:
    """Read the entries of one file, without its includes. Raises ValueError where git stops, and
    for more than ``limit`` entries."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    text = text.replace("\r\n", "\n")
    entries: Entries = []
    section, at = "", 0  # ``section`` will end with a dot, ``at`` is the place of the next sign
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
            raise _invalid_line(text, at)
        at, value = key.end(), None
        if text[at : at + 1] == "=":
            value, at = _value(text, at + 1)
        elif at < len(text) and text[at] != "\n":
            raise _invalid_line(text, at)
        name = f"{section}{key[1].lower()}".partition("\0")[0]  # git reads strings up to a NUL
        entries.append((name, value and value.partition("\0")[0]))
        if len(entries) > limit:
            raise ValueError(f"it is too long: no more than {MAX_ENTRIES} entries are read")


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins at ``at``, and the end of its line."""
    pieces: list[str] = []
    begin, quoted = at, False
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise _invalid_line(text, at)
        piece = match[0]
        if piece == "\n" or (piece in ";#" and not quoted):
            if quoted:
                raise _invalid_line(text, at)
            break
        at = match.end()
        if piece == '"':
            quoted = not quoted
        elif piece[0] == "\\":
            pieces.append(_ESCAPES.get(piece, piece[1:]))
        else:
            pieces.append(piece)
    if quoted:
        raise _invalid_line(text, begin)
    return "".join(pieces).strip(" \t\r"), at


def _invalid_line(text: str, at: int) -> ValueError:
    line = text.count("\n", 0, at) + 1
    return ValueError(f"its line {line} is none of a git configuration")


def _name_parts(name: str) -> tuple[str, str, str]:
    """Split a name into section, sub-section and key."""
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    return section, sub, key


def programs(files: Iterable[tuple[str, Entries]]) -> list[GitProgram]:
    """Return the programs named in the files of one repository, except safe ones."""
    named: list[GitProgram] = []
    aliases: list[tuple[str, GitProgram]] = []
    urls: dict[str, list[str]] = {}
    partial_clones: dict[str, tuple[str, str]] = {}
    """Remote of a partial clone → file and name of the entry that makes it one."""
    for file, entries in files:
        for name, value in entries:
            section, sub, key = _name_parts(name)
            if value and _is_program(section, sub, key, value):
                named.append(GitProgram(file, name, value))
            if value and section == "alias":
                word = sub.lower() or key  # ``alias.WORD.command`` or ``alias.WORD``
                aliases.append((word, GitProgram(file, name, value)))
            if value and section == "remote" and key == "url":
                urls.setdefault(sub, []).append(value)
            is_promisor = section == "remote" and sub and key in ("promisor", "partialclonefilter")
            if is_promisor:
                partial_clones[sub] = (file, name)
            elif name == "extensions.partialclone":
                partial_clones[value or ""] = (file, name)
    # Values that `_LFS` matches are left out above, but run this alias.
    named += [alias for word, alias in aliases if word == "lfs"]
    for each in named:  # the loop also visits the aliases that it adds: an alias may use another
        words = _WORD.findall(each.value.lower())
        named += [alias for word, alias in aliases if word in words and alias not in named]
    for remote, (file, name) in partial_clones.items():  # git fetches missing objects unasked
        sources = urls.get(remote, [])
        if not sources or not all(map(_NETWORK.match, sources)):
            why = f"fetches missing objects from {', '.join(sources) or remote}"
            named.append(GitProgram(file, name, why))
    return list(dict.fromkeys(named))


def _is_program(section: str, sub: str, key: str, value: str) -> bool:
    name = f"{section}.{sub}.{key}" if sub else f"{section}.{key}"
    if section == "remote" and key in ("url", "pushurl"):
        return bool(_HELPER.match(value)) and not _NETWORK.match(value)
    if section == "url":
        return key in ("insteadof", "pushinsteadof") and not _NETWORK.match(sub)
    if name in _ALLOWS_HELPERS:
        return value != "never"
    if name == "core.fsmonitor":  # may be a boolean; elsewhere `yes` is the name of a program
        return not _BOOLEAN.match(value)
    if _SECTION_FOR_PERSONS.match(section):
        return False
    if section == "filter" and sub == "lfs" and _LFS.match(value):
        return False
    return bool(_PROGRAM_KEY.match(key))


# The index.

_KIND_BITS: Final = 0o170000
"""Bits of a mode by which git finds the kind of an entry."""
_GITLINK: Final = 0o160000
_DIRECTORY: Final = 0o040000
_NAME_LENGTH_BITS: Final = 0xFFF
"""Bits of an entry's flags with the length of its name; all bits are set for a longer name."""
_MORE_FLAGS: Final = 0x4000
"""Bit of an entry's flags: two more bytes of flags follow (version 3 and 4)."""
_NO_INDEX: Final = "it is no index as git writes it"


def submodules(index: bytes, hash_bytes: int) -> Iterator[tuple[str, bool]]:
    """Yield the paths of sub-modules (False), and of directories that the index leaves out (True).

    If a left-out directory exists, git reads its files and sub-modules from objects. Raises
    ValueError for data that is no index, or whose flags or table contradict the entries: git takes
    the length of a name from the flags, and the places of entries from the table.
    """
    for mode, name in _entries(index, hash_bytes):
        kind = mode & _KIND_BITS
        if kind in (_GITLINK, _DIRECTORY):
            if not name:  # replaces an entry of the shared index, which has the name
                raise ValueError("it is split, and changes a sub-module")
            yield name.decode("utf-8", "surrogateescape"), kind == _DIRECTORY


def _entries(index: bytes, hash_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield mode and name of each entry. Raises ValueError as `submodules` does."""
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("it is no index of git")
    # Skip times and place; mode; skip owner and size; skip the hash; flags.
    head = Struct(f">24xI12x{hash_bytes}xH")
    at, name = 12, b""
    for start, entries in _blocks(index, count):
        if start != at:
            raise ValueError(_NO_INDEX)
        for number in range(entries):
            begin = at + head.size
            # (0, 0): the entry is cut off, and the search for its name fails below.
            mode, flags = head.unpack_from(index, at) if begin <= len(index) else (0, 0)
            if flags & _MORE_FLAGS and version > 2:
                begin += 2
            prefix = b""
            if version == 4:  # a name shares a prefix with the name before it
                cut, begin = _offset(index, begin)
                # The first name of a block shares nothing: git may begin to read there.
                if cut > len(name) or (number == 0 and cut < len(name)):
                    raise ValueError(_NO_INDEX)
                prefix = name[: len(name) - cut]
            end = index.find(b"\0", begin)
            name = prefix + index[begin:end]
            length = min(len(name), _NAME_LENGTH_BITS)
            is_wrong = flags & _NAME_LENGTH_BITS != length
            if end < 0 or is_wrong or (version == 2 and flags & _MORE_FLAGS):
                raise ValueError(_NO_INDEX)
            yield mode, name
            # Before version 4, NULs fill each entry up to a multiple of eight bytes.
            at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8


def _blocks(index: bytes, count: int) -> list[tuple[int, int]]:
    """Return offset and number of entries of each block that git may read (`index.threads`). Every
    ``IEOT`` in the data could begin git's table of blocks: all these tables must be equal."""
    tables, offset = [[(12, count)]], -1  # without a table: one block after the header
    while (offset := index.find(b"IEOT", offset + 1)) >= 0:
        size, version = (int.from_bytes(index[offset + n : offset + n + 4], "big") for n in (4, 8))
        table = index[offset + 12 : offset + 8 + size]
        if version == 1 and offset + 8 + size <= len(index) and len(table) >= 8:
            tables.append(list(iter_unpack(">II", table[: len(table) // 8 * 8])))
    if any(table != tables[-1] or sum(n for _, n in table) != count for table in tables[1:]):
        raise ValueError(_NO_INDEX)
    return tables[-1]


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length (gitformat-pack), and the position after it."""
    number = -1
    while at < len(data):
        byte = data[at]
        at += 1
        number = (number + 1) << 7 | byte & 0x7F
        if not byte & 0x80:
            return number, at
    raise ValueError("it is no index of git")
