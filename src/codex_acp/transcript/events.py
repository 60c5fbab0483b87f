"""PURE: the events of the transcript, one class each.

Owns what an event says. Must not know the time (it is added when an event is recorded), how an
event is written, or who listens. Approvals and elicitations share no event, as they share no
reply (contract 2.3, 5.1). Events hold what happened as it was; `redaction` takes out what may not
be recorded before anybody sees them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - as below
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, TypeAlias

# Not for the type checker alone: the codec reads the types of the fields.
from codex_acp.jsonrpc.message import JsonValue, RequestId  # noqa: TC001


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
"""Source: ACP ``PermissionOptionKind``."""

ApprovalOutcome: TypeAlias = Literal["accepted", "rejected", "cancelled"]
"""Outcome of the action; only ``accepted`` lets it run."""

ApprovalSettler: TypeAlias = Literal[
    "client",
    "policy",
    "person",
    "invalid_answer",
    "turn_cancelled",
    "turn_ended",
    "codex_resolved",
    "disconnected",
    "superseded",
]
"""Party or event that settled an approval, as far as the recording program knows.

``client``: an answer over ACP, whoever gave it there. ``policy``: a policy of this program, whose
name is recorded. ``person``: somebody whom this program itself asked; lines of version 1 say so of
every client. ``invalid_answer``: the answer failed a check, and an ``approval.refused`` says which.
"""

AgreementKind: TypeAlias = Literal["git_programs", "plan"]
"""Permissions that the adapter asks for by itself."""

ElicitationMode: TypeAlias = Literal["form", "url"]
"""Source: ACP ``elicitation/create``, ``mode``."""

ElicitationAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""Answer that Codex got. Source: MCP and ACP elicitation, ``action``."""

ElicitationSettler: TypeAlias = Literal[
    "client",
    "program",
    "person",
    "invalid_answer",
    "turn_cancelled",
    "turn_ended",
    "codex_resolved",
    "disconnected",
    "superseded",
]
"""Party or event that settled an elicitation; the words are those of an approval. ``program``: a
handler of the embedding program."""

RouteName: TypeAlias = Literal["approval", "elicitation", "decline"]
"""The route of a server request (contract 1.1)."""

WirePeer: TypeAlias = Literal["client", "codex"]
"""Peer of the message: the ACP client, or the Codex app-server."""

WireDirection: TypeAlias = Literal["received", "sent"]
"""As the adapter sees it."""

WireKind: TypeAlias = Literal["request", "notification", "response", "error", "unread"]
"""Kind of a JSON-RPC message; ``unread``: no such message, or too large to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef:
    """Session, thread and turn of an event. None: there is none, like a session in headless use.

    ``session_id`` is ACP's; ``thread_id`` and ``turn_id`` are Codex's (of a sub-agent: the
    child's). ``generation`` counts the app-server connections of this program. ``acp_request_id``
    is the id, with its JSON type, of the ACP request: ours for a permission or an elicitation,
    the client's for a prompt.
    """

    session_id: str | None
    thread_id: str | None
    generation: int
    turn_id: str | None = None
    acp_request_id: RequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRef(SessionRef):
    """A server request of Codex. ``codex_request_id`` keeps its type: 0 is not "0"."""

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
    """One choice of a permission request. Source: ACP ``PermissionOption``."""

    id: str
    kind: OptionKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A client, a policy or a person was asked whether one pending action may run.

    ``arguments_sha256`` is the digest of the canonical JSON of the arguments shown. ``subject`` is
    what is decided on, without secrets: the command, each file and what happens to it, the
    permissions, the host, or the MCP tool. Empty in lines of version 1.
    """

    type: ClassVar[Literal["approval.requested"]] = "approval.requested"
    ref: RequestRef
    tool: ToolIdentity
    arguments_sha256: Sha256
    subject: tuple[str, ...] = ()
    options: tuple[OfferedOption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """An approval was settled. ``option`` is what was chosen; ``decision`` what Codex was told.

    ``policy`` is the name of the policy that settled it, if one did. ``subject`` as of
    `ApprovalRequested`.
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
    """An answer failed a check of contract 3.2. ``code`` names the check, ``reason`` explains.

    Code ``shared_id``: Codex cannot tell the action from another one (contract 3.7). It may follow
    an ``approval.decided`` that accepted; the turn was interrupted then.
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
    """A permission was settled that no request of Codex asked for, but the adapter by itself.

    ``about``: whether git may run what a directory's configuration names, or whether a proposed
    plan is carried out. ``subject`` is what was decided on, without secrets.
    """

    type: ClassVar[Literal["agreement.decided"]] = "agreement.decided"
    ref: SessionRef
    about: AgreementKind
    subject: tuple[str, ...]
    outcome: ApprovalOutcome
    by: ApprovalSettler


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationRequested:
    """A client or a person was asked for input. ``fields`` are names of the form's properties.

    ``server`` is the MCP server's name, None if Codex itself asks. ``url`` of mode ``url`` is
    recorded without user, query and fragment.
    """

    type: ClassVar[Literal["elicitation.requested"]] = "elicitation.requested"
    ref: RequestRef
    mode: ElicitationMode
    server: str | None
    fields: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationAnswered:
    """An elicitation was settled. ``fields`` are the names of what was answered.

    ``content`` is the answer itself, recorded only on demand. ``problem`` says what was wrong
    with the answer, naming fields and rules, not values.
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
    """A server request was declined (contract 1.6).

    ``discriminator`` is what made it this case inside its method (an elicitation mode, an
    approval kind); ``asked`` whether anybody had been asked before.
    """

    type: ClassVar[Literal["request.declined"]] = "request.declined"
    ref: RequestRef
    route: RouteName
    discriminator: str | None
    reason: str
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStarted:
    """A prompt came in. The turn is not known yet."""

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
    """A session and its thread were joined. ``how`` is the way it began."""

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
    """One message as it went by; recorded only where the wire was asked for.

    ``connection`` counts the connections to this peer. The ``method`` of an answer is that of its
    request. ``message`` is the whole message without secrets and without what was typed into
    forms, and None where ``left_out`` says why.
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
"""Every event. The union is closed: a new one raises the version of the schema."""


class Entry(NamedTuple):
    """An event and when it was recorded."""

    time: Timestamp
    event: TranscriptEvent
