"""Define the events of a session, which the mapping makes of Codex's notifications.

`SessionEvent` is a closed union. `mapping.v1` and `mapping.v2` write each kind of event for their
version of ACP, so that a new kind fails the type check in both. An event holds every fact; a
version without a field for a fact leaves the fact out. In a tool call, None means not given, and an
empty list means empty. A `PermissionQuestion` asks whether one action may run, in all versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from codex_acp._record import NamedTuple, names_of, record  # as the standard ones, loaded faster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.content import Block, CallContent, Location
    from codex_acp.mapping.options import Option


DERIVED: Final = "codex-acp:"
"""Prefix of a tool call's id that is not just the id of an item."""


def tool_call_id(item_id: str, part: str | None = None, child: str | None = None) -> str:
    """Return the id of an item's tool call, which no item of another thread and no part shares.

    An item of the session's own thread keeps its id. Items of a sub-agent, ``child``, and each
    ``part`` of an item get a derived id. The model chooses item ids: an id that begins with
    `DERIVED` gets another `DERIVED`, so that it cannot imitate a part or a sub-agent. The item's id
    stands last and unchanged; colons in ``child`` and ``part`` are escaped.
    """
    if part is None and child is None and not item_id.startswith(DERIVED):
        return item_id
    if child is None:
        kind = "item" if part is None else "part"
    else:
        kind = "agent" if part is None else "agent-part"
    given = [name for name in (child, part) if name is not None]
    escaped = [name.replace("%", "%25").replace(":", "%3A") for name in given]
    return DERIVED + ":".join([kind, *escaped, item_id])


CallKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
"""Kind of a tool call."""
CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
"""State of a tool call; ``cancelled``: the call was stopped, or its turn ended first."""
StepStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
"""State of a step of a plan."""
CompactionStatus: TypeAlias = Literal["in_progress", "completed", "cancelled"]
"""State of a compaction."""
Activity: TypeAlias = Literal["running", "requires_action", "idle"]
"""Activity of a session; ``requires_action``: the session waits for the person alone."""
Severity: TypeAlias = Literal["info", "warning", "error"]
"""Severity with which a client presents a notice."""


# Messages.


class TextChunk(NamedTuple):
    """A piece of the agent's message, by far the most frequent event."""

    message_id: str
    text: str


class ThoughtChunk(NamedTuple):
    """A piece of the agent's reasoning."""

    message_id: str
    text: str


@record
class ThoughtLine:
    """A thought that belongs to no item, on lines of its own."""

    message_id: str
    text: str


@record
class MessageRestarted:
    """Start of a message that is sent again: the client discards the text sent before."""

    message_id: str
    thought: bool
    """Whether the message is the agent's reasoning."""


@record
class UserMessage:
    """A whole message of the person."""

    message_id: str
    content: Sequence[Block]
    client_id: str | None = None
    """The id under which a client sent the message, if Codex knows it."""


@record
class PromptTaken:
    """A prompt of the client that the session has accepted, with the prompt's new id."""

    message_id: str
    content: Sequence[Block]


@record
class Notice:
    """A line that is no part of the conversation: a warning, a decline, news of the server."""

    severity: Severity
    title: str
    """Text that is clear without ``details``; its invisible characters are escaped."""
    details: str | None = None
    optional: bool = False
    """Whether only clients with the capability ``notices`` get the notice: it is about the machine,
    and not about the conversation."""


# Tool calls.


@record
class TerminalState:
    """Change of the terminal that a tool call shows; a field with None does not change."""

    terminal_id: str
    cwd: str | None = None
    command: str | None = None
    output: str | None = None
    """The next piece of output, after the pieces that were sent."""
    ended: bool = False
    """Whether the command has ended."""
    exit_code: int | None = None


