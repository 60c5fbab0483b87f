"""Events that the machine of a session handles, and the effects that it returns: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.mapping.events import Activity, PromptEnd, PromptFailure

Kind: TypeAlias = Literal["message", "turn", "local"]
"""How Codex is given a prompt: as a message, which can be steered into a running turn; as a turn of
its own (a review); or not at all, because this side answers it (a slash command)."""

Timer: TypeAlias = Literal[
    "cancel", "clean_up", "free", "answer", "silence", "stopped", "look_up", "steer"
]
"""Timers of a session; how long each runs, `Timings` says."""


# Events: the client.


@record(frozen=True)
class Prompted:
    """The client sent a prompt. ``joins``: it is for a running turn and must begin none."""

    prompt: str
    joins: bool = False


@record(frozen=True)
class Prepared:
    """The content of a prompt was read: it can be given to Codex."""

    prompt: str
    kind: Kind


@record(frozen=True)
class AskedEarly:
    """``turn/start`` was written for a first prompt before the machine was made, as ``call``."""

    prompt: str
    call: int


@record(frozen=True)
class AnsweredLocally:
    """The command that answers a prompt without a turn has ended, and its text was sent."""

    prompt: str
    end: PromptEnd


@record(frozen=True)
class Asked:
    """The person is asked something: for a turn, see `SessionMachine.may_ask`, or before one."""

    question: int
    turn: str | None = None


@record(frozen=True)
class Settled:
    """A question was answered, or withdrawn."""

    question: int


@record(frozen=True)
class PlanAnswered:
    """Whether a plan is carried out; anything but the choice to do it is a no."""

    call: int
    approved: bool


@record(frozen=True)
class PlanTaken:
    """Plan mode was left for a prompt, which goes on as the message that carries the plan out."""

    prompt: str
    message: str
    kind: Kind


@record(frozen=True)
class PlanFailed:
    """Plan mode could not be left."""

    prompt: str
    failure: PromptFailure


@record(frozen=True)
class Withdrawn:
    """A prompt failed before Codex was given anything of it; the client has its error."""

    prompt: str


@record(frozen=True)
class GivenUp:
    """The client sent ``$/cancel_request`` for one prompt."""

    prompt: str


@record(frozen=True)
class Cancelled:
    """The client sent ``session/cancel``. ``closing``: it closes the session, so that what Codex
    begins by itself is interrupted, too."""

    closing: bool = False


@record(frozen=True)
class Reopened:
    """The client gave up its close of the session."""


# Events: notifications of Codex.


@record(frozen=True)
class TurnBegan:
    """``turn/started``. ``root``: the turn that this one is a part of, if Codex names another."""

    turn: str
    root: str | None = None


@record(frozen=True)
class MessageRead:
    """Codex took a message of ours into a turn (``item/started`` of a ``userMessage``)."""

    message: str
    turn: str


@record(frozen=True)
class CommandBegan:
    """A command runs."""

    item: str


@record(frozen=True)
class CommandEnded:
    """A command does not run any more."""

    item: str


@record(frozen=True)
class CompactionBegan:
    """A turn compacts the thread (``item/started`` of a ``contextCompaction``)."""

    turn: str


@record(frozen=True)
class TurnEnded:
    """``turn/completed``, as far as it could be read. ``plan``: there is a plan to ask about."""

    turn: str
    end: PromptEnd
    plan: bool = False


@record(frozen=True)
class ThreadStopped:
    """Codex says that no turn of the thread runs (``thread/status/changed``, ``thread/closed``)."""


@record(frozen=True)
class Lost:
    """The connection to Codex ended. ``unread``: calls of which Codex surely read nothing."""

    failure: PromptFailure
    unread: frozenset[int] = frozenset()


@record(frozen=True)
class Moved:
    """The thread was resumed on another Codex."""


# Events: replies to calls, and timers.


@record(frozen=True)
class Started:
    """Codex answered the call that begins a turn; ``turn`` None: the answer does not name it."""

    call: int
    turn: str | None


@record(frozen=True)
class Refused:
    """Codex refused to begin a turn."""

    call: int
    failure: PromptFailure


@record(frozen=True)
class Steered:
    """Codex answered ``turn/steer``."""

    call: int
    taken: bool


@record(frozen=True)
class Interrupted:
    """Codex answered ``turn/interrupt``; it refuses one for a turn that it has not started."""

    call: int
    taken: bool


@record(frozen=True)
class LookedUp:
    """Codex answered what became of a turn.

    ``turn`` None: it knows none that fits. ``end`` None: the turn runs. ``ours`` None: nothing in
    the answer says whether our message began it.
    """

    call: int
    turn: str | None
    end: PromptEnd | None = None
    ours: bool | None = None
    plan: bool = False
    """Whether there is a plan to ask about."""
    problem: str | None = None
    """Why Codex said nothing, where it did not."""


@record(frozen=True)
class CommandsStopped:
    """Commands that an interrupted turn left running were ended: their items still complete."""

    call: int
    items: frozenset[str]


@record(frozen=True)
class Due:
    """A timer ran out. ``asks_person``: Codex waits for a person's answer in this thread."""

    timer: Timer
    asks_person: bool = False


