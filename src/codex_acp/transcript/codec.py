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

SCHEMA_VERSION: Final = 3
"""Version of the format, raised by any change that a strict reader would notice."""
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
