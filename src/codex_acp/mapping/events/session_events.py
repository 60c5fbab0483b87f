"""The events of a session: what the mapping makes of what Codex says.

A closed union. Each version of ACP has one total rendering of it (`mapping.v1`, `mapping.v2`), so
that a new kind of event fails the type check in each. Facts are whole here; a version that has no
room for one leaves it out. Of a tool call, None is what is not said, an empty list is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.config.options import Option
    from codex_acp.mapping.events.content import Block, CallContent, Location

__all__ = [
    "CallKind",
    "CallStatus",
    "Command",
    "CommandsChanged",
    "CompactionChanged",
    "CompactionStatus",
    "ModeChanged",
    "Notice",
    "OptionsChanged",
    "PlanChanged",
    "PlanStep",
    "SessionEvent",
    "SessionEvents",
    "Severity",
    "StepStatus",
    "TerminalExit",
    "TerminalOutput",
    "TerminalState",
    "TextChunk",
    "ThoughtChunk",
    "ThoughtLine",
    "TitleChanged",
    "ToolCallAnnounced",
    "ToolCallChanged",
    "UsageChanged",
    "UserMessage",
    "given",
]

CallKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]
"""What a tool call does."""

CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
"""How a tool call is; ``cancelled``: it ended with its turn, or was stopped, before it was done."""

StepStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
"""How a step of a plan is."""

CompactionStatus: TypeAlias = Literal["in_progress", "completed", "cancelled"]
"""How a compaction is."""

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


@dataclass(slots=True)
class ThoughtLine:
    """A thought that belongs to no item, on lines of its own."""

    message_id: str
    text: str


@dataclass(slots=True)
class UserMessage:
    """A message of the person, whole."""

    message_id: str
    content: Sequence[Block]


@dataclass(slots=True)
class Notice:
    """A line that is no part of the conversation: a warning, a decline, news of the server."""

    severity: Severity
    title: str
    """Stands alone; all that could not be seen is visible."""
    details: str | None = None


# Tool calls.


@dataclass(slots=True)
class TerminalExit:
    """How a command has ended; None: that is not known."""

    code: int | None = None


@dataclass(slots=True)
class TerminalState:
    """What is new of the terminal that a tool call shows; None is what is not said."""

    terminal_id: str
    cwd: str | None = None
    command: str | None = None
    output: str | None = None
    """A piece that follows what was said of its output."""
    exit: TerminalExit | None = None


@dataclass(slots=True, kw_only=True)
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
    """What is structured of the result: its text stands in the content, once."""
    name: str | None = None
    """The tool's name for programs, where Codex gives one."""
    terminal: TerminalState | None = None


@dataclass(slots=True, kw_only=True)
class ToolCallChanged:
    """What is new of a tool call; each field that is given replaces."""

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


@dataclass(slots=True)
class TerminalOutput:
    """More output of a command that runs."""

    terminal_id: str
    data: str
    instead: str | None = None
    """So much came that this stands in place of all of it, `data` included; None: it is added."""


# The session.


@dataclass(slots=True)
class PlanStep:
    """One step of a plan."""

    content: str
    status: StepStatus


@dataclass(slots=True)
class PlanChanged:
    """The plan of a turn, whole."""

    plan_id: str
    steps: Sequence[PlanStep]


@dataclass(slots=True)
class UsageChanged:
    """Tokens in the context, and how many fit."""

    used: int
    size: int


@dataclass(slots=True)
class TitleChanged:
    """The session's title; None: it has none."""

    title: str | None


@dataclass(slots=True)
class Command:
    """A slash command; ``hint`` says what may follow it, None: nothing."""

    name: str
    description: str
    hint: str | None = None


@dataclass(slots=True)
class CommandsChanged:
    """All slash commands."""

    commands: Sequence[Command]


@dataclass(slots=True)
class OptionsChanged:
    """All config options."""

    options: Sequence[Option]


@dataclass(slots=True)
class ModeChanged:
    """The current mode, which is an option, too."""

    mode_id: str


@dataclass(slots=True)
class CompactionChanged:
    """A compaction of the context."""

    compaction_id: str
    status: CompactionStatus
    known: bool
    """Whether an event told of it before."""


SessionEvent: TypeAlias = (
    TextChunk
    | ThoughtChunk
    | ThoughtLine
    | UserMessage
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
)
"""One thing that a session tells its client."""

SessionEvents: TypeAlias = "Sequence[SessionEvent]"
"""Events of one session, in the order in which they are to be told."""


_FIELDS: Final = tuple(field.name for field in fields(ToolCallChanged))


def given(call: ToolCallAnnounced | ToolCallChanged) -> dict[str, Any]:
    """The fields that are said of a tool call, by name."""
    return {name: value for name in _FIELDS if (value := getattr(call, name)) is not None}