@record(kw_only=True)
class ToolCallAnnounced:
    """A tool call that the client does not know yet."""

    id: str
    title: str
    """One line of Markdown; text of others stands in code spans."""
    kind: CallKind | None = None
    status: CallStatus
    content: Sequence[CallContent] | None = None
    locations: Sequence[Location] | None = None
    raw_input: object = None
    raw_output: object = None
    """Structured part of the result; the result's text is in ``content`` only."""
    name: str | None = None
    """The tool's name for programs, where Codex gives one."""
    terminal: TerminalState | None = None
    stoppable: bool | None = None
    """Whether the person can stop the call, or the command in its terminal, without the turn."""


@record(kw_only=True)
class ToolCallChanged:
    """Change of a tool call; each given field replaces the earlier value."""

    id: str
    title: str | None = None
    kind: CallKind | None = None
    status: CallStatus | None = None
    content: Sequence[CallContent] | None = None
    locations: Sequence[Location] | None = None
    raw_input: object = None
    raw_output: object = None
    name: str | None = None
    terminal: TerminalState | None = None
    stoppable: bool | None = None


@record
class TerminalOutput:
    """More output of a command that runs."""

    terminal_id: str
    data: str
    replacement: str | None = None
    """The whole output, or its end if it is too long: it replaces ``data`` and all output that was
    sent. None: ``data`` is added."""


# The session.


@record
class PlanStep:
    """One step of a plan."""

    content: str
    status: StepStatus


@record
class PlanChanged:
    """The whole plan of a turn."""

    plan_id: str
    steps: Sequence[PlanStep]


@record(frozen=True)
class RateLimit:
    """One limit of the account, as far as Codex has reported it."""

    id: str
    name: str | None = None
    plan: str | None = None
    windows: tuple[tuple[int, int | None, int | None], ...] = ()
    """Each window: percent used, length in minutes, time of its restart in seconds since 1970."""
    balance: str | None = None
    """Credits that are left, in the server's notation; ``unlimited``: they never run out."""
    unlimited: bool = False
    reached: str | None = None
    """Codex's name of the limit that is used up."""


@record
class UsageChanged:
    """Tokens in the context (``used`` of ``size``), limits of the account, and all tokens of the
    thread by their kinds (``total``)."""

    used: int
    size: int
    limits: Sequence[RateLimit] = ()
    total: dict[str, JsonValue] | None = None


@record
class TitleChanged:
    """The session's title; None if it has none."""

    title: str | None


@record
class Command:
    """A slash command; ``hint`` describes its argument, None if it takes none."""

    name: str
    description: str
    hint: str | None = None


@record
class CommandsChanged:
    """All slash commands."""

    commands: Sequence[Command]


@record
class OptionsChanged:
    """All config options."""

    options: Sequence[Option]


@record
class ModeChanged:
    """The current mode, which is also an option."""

    mode_id: str


@record
class CompactionChanged:
    """A compaction of the context."""

    compaction_id: str
    status: CompactionStatus
    announced: bool
    """Whether an earlier event announced the compaction."""


@record
class PromptEnded:
    """End of a prompt, for a later client than the sender. v2 shows the end by `StateChanged`."""

    end: PromptEnd


@record
class StateChanged:
    """Activity of the session."""

    state: Activity
    end: PromptEnd | None = None
    """How the prompts ended, if this change ends them."""
    background: Sequence[str] | None = None
    """Ids of terminals whose commands run on in the background; None: not given."""
    sub_agents: Sequence[str] = ()
    """Ids of the sub-agents that work, which belong to ``background``."""
    usage: Mapping[str, JsonValue] | None = None
    """Tokens that the ended prompts used, as ``Usage`` of ACP's unstable schema."""


# Sub-agents.


@record
class SubAgentChanged:
    """Change of a sub-agent's session, sent in the session above; a field with None stays."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: StateChanged | None = None
    stoppable: bool | None = None
    """Whether the person can stop the sub-agent's work."""


@record
class SessionMessage:
    """A message from one session to another, in the session that receives it."""

    message_id: str
    content: Sequence[Block]
    sender: str
    recipient: str


