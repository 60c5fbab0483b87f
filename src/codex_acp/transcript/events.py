"""PURE: the events of the transcript, one class each, and their written format.

Owns the fields of an event, and the keys of a line, their order and the version.
``transcript.schema.json`` describes the same format for other programs; a test compares the two.
Must not know the time (`Transcript` adds it) or the listeners. Approvals and elicitations have
separate events, as they have separate replies (contract 2.3, 5.1). Events may contain secrets:
`redaction` removes them before any listener gets an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from codex_acp.errors import InvalidPayload

# Imported at run time: `from_json` reads the types of the fields.
from codex_acp.jsonrpc import JsonValue, RequestId  # noqa: TC001


@dataclass(frozen=True, slots=True)
class Pattern:
    """The regular expression that a whole string must match; checked when a line is read."""

    regex: str


Sha256: TypeAlias = Annotated[str, Pattern("[0-9a-f]{64}")]
"""A SHA-256 digest in lower-case hexadecimal."""
_TIME: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"
Timestamp: TypeAlias = Annotated[str, Pattern(_TIME)]
"""UTC in ISO 8601 with milliseconds: ``2026-01-31T12:00:00.000Z``."""
ToolKind: TypeAlias = Literal["shell", "file_change", "permissions", "mcp_tool"]
"""Kind of the action that an approval is for."""
OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""Kind of an option, as ``PermissionOptionKind`` of ACP."""
ApprovalOutcome: TypeAlias = Literal["accepted", "rejected", "cancelled"]
"""Outcome of the action; only ``accepted`` lets it run."""
ApprovalSettler: TypeAlias = Literal[
    "client", "policy", "person", "invalid_answer", "turn_cancelled", "turn_ended",
    "codex_resolved", "disconnected", "superseded",
]  # fmt: skip
"""Party or event that settled an approval, as far as the recording program knows.

``client``: an answer over ACP, from a person or a program. ``policy``: a policy of this program,
whose name is recorded. ``person``: a person whom this program itself asked; lines of version 1 have
``person`` in place of ``client``. ``invalid_answer``: the answer failed a check, which an
``approval.refused`` names. ``codex_resolved``: Codex settled the request itself. ``superseded``:
Codex used the id of the request or of its call for another action.
"""
AgreementKind: TypeAlias = Literal["git_programs", "plan"]
"""Subject of a question that the adapter asks, and not Codex."""
ElicitationMode: TypeAlias = Literal["form", "url"]
"""``mode`` of ``elicitation/create`` in ACP."""
ElicitationAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""Answer that Codex got. Source: MCP and ACP elicitation, ``action``."""
ElicitationSettler: TypeAlias = Literal[
    "client", "program", "person", "invalid_answer", "turn_cancelled", "turn_ended",
    "codex_resolved", "disconnected", "superseded",
]  # fmt: skip
"""Party or event that settled an elicitation; see `ApprovalSettler`. ``program``: a handler of the
embedding program."""
RouteName: TypeAlias = Literal["approval", "elicitation", "decline"]
"""The route of a server request (contract 1.1)."""
WirePeer: TypeAlias = Literal["client", "codex"]
"""Peer of the message: the ACP client, or the Codex app-server."""
WireDirection: TypeAlias = Literal["received", "sent"]
"""Direction of a message from the view of the adapter."""
WireKind: TypeAlias = Literal["request", "notification", "response", "error", "unread"]
"""Kind of a JSON-RPC message; ``unread``: no valid message, or one that is too large to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef:
    """Session, thread and turn of an event; None where there is none (a program without ACP has no
    session).

    ``thread_id`` and ``turn_id`` are Codex's ids; for a sub-agent, the ids of the child's thread.
    ``generation`` counts the app-server connections of this program. ``acp_request_id``, with its
    JSON type, is the id of the ACP request: of the agent's request for a permission or an
    elicitation, or of the client's ``session/prompt``.
    """

    session_id: str | None
    thread_id: str | None
    generation: int
    turn_id: str | None = None
    acp_request_id: RequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRef(SessionRef):
    """A server request of Codex. ``codex_request_id`` keeps its JSON type: 0 is not "0"."""

    codex_request_id: RequestId
    method: str
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """Tool that an approval lets run. ``name`` of an MCP tool is ``server/tool``."""

    kind: ToolKind
    name: str


