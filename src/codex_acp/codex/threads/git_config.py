"""PURE: the programs that a git configuration names, and the sub-modules that an index names.

Read as git reads them (config.c and read-cache.c of git 2.39 to 2.51), by nobody but this library:
git itself would run what they name. What git would refuse to read is a ValueError here.

A key names a program by its last word, in whichever section: a key that a later git brings is
found, too. Left out are sections whose programs git runs for a person alone (``alias``,
``difftool`` and such), and what Codex switches off itself (hooks).
Source: git-config(1), gitattributes(5), gitremote-helpers(7), gitformat-index(5).
"""

from __future__ import annotations

import re
from struct import Struct, iter_unpack
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Entries: TypeAlias = "list[tuple[str, str | None]]"
"""Names, ``section.sub section.key``, with their values; None: the key stands alone."""


class GitProgram(NamedTuple):
    """A program that git would run for a directory, or a file that cannot tell whether it would."""

    file: str
    key: str
    """The name in the configuration; empty for a file that cannot be read."""
    value: str
    """The command, or why the file cannot be read."""

    @property
    def words(self) -> str:
        """Describe the program in one line in which nothing is invisible."""
        if not self.key:
            return f"{self.file!r} can name any: {self.value}"
        return f"{self.key!r} names {self.value!r} in {self.file!r}"


MAX_WORDS: Final = 2000
"""Characters of a sentence about programs."""


def refusal(directory: str, programs: Sequence[GitProgram], how: str) -> str:
    """Say why nothing is done in a directory, and how the user trusts it."""
    said = "; ".join(each.words for each in programs)
    if len(said) > MAX_WORDS:
        said = f"{said[:MAX_WORDS]}... (cut; there are {len(programs)})"
    return (
        f"Codex would have git run programs of {directory!r} outside of any sandbox, and nobody "
        f"has agreed to them: {said}. So Codex was not asked. If you know what they do, trust the "
        f"directory: {how}; else take them out of that configuration"
    )


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
_BY_HAND: Final = frozenset(
    [
        "alias",
        "browser",
        "difftool",
        "guitool",
        "man",
        "mergetool",
        "pager",
        "sendemail",
        "tar",
        "trailer",
    ]
)
_BOOLEAN: Final = re.compile(r"(?:|true|false|yes|no|on|off|[0-9]+[kmg]?)\Z", re.IGNORECASE)
_ALLOWS_HELPERS: Final = frozenset({"protocol.allow", "protocol.ext.allow"})

_LFS: Final = re.compile(
    r"git[- ]lfs (?:clean(?: --)? %f|smudge(?: --skip)?(?: --)? %f|filter-process(?: --skip)?)\Z"
)
"""Values that ``git lfs install`` writes, in all of its versions."""

_NETWORK: Final = re.compile(r"(?:https?|ssh|git|git\+ssh|ssh\+git|ftps?)://|[^/:]+:(?!:|//)")
"""A URL of which git itself knows how to fetch, and which is no path of this machine."""
_HELPER: Final = re.compile(r"[A-Za-z0-9.+-]*::|(?!file://)[A-Za-z0-9.+-]+://")
"""One for which git runs ``git-remote-NAME``, if it is none of the others."""


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
        at = _end(_BLANK, text, at)
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


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _where(text: str, at: int) -> str:
    return f"its line {text.count(chr(10), 0, at) + 1} is none of a git configuration"


def parts(name: str) -> tuple[str, str, str]:
    """Return section, sub-section and key of a name."""
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    return section, sub, key


def includes(entries: Entries) -> Iterator[str]:
    """Yield the paths of other files that are read as well, whatever their conditions say."""
    for name, value in entries:
        section, sub, key = parts(name)
        if value and key == "path" and (name == "include.path" or (section == "includeif" and sub)):
            yield value


def values(entries: Entries, wanted: str) -> Iterator[str]:
    """Yield the values of one key."""
    return (value for name, value in entries if name == wanted and value)


def programs(found: Iterable[tuple[str, Entries]]) -> list[GitProgram]:
    """Return what is named in the files of one repository that is not known to do no harm."""
    files = [(file, name, *parts(name), value) for file, known in found for name, value in known]
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
    if _BOOLEAN.match(value) or section in _BY_HAND:
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
