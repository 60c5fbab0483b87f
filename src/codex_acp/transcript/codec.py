"""PURE: events to JSON objects and back.

Owns the written format: the keys, their order, the version. ``transcript.schema.json`` says the
same for others, and a test holds the two together. Must not know events one by one: it reads
their fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from codex_acp.errors import InvalidPayload
from codex_acp.transcript.events import Entry, Pattern, Timestamp, TranscriptEvent

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

_MAX_VALUE: Final = 4096
_MAX_WORD: Final = 20
_MAX_WORDS: Final = 3
"""More of them, joined, may be a phrase that somebody chose for a password."""
_SHORT: Final = 3
"""Letters that stand for something (``sql``, ``mcp``) and follow no rule."""
_PAIRS: Final = (
    "a:abcdefghiklmnprstuvwxyz b:abcdeghijlnoprstuy c:acdefhiklmoprstuy d:abcdefghijlmnoprstuvwy"
    " e:abcdefghijklmnopqrstuvwxyz f:aefilorstuy g:acdeghilmnoprstu h:abeilmnorstuy"
    " i:abcdefgklmnopqrstuvxz j:aeiosu k:aefhilnorstu l:abcdefghiklmnoprstuvwy m:abcdeilmnopstuy"
    " n:abcdefghijklmnopqrstuvwy o:abcdefghijklmnoprstuvwxyz p:acdefhilmnoprstuy q:lu"
    " r:abcdefgiklmnoprstuvwy s:abcdefghiklmnopqrstuvwy t:abcdefghiklmnoprstuvwyz"
    " u:abcdefgilmnoprst v:aeiop w:aehilnors x:aceipt y:abcdegilmnoprstw z:aeio"
)
"""Letter → those that stand behind it in at least one of some hundred English words. Of 16 letters
by chance one text in three hundred is made of such pairs alone, of words nineteen in twenty."""
_FOLLOWERS: Final = dict(pair.split(":") for pair in _PAIRS.split())
_FIGURE: Final = re.compile(
    r"[+-]?\d{1,12}(?:\.\d{1,6})?(?:%|ms|[smhd]|[kKMGT]i?[bB]?)?"
    r"|v?\d{1,5}(?:\.\d{1,5}){1,3}(?:[-.+]?(?:a|b|rc|alpha|beta|dev|post)\.?\d{0,3})?"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?"
    r"|(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)"
    r"(?:/[A-Za-z_-]{2,20}){1,2}(?:[+-]\d{1,2})?"
    r"|[a-z]{2,3}[_-][A-Z]{2}(?:\.[\w-]{1,12})?(?:@[a-z]{1,10})?|C\.(?:UTF-8|utf8)"
)
"""A number, with a unit; a version, a date, a time zone, a locale."""
_ITEMS: Final = re.compile(r"[,;]\s*|\s+(?=--?[A-Za-z])")
_SETTING: Final = re.compile(r"(-{0,2}[A-Za-z][\w:-]*)(?:[= ](.*))?", re.DOTALL)
_HOST: Final = re.compile(r"(?:localhost|\[[0-9a-f:]{2,39}\]|\.?[\w-]{1,63}(?:\.[\w-]{1,63})+)(?::\d{1,5})?")  # fmt: skip  # noqa: E501
_WORDS: Final = re.compile(r"[A-Za-z0-9]+(?:[-_./ ][A-Za-z0-9]+)*")
_BETWEEN: Final = re.compile(r"[-_./ ]")
_NAMES: Final = frozenset({"256color", "base64", "oauth2", "python3", "sha256", "utf8"})
"""Words with digits that are no secret; any other with so many may be one."""
_NUMBERED: Final = re.compile(r"[A-Za-z]{0,2}\d{1,2}[A-Za-z]?")
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@+~ /\\:-]*")
_RUN: Final = re.compile(r"[A-Za-z0-9]{8,}")
_CHANGE: Final = re.compile(r"(?<=[a-z])[A-Z]|(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d")
_MAX_DIGITS: Final = 12
_LONG_RUN: Final = 16
_ANCHOR: Final = re.compile(r"/?[A-Za-z0-9]+(?:[-_./:]+[A-Za-z0-9]+)*[-_/]*")
_ANCHOR_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MAX_ANCHOR: Final = 100


def is_plain(text: str) -> bool:
    """Whether a value, or each of a list, is a word or up to three, a figure, a host or a path."""
    return len(text) <= _MAX_VALUE and all(map(_is_plain_item, _ITEMS.split(text.strip())))


def is_path(text: str) -> bool:
    """Whether it is a path, or several, of which no part looks made by a machine."""
    return _PATH.fullmatch(text) is not None and not any(map(looks_made, re.split(r"[/\\:]", text)))


def is_anchor(text: str) -> bool:
    """Whether it names a place of a page, as ``#fragment`` of its address: any number of words."""
    if len(text) > _MAX_ANCHOR or _ANCHOR.fullmatch(text) is None:
        return False
    parts = re.split(r"[-_./:]+", text)
    return not any(map(looks_made, parts)) and all(
        part.isdigit() or len(part) <= _SHORT or _is_word(part.lower())
        for one in parts
        for part in _ANCHOR_PARTS.findall(one)
    )