@dataclass(frozen=True, slots=True)
class OfferedOption:
    """One option of a permission request, as ``PermissionOption`` of ACP."""

    id: str
    kind: OptionKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A client, a policy or a person was asked whether one pending action may run.

    ``arguments_sha256`` is the digest of the canonical JSON of the shown arguments. ``subject``
    names the action without secrets: the command, each file and its change, the permissions, the
    host, or the MCP tool; lines of version 1 do not have it.
    """

    type: ClassVar[Literal["approval.requested"]] = "approval.requested"
    ref: RequestRef
    tool: ToolIdentity
    arguments_sha256: Sha256
    subject: tuple[str, ...] = ()
    options: tuple[OfferedOption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """An approval was settled. ``option`` is the chosen option; ``decision`` the reply to Codex.

    ``policy`` is the name of the policy that settled the approval, None if no policy did.
    ``subject``: see `ApprovalRequested`.
    """

    type: ClassVar[Literal["approval.decided"]] = "approval.decided"
    ref: RequestRef
    tool: ToolIdentity
    arguments_sha256: Sha256
    subject: tuple[str, ...] = ()
    outcome: ApprovalOutcome
    by: ApprovalSettler
    policy: str | None = None
    option: OfferedOption | None
    decision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRefused:
    """An answer failed a check of contract 3.2. ``code`` names the check, ``reason`` explains it.

    Code ``shared_id``: Codex could take the answer for that of another action (contract 3.7).
    After an ``approval.decided`` with ``accepted``, Codex had the answer: the turn was interrupted.
    """

    type: ClassVar[Literal["approval.refused"]] = "approval.refused"
    ref: RequestRef
    tool: ToolIdentity
    arguments_sha256: Sha256
    subject: tuple[str, ...] = ()
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementDecided:
    """A question of the adapter itself was settled.

    ``about``: whether git may run the programs that a directory's configuration names, or whether
    Codex implements a proposed plan. ``subject`` has the programs or the plan, without secrets.
    """

    type: ClassVar[Literal["agreement.decided"]] = "agreement.decided"
    ref: SessionRef
    about: AgreementKind
    subject: tuple[str, ...]
    outcome: ApprovalOutcome
    by: ApprovalSettler


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationRequested:
    """A client or a person was asked for input. ``fields`` are the names of the form's properties.

    ``server`` is the name of the MCP server, None if Codex itself asks. ``url``, None in the mode
    ``form``, is recorded without user, query and fragment.
    """

    type: ClassVar[Literal["elicitation.requested"]] = "elicitation.requested"
    ref: RequestRef
    mode: ElicitationMode
    server: str | None
    fields: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationAnswered:
    """An elicitation was settled. ``fields`` are the names of the answered fields.

    ``content`` is the answer itself, recorded only with ``record_content``. ``problem`` names
    the fields and rules that an invalid answer broke, never its values.
    """

    type: ClassVar[Literal["elicitation.answered"]] = "elicitation.answered"
    ref: RequestRef
    mode: ElicitationMode
    server: str | None
    action: ElicitationAction
    by: ElicitationSettler
    fields: tuple[str, ...] = ()
    problem: str | None = None
    content: Mapping[str, JsonValue] | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDeclined:
    """A server request was declined (contract 1.6), so its ``route`` is ``decline``.

    ``discriminator`` names the case within the method (an elicitation mode, an approval kind);
    ``asked``: whether the client or a person was asked before.
    """

    type: ClassVar[Literal["request.declined"]] = "request.declined"
    ref: RequestRef
    route: RouteName
    discriminator: str | None
    reason: str
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStarted:
    """A prompt arrived, and has no turn yet."""

    type: ClassVar[Literal["prompt.started"]] = "prompt.started"
    ref: SessionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEnded:
    """A prompt was answered: with ACP's stop reason, or with an error."""

    type: ClassVar[Literal["prompt.ended"]] = "prompt.ended"
    ref: SessionRef
    stop_reason: str | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """A session was opened with its thread. ``how`` names the client's request."""

    type: ClassVar[Literal["session.opened"]] = "session.opened"
    ref: SessionRef
    how: Literal["new", "load", "resume", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed:
    """A session ended; ``reason`` is a short text."""

    type: ClassVar[Literal["session.closed"]] = "session.closed"
    ref: SessionRef
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMessage:
    """One message of a connection; recorded only with ``record_wire``.

    ``connection`` counts the connections to this peer. ``method`` of an answer is the method of its
    request. ``size`` is in bytes. ``message`` is the message without secrets and typed values; if
    it is None, ``left_out`` has the reason.
    """

    type: ClassVar[Literal["wire.message"]] = "wire.message"
    ref: SessionRef
    peer: WirePeer
    direction: WireDirection
    connection: int
    kind: WireKind
    id: RequestId | None
    method: str | None
    size: int
    message: Mapping[str, JsonValue] | None = field(default=None, repr=False, hash=False)
    left_out: str | None = None


TranscriptEvent: TypeAlias = (
    ApprovalRequested
    | ApprovalDecided
    | ApprovalRefused
    | AgreementDecided
    | ElicitationRequested
    | ElicitationAnswered
    | RequestDeclined
    | PromptStarted
    | PromptEnded
    | SessionOpened
    | SessionClosed
    | WireMessage
)
"""Any event. The union is closed: a new event needs a higher `SCHEMA_VERSION`."""


class Entry(NamedTuple):
    """An event and the time when it was recorded."""

    time: Timestamp
    event: TranscriptEvent


SCHEMA_VERSION: Final = 3
"""Version of the format; any change that a strict reader would notice needs a higher one."""
EVENT_TYPES: Final[Mapping[str, type[TranscriptEvent]]] = {
    event.type: event for event in get_args(TranscriptEvent)
}
"""The class of each ``type``."""
_OLDER: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "approval.requested": {"subject": []},
    "approval.decided": {"subject": [], "policy": None},
    "approval.refused": {"subject": []},
    "elicitation.answered": {},  # only its values changed
}
"""Event → members that its lines of version 1 lack, with their defaults."""
_VERSIONS: Final[Mapping[str, int]] = (
    dict.fromkeys(EVENT_TYPES, 1)
    | {"wire.message": 2, "agreement.decided": 3}
    | dict.fromkeys(_OLDER, 3)
)
"""Event → ``schema_version`` of its lines: the version that last changed the event. So a reader of
version 1 can still read the events that did not change."""
_OTHER_TYPE: Final = "has another type or value than it may"
_HEADER: Final = ("schema_version", "time", "type")
_HINTS: Final[dict[type, Mapping[str, object]]] = {}
"""Cache of `_hints`."""