SharedEvent: TypeAlias = UsageChanged | TitleChanged | SubAgentChanged | SessionMessage
"""An event that both versions of ACP write alike (`mapping.session`)."""
SessionEvent: TypeAlias = (
    TextChunk
    | ThoughtChunk
    | ThoughtLine
    | MessageRestarted
    | UserMessage
    | PromptTaken
    | Notice
    | ToolCallAnnounced
    | ToolCallChanged
    | TerminalOutput
    | PlanChanged
    | CommandsChanged
    | OptionsChanged
    | ModeChanged
    | CompactionChanged
    | StateChanged
    | PromptEnded
    | SharedEvent
)
"""One fact about a session for its client."""
SessionEvents: TypeAlias = "Sequence[SessionEvent]"
"""Events of one session, in the order in which the client gets them."""


_FIELDS: Final[tuple[str, ...]] = names_of(ToolCallChanged)


def fields_set(call: ToolCallAnnounced | ToolCallChanged) -> dict[str, Any]:
    """Return the fields of a tool call that are not None, by name."""
    return {name: value for name in _FIELDS if (value := getattr(call, name)) is not None}


def continued_text(event: SessionEvent, earlier: SessionEvent) -> str | None:
    """Return the text of ``event`` if it continues the text of ``earlier``, else None."""
    if (
        isinstance(event, TextChunk | ThoughtChunk)
        and isinstance(earlier, TextChunk | ThoughtChunk)
        and type(event) is type(earlier)
        and event.message_id == earlier.message_id
    ):
        return event.text
    return None


def with_pieces(event: SessionEvent, pieces: list[str]) -> SessionEvent:
    """Return an event with the text of the ``pieces`` that continue it."""
    if pieces and isinstance(event, TextChunk | ThoughtChunk):
        return event._replace(text="".join([event.text, *pieces]))
    return event


def replaces(event: SessionEvent, earlier: SessionEvent) -> bool:
    """Return whether a change of a tool call sets every field that an ``earlier`` change set. A
    change of a terminal replaces nothing: it adds to the earlier output."""
    if not isinstance(event, ToolCallChanged) or not isinstance(earlier, ToolCallChanged):
        return False
    if event.terminal or earlier.terminal:
        return False
    return fields_set(earlier).keys() <= fields_set(event).keys()


def announcement(shown: ToolCallChanged, content: Sequence[CallContent]) -> ToolCallAnnounced:
    """Return the tool call to send before a question about it, if no item has announced it."""
    return ToolCallAnnounced(
        id=shown.id,
        title=shown.title or "Tool call",
        kind=shown.kind or "other",
        status="pending",
        content=content or None,
        locations=shown.locations,
        raw_input=shown.raw_input,
    )


def question_ended(call_id: str, agreed: bool | None) -> ToolCallChanged:
    """Return the end of a tool call that was shown for a question alone; ``agreed`` is None if
    nobody answered."""
    status: CallStatus = "cancelled" if agreed is None else "completed" if agreed else "failed"
    return ToolCallChanged(id=call_id, status=status)


StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
"""Reason for the end of a prompt that did not fail; the same in every version of ACP."""


class PromptStop(NamedTuple):
    """A stop reason that the prompt returns; ``message`` has Codex's explanation, if any."""

    reason: StopReason
    message: str | None = None


class PromptFailure(NamedTuple):
    """A JSON-RPC error that the prompt returns."""

    code: int
    message: str
    data: dict[str, object]


PromptEnd: TypeAlias = PromptStop | PromptFailure


OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""Effect of an option, and for how long."""


@record(frozen=True)
class PermissionOption:
    """A choice of a permission question."""

    option_id: str
    name: str
    kind: OptionKind


@record(frozen=True)
class CommandSubject:
    """The command that a question is about, as it will run, and its directory."""

    command: str
    cwd: str


@record(frozen=True)
class PermissionQuestion:
    """The question of one approval."""

    session_id: str
    shown: ToolCallChanged
    """The tool call that the question is about; complete for a client without capabilities."""
    options: Sequence[PermissionOption]
    reason: str | None = None
    """The asker's reason, as Markdown with the asker's words in code spans."""
    command: CommandSubject | None = None
    """The command, if the approval is for nothing else and all characters are visible."""