def looks_made(text: str) -> bool:
    """Whether letters and digits change too often, or go on for too long, for a name."""
    return any(
        len(_CHANGE.findall(run)) > len(run) // 5
        or (run.isdigit() and len(run) > _MAX_DIGITS)
        or (len(run) >= _LONG_RUN and sum(map(str.isdigit, run)) > len(run) // 5)
        or (run.isalpha() and len(run) > _MAX_WORD and not _is_likely(run.lower()))
        for run in _RUN.findall(text)
    )


def _is_plain_item(text: str) -> bool:
    if not text or _FIGURE.fullmatch(text) or is_path(text):
        return True
    if _HOST.fullmatch(text):
        return not looks_made(text) and all(map(_is_host_part, re.split("[.:]", text)))
    setting = _SETTING.fullmatch(text)
    if setting and (text[0] == "-" or "=" in text):
        name, value = setting[1].lstrip("-"), setting[2] or ""
        return is_anchor(name) and _is_plain_item(value)
    return _are_words(text)


def _is_host_part(part: str) -> bool:
    return part.isdigit() or re.fullmatch(r"[\[\]0-9a-f]*", part) is not None or _are_words(part)


def _are_words(text: str) -> bool:
    if not _WORDS.fullmatch(text):
        return False
    words = numbers = 0
    for part in _BETWEEN.split(text):
        if part.lower() in _NAMES or (part.isalpha() and _is_word(part)):
            words += 1
        elif _NUMBERED.fullmatch(part):
            numbers += 1
        else:
            return False
    return 1 <= words <= _MAX_WORDS and numbers <= 2


def _is_word(text: str) -> bool:
    """One way of writing, and of it each two letters stand together in words."""
    if not (text.islower() or text.isupper() or text.istitle()):
        return False
    return len(text) <= _SHORT or (len(text) <= _MAX_WORD and _is_likely(text.lower()))


def _is_likely(letters: str) -> bool:
    return all(b in _FOLLOWERS.get(a, "") for a, b in pairwise(letters))


SCHEMA_VERSION: Final = 3
"""Of the format as a whole; raised by any change that a strict reader would notice."""
EVENT_TYPES: Final[Mapping[str, type[TranscriptEvent]]] = {
    event.type: event for event in get_args(TranscriptEvent)
}
"""The class of each ``type``."""
_OLDER: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "approval.requested": {"subject": []},
    "approval.decided": {"subject": [], "policy": None},
    "approval.refused": {"subject": []},
    "elicitation.answered": {},
}
"""Members that lines of version 1 of these events lack."""
_VERSIONS: Final[Mapping[str, int]] = (
    dict.fromkeys(EVENT_TYPES, 1)
    | {"wire.message": 2, "agreement.decided": 3}
    | dict.fromkeys(_OLDER, 3)
)
"""The version in which each event was last changed, and that its lines begin with: whoever reads
version 1 reads what there was of it."""
_OTHER_TYPE: Final = "has another type or value than it may"
_HEADER: Final = ("schema_version", "time", "type")
_HINTS: Final[dict[type, Mapping[str, object]]] = {}
_T = TypeVar("_T")


def to_json(event: TranscriptEvent, time: Timestamp) -> dict[str, JsonValue]:
    """The object of one line. Every key is always there, in one order; what is None is null."""
    members: dict[str, JsonValue] = {
        "schema_version": _VERSIONS[event.type],
        "time": time,
        "type": event.type,
    }
    for owner in (event.ref, event):
        for name in _hints(type(owner)):
            if name != "ref":
                members[name] = _plain(getattr(owner, name))
    return members