def to_json(event: TranscriptEvent, time: Timestamp) -> dict[str, JsonValue]:
    """Return the object of one line: all keys, always in the same order."""
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
    """Read one line strictly: exactly the keys of its event, each value of its exact type. Raises
    InvalidPayload, which names all problems."""
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
        value = {**older, **value}  # a line of version 1 gets the members that it lacks
    elif version != _VERSIONS[event_class.type]:
        problem = f"schema_version of {kind} is not {_VERSIONS[event_class.type]}"
        raise InvalidPayload("a transcript line", (problem,))
    own = dict(_hints(event_class))
    ref_class = own.pop("ref")
    assert isinstance(ref_class, type)
    ref = _hints(ref_class)
    problems = [f"{name} is unknown" for name in value.keys() - {*_HEADER, *ref, *own}]
    read: dict[str, Any] = {}
    for name, hint in {"time": Timestamp, **ref, **own}.items():
        try:
            read[name] = _read(hint, value[name])
        except KeyError:
            problems.append(f"{name} is missing")
        except _Mismatch as error:
            problems.append(f"{name} {error}")
    if problems:
        raise InvalidPayload(f"a transcript line of type {kind}", tuple(sorted(problems)))
    members = {name: read[name] for name in own}
    members["ref"] = ref_class(**{name: read[name] for name in ref})
    return Entry(read["time"], event_class(**members))


class _Mismatch(Exception):
    """A value has a wrong type; the text follows the name of the key in a sentence."""


def _hints(cls: type) -> Mapping[str, object]:
    """Return the fields of a dataclass in order, with their types."""
    if cls not in _HINTS:
        hints = get_type_hints(cls, include_extras=True)
        _HINTS[cls] = {f.name: hints[f.name] for f in fields(cls)}
    return _HINTS[cls]


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return {name: _plain(getattr(value, name)) for name in _hints(type(value))}


def _read(hint: object, value: JsonValue) -> object:
    """Return ``value`` as the type ``hint``, which must be a type that the events use."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        pattern = args[1]
        assert isinstance(pattern, Pattern)
        if not isinstance(value, str):
            raise _Mismatch(_OTHER_TYPE)
        if re.fullmatch(pattern.regex, value) is None:
            raise _Mismatch(f"does not match {pattern.regex}")
        return value
    if origin in (Union, UnionType):
        return _read_union(args, value)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        if not isinstance(value, dict) or value.keys() != hints.keys():
            raise _Mismatch(f"must be an object with {', '.join(hints)}")
        return hint(**{name: _read(kind, value[name]) for name, kind in hints.items()})
    if origin is tuple and isinstance(value, list):
        return tuple(_read(args[0], item) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return value
    if origin is Literal and isinstance(value, str) and value in args:
        return value
    if type(value) is hint:
        return value
    raise _Mismatch(_OTHER_TYPE)


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