ClientEvent: TypeAlias = (
    Prompted
    | Prepared
    | AskedEarly
    | AnsweredLocally
    | Asked
    | Settled
    | PlanAnswered
    | PlanTaken
    | PlanFailed
    | Withdrawn
    | GivenUp
    | Cancelled
    | Reopened
)
"""An event that the client brings about."""

CodexEvent: TypeAlias = (
    TurnBegan
    | MessageRead
    | CommandBegan
    | CommandEnded
    | CompactionBegan
    | TurnEnded
    | ThreadStopped
    | Lost
    | Moved
)
"""An event that Codex reports."""

ReplyEvent: TypeAlias = Started | Refused | Steered | Interrupted | LookedUp | CommandsStopped
"""An event that is the reply to a call."""

Event: TypeAlias = ClientEvent | CodexEvent | ReplyEvent | Due


# Effects: calls of Codex.


@record(frozen=True)
class Start:
    """Begin a turn with the prompt's message."""

    call: int
    prompt: str


@record(frozen=True)
class Steer:
    """Add the prompt's message to a running turn."""

    call: int
    prompt: str
    turn: str


@record(frozen=True)
class Interrupt:
    """Interrupt a turn."""

    call: int
    turn: str


@record(frozen=True)
class LookUp:
    """Ask what became of one of ``turns``; with none, of the turn that ``message`` began."""

    call: int
    turns: tuple[str, ...]
    message: str | None


@record(frozen=True)
class StopCommands:
    """End the commands of an interrupted turn that still run."""

    call: int
    items: frozenset[str]


@record(frozen=True)
class AskPlan:
    """Ask the person whether the plan of the prompt's turn, which has ended, is carried out."""

    call: int
    prompt: str


@record(frozen=True)
class TakePlan:
    """Leave plan mode, and have the prompt go on as the message that carries the plan out."""

    prompt: str


@record(frozen=True)
class Abandon:
    """Wait no longer for the reply to a call: Codex may never send it."""

    call: int


# Effects: what the client is told.


@record(frozen=True)
class Show:
    """Show the prompt's message: it has its place among the session's."""

    prompt: str


@record(frozen=True)
class Insert:
    """Tell that the prompt has its place."""

    prompt: str


@record(frozen=True)
class AnswerLocally:
    """Run the command that answers the prompt without a turn."""

    prompt: str


@record(frozen=True)
class Answer:
    """Answer the prompt.

    ``began_turn``: the turn's token usage is this prompt's. ``unread``: it failed, and Codex
    surely read nothing of it, so that another Codex may be given it.
    """

    prompt: str
    end: PromptEnd
    began_turn: bool = False
    unread: bool = False


@record(frozen=True)
class RefuseToJoin:
    """Refuse a prompt that is for a running turn: no turn could take it."""

    prompt: str


@record(frozen=True)
class AskTurn:
    """Forget the plan of the last turn: a turn is asked for."""


@record(frozen=True)
class EndReview:
    """Tell what became of the question about a plan; ``approved`` None: it is withdrawn."""

    approved: bool | None


@record(frozen=True)
class ShowActivity:
    """Tell what the session does from now on.

    ``end``: why nothing runs any more; ``usage``: with the tokens of the turn that ended last.
    """

    now: Activity
    end: PromptEnd | None = None
    usage: bool = False


@record(frozen=True)
class EndTurn:
    """Send what is still to be sent of a turn, before its prompts are answered."""

    turn: str | None
    end: PromptEnd


@record(frozen=True)
class SettleQuestions:
    """Withdraw what is asked of the person for a turn that is over; ``turn`` None: all that is,
    since it was cancelled or given up."""

    turn: str | None = None


@record(frozen=True)
class SetTimer:
    """Start a timer anew."""

    timer: Timer


@record(frozen=True)
class ClearTimer:
    """Stop a timer."""

    timer: Timer


@record(frozen=True)
class Warn:
    """Write a line to the log."""

    text: str


CallEffect: TypeAlias = (
    Start | Steer | Interrupt | LookUp | StopCommands | AskPlan | TakePlan | Abandon
)
"""An effect of which a reply is an event."""

PromptEffect: TypeAlias = Show | Insert | AnswerLocally | Answer | RefuseToJoin
"""An effect on one prompt."""

ShownEffect: TypeAlias = AskTurn | EndReview | ShowActivity | EndTurn | SettleQuestions | Warn
"""An effect on what is shown."""

TimerEffect: TypeAlias = SetTimer | ClearTimer

Effect: TypeAlias = CallEffect | PromptEffect | ShownEffect | TimerEffect
