"""Define the events of a session: what the mapping makes of what Codex says.

A closed union. Each version of ACP has one total rendering of it (`mapping.v1`, `mapping.v2`), so
that a new kind of event fails the type check in each. Facts are whole here; a version that has no
room for one leaves it out. Of a tool call, None is what is not said, an empty list is empty.
The question whether one action may run, a `PermissionQuestion`, is of no version either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from codex_acp._record import names_of, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.content import Block, CallContent, Location
    from codex_acp.mapping.options import Option


DERIVED: Final = "codex-acp:"
"""How the id of a tool call begins that is more than the id of an item."""


def tool_call_id(item_id: str, part: str | None = None, child: str | None = None) -> str:
    """Return the id of an item's tool call: no item of another thread, and no other part, has it.

    An item of the session's own thread keeps its id. A model chooses that, so one that could be
    taken for the id of a ``part`` or of a sub-agent, ``child``, is derived as well. The item's id
    stands last and as it is; what stands before it holds no colon of its own.
    """
    if part is None and child is None and not item_id.startswith(DERIVED):
        return item_id
    if child is None:
        kind = "item" if part is None else "part"
    else:
        kind = "agent" if part is None else "agent-part"
    above = [
        each.replace("%", "%25").replace(":", "%3A") for each in (child, part) if each is not None
    ]
    return DERIVED + ":".join([kind, *above, item_id])


CallKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
"""Kind of a tool call."""

CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
"""How a tool call is; ``cancelled``: it ended with its turn, or was stopped, before it was done."""

StepStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
"""How a step of a plan is."""

CompactionStatus: TypeAlias = Literal["in_progress", "completed", "cancelled"]
"""How a compaction is."""

Activity: TypeAlias = Literal["running", "requires_action", "idle"]
"""Activity of a session; ``requires_action``: all of it waits for the person."""

Severity: TypeAlias = Literal["info", "warning", "error"]
"""How a notice is to be presented."""


# What is said.


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
class MessageAnew:
    """The text of a message follows from its beginning: what a client has of it counts no more."""

    message_id: str
    thought: bool
    """Whether it is the agent's reasoning."""


@record
class UserMessage:
    """A message of the person, whole."""

    message_id: str
    content: Sequence[Block]
    client_id: str | None = None
    """Under which a client sent it, if Codex knows."""


@record
class PromptTaken:
    """A prompt of the client has its place in the session, under this id."""

    message_id: str
    content: Sequence[Block]


@record
class Notice:
    """A line that is no part of the conversation: a warning, a decline, news of the server."""

    severity: Severity
    title: str
    """Stands alone; all that could not be seen is visible."""
    details: str | None = None
    aside: bool = False
    """Whether it is about the machine, and no part of a conversation for who takes no notices."""


# Tool calls.


@record
class TerminalExit:
    """How a command has ended; None: that is not known."""

    code: int | None = None


@record
class TerminalState:
    """Change of the terminal that a tool call shows; None: no change."""

    terminal_id: str
    cwd: str | None = None
    command: str | None = None
    output: str | None = None
    """A piece that follows what was said of its output."""
    exit: TerminalExit | None = None


@record(kw_only=True)
class ToolCallAnnounced:
    """A tool call that the client does not know."""

    id: str
    title: str
    """Markdown of ours, one line; what others wrote in it is code."""
    kind: CallKind | None = None
    status: CallStatus
    content: Sequence[CallContent] | None = None
    locations: Sequence[Location] | None = None
    raw_input: object = None
    raw_output: object = None
    """Structured part of the result; its text stands in the content, once."""
    name: str | None = None
    """The tool's name for programs, where Codex gives one."""
    terminal: TerminalState | None = None
    stoppable: bool | None = None
    """Whether the person can stop it, and the command in its terminal, without the whole turn."""


@record(kw_only=True)
class ToolCallChanged:
    """Change of a tool call; each given field replaces."""

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
    instead: str | None = None
    """So much came that this stands in place of all of it, `data` included; None: it is added."""


# The session.


@record
class PlanStep:
    """One step of a plan."""

    content: str
    status: StepStatus


@record
class PlanChanged:
    """The plan of a turn, whole."""

    plan_id: str
    steps: Sequence[PlanStep]


@record(frozen=True)
class RateLimit:
    """One limit of the account, as far as Codex has told it."""

    id: str
    name: str | None = None
    plan: str | None = None
    windows: tuple[tuple[int, int | None, int | None], ...] = ()
    """Percent used, minutes that it spans, seconds since 1970 when it begins anew."""
    balance: str | None = None
    """Credits that are left, as the server writes it; ``unlimited``: as many as are wanted."""
    unlimited: bool = False
    reached: str | None = None
    """Codex's name of what is used up."""