def from_json(value: JsonValue) -> Entry:
    """Read one line back, strictly: no key more, none less, every value of its exact type.

    Raises InvalidPayload, which names all that is wrong.
    """
    if not isinstance(value, dict):
        raise InvalidPayload("a transcript line", ("it is not an object",))
    version, kind = value.get("schema_version"), value.get("type")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        problem = f"schema_version is not one of 1 to {SCHEMA_VERSION}"
        raise InvalidPayload("a transcript line", (problem,))
    event_class = EVENT_TYPES.get(kind) if isinstance(kind, str) else None
    if event_class is None:
        raise InvalidPayload("a transcript line", ("type is not a known event",))
    older = _OLDER.get(event_class.type)
    if version == 1 and older is not None and older.keys().isdisjoint(value):
        value = {**older, **value}
    elif version != _VERSIONS[event_class.type]:
        problem = f"schema_version of {kind} is not {_VERSIONS[event_class.type]}"
        raise InvalidPayload("a transcript line", (problem,))
    own = dict(_hints(event_class))
    ref_class = own.pop("ref")
    assert isinstance(ref_class, type)
    ref = _hints(ref_class)
    problems = [f"{name} is unknown" for name in value.keys() - {*_HEADER, *ref, *own}]
    read: dict[str, object] = {}
    for name, hint in {"time": Timestamp, **ref, **own}.items():
        try:
            read[name] = _read(hint, value[name])
        except KeyError:
            problems.append(f"{name} is missing")
        except _Mismatch as error:
            problems.append(f"{name} {error}")
    if problems:
        raise InvalidPayload(f"a transcript line of type {kind}", tuple(sorted(problems)))
    time = read["time"]
    assert isinstance(time, str)
    members: dict[str, object] = {name: read[name] for name in own}
    members["ref"] = _make(ref_class, {name: read[name] for name in ref})
    return Entry(time, _make(event_class, members))


class _Mismatch(Exception):
    """A value is not of the type it should be; the text follows the name of its key."""


def _hints(cls: type) -> Mapping[str, object]:
    """The fields of a dataclass in order, with their types."""
    known = _HINTS.get(cls)
    if known is None:
        hints = get_type_hints(cls, include_extras=True)
        known = _HINTS[cls] = {f.name: hints[f.name] for f in fields(cls)}
    return known


def _make(cls: type[_T], members: Mapping[str, object]) -> _T:
    return cls(**members)


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return {name: _plain(getattr(value, name)) for name in _hints(type(value))}


def _read(hint: object, value: JsonValue) -> object:
    """``value`` as what ``hint`` says. Knows the types that the events use, and no others."""
    origin, args = _parts(hint)
    if origin is Annotated:
        return _read_text(args[1], value)
    if origin in (Union, UnionType):
        return _read_union(args, value)
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_object(hint, value)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(args[0], one) for one in value)
    if origin is Mapping and isinstance(value, dict):
        return value
    if origin is Literal and isinstance(value, str) and value in args:
        return value
    if type(value) is hint:
        return value
    raise _Mismatch(_OTHER_TYPE)


@cache
def _parts(hint: object) -> tuple[object, tuple[object, ...]]:
    return get_origin(hint), get_args(hint)


def _read_text(pattern: object, value: JsonValue) -> str:
    assert isinstance(pattern, Pattern)
    if not isinstance(value, str):
        raise _Mismatch(_OTHER_TYPE)
    if re.fullmatch(pattern.regex, value) is None:
        raise _Mismatch(f"does not match {pattern.regex}")
    return value


def _read_union(members: tuple[object, ...], value: JsonValue) -> object:
    if value is None and NoneType in members:
        return None
    problem = _Mismatch(_OTHER_TYPE)
    for member in members:
        try:
            return _read(member, value)
        except _Mismatch as error:
            problem = error
    raise problem


def _read_object(cls: type, value: JsonValue) -> object:
    hints = _hints(cls)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise _Mismatch(f"must be an object with {', '.join(hints)}")
    made: object = _make(cls, {name: _read(hint, value[name]) for name, hint in hints.items()})
    return made