@record
class UsageChanged:
    """Tokens in the context, how many fit, the account's limits, and all tokens by their kinds."""

    used: int
    size: int
    limits: Sequence[RateLimit] = ()
    total: dict[str, JsonValue] | None = None


@record
class TitleChanged:
    """The session's title; None: it has none."""

    title: str | None


@record
class Command:
    """A slash command; ``hint`` says what may follow it, None: nothing."""

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
    """The current mode, which is an option, too."""

    mode_id: str


@record
class CompactionChanged:
    """A compaction of the context."""

    compaction_id: str
    status: CompactionStatus
    known: bool
    """Whether an event told of it before."""


@record
class StateChanged:
    """Activity of the session."""

    state: Activity
    end: PromptEnd | None = None
    """Why it is idle, if that ends work."""
    background: Sequence[str] | None = None
    """Terminals whose commands run on by themselves; None: that is not told."""
    usage: Mapping[str, JsonValue] | None = None
    """Tokens that the work took which ended, as ``Usage`` of ACP's unstable schema."""


# Sub-agents.


@record
class SubAgentChanged:
    """Change of a sub-agent's session, sent in the session above it; None: no change."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: StateChanged | None = None
    stoppable: bool | None = None
    """Whether the person can stop what it does."""


@record
class SessionMessage:
    """A message from one session to another, in the session that got it."""

    message_id: str
    content: Sequence[Block]
    sender: str
    recipient: str


SessionEvent: TypeAlias = (
    TextChunk
    | ThoughtChunk
    | ThoughtLine
    | MessageAnew
    | UserMessage
    | PromptTaken
    | Notice
    | ToolCallAnnounced
    | ToolCallChanged
    | TerminalOutput
    | PlanChanged
    | UsageChanged
    | TitleChanged
    | CommandsChanged
    | OptionsChanged
    | ModeChanged
    | CompactionChanged
    | StateChanged
    | SubAgentChanged
    | SessionMessage
)
"""One thing that a session tells its client."""

SessionEvents: TypeAlias = "Sequence[SessionEvent]"
"""Events of one session, in the order in which they are to be told."""


_FIELDS: Final[tuple[str, ...]] = names_of(ToolCallChanged)


def fields_set(call: ToolCallAnnounced | ToolCallChanged) -> dict[str, Any]:
    """Return the fields of a tool call that are set, by name."""
    return {name: value for name in _FIELDS if (value := getattr(call, name)) is not None}


def continued_text(event: SessionEvent, earlier: SessionEvent) -> str | None:
    """Return the text of ``event`` if it is the next piece of the ``earlier`` one's, else None."""
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
    """Return whether a change of a tool call sets every field of an ``earlier`` one anew.

    News of a terminal add instead of replacing.
    """
    if not isinstance(event, ToolCallChanged) or not isinstance(earlier, ToolCallChanged):
        return False
    if event.terminal or earlier.terminal:
        return False
    return fields_set(earlier).keys() <= fields_set(event).keys()


def announcement(shown: ToolCallChanged, content: Sequence[CallContent]) -> ToolCallAnnounced:
    """Return the tool call to send before its question, when no item of Codex has announced it."""
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
    """Return the end of a tool call that was a question; None: nobody has decided."""
    status: CallStatus = "cancelled" if agreed is None else "completed" if agreed else "failed"
    return ToolCallChanged(id=call_id, status=status)


StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
"""Why a prompt has ended that did not fail; alike in every version of ACP."""


class PromptStop(NamedTuple):
    """The prompt returns a stop reason; ``message`` says why where the reason alone does not."""

    reason: StopReason
    message: str | None = None


class PromptFailure(NamedTuple):
    """The prompt returns a JSON-RPC error."""

    code: int
    message: str
    data: dict[str, object]


PromptEnd: TypeAlias = PromptStop | PromptFailure


OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""Effect of an option, and for how long."""


@record(frozen=True)
class PermissionOption:
    """One thing that a person can choose."""

    option_id: str
    name: str
    kind: OptionKind


@record(frozen=True)
class CommandSubject:
    """The command that a question is about, as it runs, and where."""

    command: str
    cwd: str


@record(frozen=True)
class PermissionQuestion:
    """The question of one approval."""

    session_id: str
    shown: ToolCallChanged
    """The tool call that it is about; stands alone, for a client with no optional capability."""
    options: Sequence[PermissionOption]
    reason: str | None = None
    """Why it is asked, in the words of who asks: Markdown of ours, in which they are code."""
    command: CommandSubject | None = None
    """Of a command's approval, if there is no more to it and all of it can be seen as it is."""
