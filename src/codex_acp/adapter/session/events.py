"""Events that the machine of a session handles, and the effects that it returns: plain values.

A ``prompt``, ``message``, ``turn`` or ``item`` is an id. A ``call`` is the machine's number of a
call to Codex, or of a question about a plan; a ``question`` is the driver's number of a question
that waits for the person. A `PromptEnd` is a stop reason or a `PromptFailure`. `record` makes light
dataclasses. ``serve --record`` writes the names of these classes and fields, so they stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.mapping.events import Activity, PromptEnd, PromptFailure

Kind: TypeAlias = Literal["message", "turn", "local"]
"""How a prompt reaches Codex: as a message, which can be steered into a running turn; as a turn of
its own (``/review``); or not at all, because the adapter answers it (a slash command)."""

Timer: TypeAlias = Literal[
    "cancel", "clean_up", "free", "answer", "silence", "stopped", "look_up", "steer"
]
"""Timers of a session. ``free`` bounds the wait for the end of a stale turn, after which the thread
is free for the next turn. ``silence`` runs out when Codex has sent nothing of the thread for long.
``stopped`` gives the turn a moment to end once the thread seems idle. `driver.Timings` says which
wait each timer limits."""


# Events: the client.


@record(frozen=True)
class Prompted:
    """The client sent a prompt. ``joins``: it is for a running turn and must begin none."""

    prompt: str
    joins: bool = False


@record(frozen=True)
class Prepared:
    """The content of a prompt was read and can be sent to Codex."""

    prompt: str
    kind: Kind


@record(frozen=True)
class AskedEarly:
    """A first prompt's ``turn/start`` was sent to Codex as ``call`` before the machine was made."""

    prompt: str
    call: int


@record(frozen=True)
class AnsweredLocally:
    """The command that answers a prompt without a turn has ended, and the client has its text."""

    prompt: str
    end: PromptEnd


@record(frozen=True)
class Asked:
    """The agent asked the person a question; ``turn`` None: before a turn."""

    question: int
    turn: str | None = None


@record(frozen=True)
class Settled:
    """A question to the person was answered or withdrawn."""

    question: int


@record(frozen=True)
class PlanAnswered:
    """The question about a plan ended; ``approved`` only if the person chose to carry it out."""

    call: int
    approved: bool


@record(frozen=True)
class PlanTaken:
    """The prompt now sends ``message``, whose turn leaves plan mode and carries the plan out."""

    prompt: str
    message: str
    kind: Kind


@record(frozen=True)
class PlanFailed:
    """The message that carries a plan out could not be prepared."""

    prompt: str
    failure: PromptFailure


@record(frozen=True)
class Withdrawn:
    """The driver removed a prompt, which was answered or failed before Codex got it."""

    prompt: str


@record(frozen=True)
class GivenUp:
    """The client sent ``$/cancel_request`` for one prompt."""

    prompt: str


@record(frozen=True)
class Cancelled:
    """The client sent ``session/cancel``. ``closing``: it closes the session, so that turns that
    Codex begins without a prompt are interrupted, too."""

    closing: bool = False


@record(frozen=True)
class RightsChanged:
    """The client asks for another mode: the turn that runs keeps its rights, later turns do not."""


@record(frozen=True)
class Reopened:
    """The client cancelled its request to close the session."""


# Events: notifications of Codex.


@record(frozen=True)
class TurnBegan:
    """``turn/started``. ``root``: the turn that contains ``turn``, if any; ``/review`` has one."""

    turn: str
    root: str | None = None


@record(frozen=True)
class MessageRead:
    """Codex read a prompt's message into a turn (``item/started`` of a ``userMessage``)."""

    message: str
    turn: str


@record(frozen=True)
class CommandBegan:
    """A command started."""

    item: str


@record(frozen=True)
class CommandEnded:
    """An item of any type completed; a command with this id runs no more."""

    item: str


@record(frozen=True)
class CompactionBegan:
    """A turn compacts the thread (``item/started`` of a ``contextCompaction``)."""

    turn: str


@record(frozen=True)
class TurnEnded:
    """``turn/completed``. ``plan``: the turn left a plan to ask about."""

    turn: str
    end: PromptEnd
    plan: bool = False


@record(frozen=True)
class ThreadStopped:
    """No turn of the thread runs, by ``thread/status/changed`` or ``thread/closed``."""


@record(frozen=True)
class Lost:
    """The connection to Codex ended. ``unread``: calls that Codex surely did not read."""

    failure: PromptFailure
    unread: frozenset[int] = frozenset()


@record(frozen=True)
class Moved:
    """The thread was resumed on another Codex."""


# Events: replies to calls, and timers.


@record(frozen=True)
class Started:
    """Codex answered the call that begins a turn; ``turn`` None: the answer names no turn."""

    call: int
    turn: str | None


@record(frozen=True)
class Refused:
    """Codex refused to begin a turn."""

    call: int
    failure: PromptFailure


@record(frozen=True)
class Steered:
    """Codex answered ``turn/steer``; ``taken``: without an error."""

    call: int
    taken: bool


@record(frozen=True)
class Interrupted:
    """Codex answered ``turn/interrupt``; not ``taken`` if it has not started the turn."""

    call: int
    taken: bool


@record(frozen=True)
class LookedUp:
    """A look-up of a turn ended.

    ``turn`` None: Codex knows no turn that fits. ``end`` None: the turn runs. ``ours``: whether the
    prompt's message began the turn; None: Codex's answer does not show it.
    """

    call: int
    turn: str | None
    end: PromptEnd | None = None
    ours: bool | None = None
    plan: bool = False
    """Whether the turn left a plan to ask about."""
    problem: str | None = None
    """Why the look-up failed, if it did."""


@record(frozen=True)
class CommandsStopped:
    """Codex ended commands of an interrupted turn; the completion of ``items`` will follow."""

    call: int
    items: frozenset[str]


@record(frozen=True)
class Due:
    """A timer ran out. ``asks_person``: Codex waits for an answer to a request of the thread."""

    timer: Timer
    asks_person: bool = False


ClientEvent: TypeAlias = (
    Prompted | Prepared | AskedEarly | AnsweredLocally | Asked | Settled | PlanAnswered | PlanTaken
    | PlanFailed | Withdrawn | GivenUp | Cancelled | RightsChanged | Reopened
)  # fmt: skip
"""An event of the client and its prompts."""

CodexEvent: TypeAlias = (
    TurnBegan | MessageRead | CommandBegan | CommandEnded | CompactionBegan | TurnEnded
    | ThreadStopped | Lost | Moved
)  # fmt: skip
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
    """Ask for the state of the newest of ``turns``; without turns, of the turn that has read
    ``message``."""

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
    """Ask the person whether to carry out the plan of the prompt's turn, which has ended."""

    call: int
    prompt: str


@record(frozen=True)
class TakePlan:
    """Prepare the message that carries the plan out. The prompt continues as this message."""

    call: int
    prompt: str


@record(frozen=True)
class Abandon:
    """Stop waiting for the reply to a call: Codex may never send one."""

    call: int


# Effects: for the client.


@record(frozen=True)
class Show:
    """Show the prompt's message to the client."""

    prompt: str


@record(frozen=True)
class Insert:
    """Report that Codex, or the adapter, took the prompt into the session's conversation: call the
    prompt's ``on_accepted``."""

    prompt: str


@record(frozen=True)
class AnswerLocally:
    """Run the command that answers the prompt without a turn."""

    prompt: str


@record(frozen=True)
class Answer:
    """Answer the prompt.

    ``began_turn``: the prompt began its turn, so the answer has the turn's token usage. ``unread``:
    the prompt failed, and Codex surely did not read it: another Codex may get the prompt.
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
    """Let the session (`driver.PromptHost`) prepare the turn for which Codex is asked: note the
    tokens used so far, and forget the last plan."""


@record(frozen=True)
class EndReview:
    """End the review of a plan, which is the question to the person (not ``/review``): record the
    answer. ``approved`` None: the question is withdrawn. Without a yes, end the plan's tool call.
    """

    approved: bool | None


@record(frozen=True)
class EndPlan:
    """End the tool call of an approved plan. ``begun`` True: the turn that carries the plan out is
    asked for; None: the prompt was cancelled before; False: the prompt ended before in another way,
    for example because the plan's message could not be prepared."""

    begun: bool | None


@record(frozen=True)
class ShowActivity:
    """Show the session's new activity.

    ``end``: how the work ended, if the session is idle now; ``usage``: whether to show the tokens
    of the last turn.
    """

    now: Activity
    end: PromptEnd | None = None
    usage: bool = False


@record(frozen=True)
class EndTurn:
    """Send the remaining updates of a turn, before its prompts are answered. ``turn`` None: the
    turn ended before Codex named it, for example because Codex refused to begin it."""

    turn: str | None
    end: PromptEnd


@record(frozen=True)
class SettleQuestions:
    """Withdraw the questions of a turn that is over; ``turn`` None: all questions."""

    turn: str | None = None


@record(frozen=True)
class SetTimer:
    """Start or restart a timer."""

    timer: Timer


@record(frozen=True)
class ClearTimer:
    """Stop a timer."""

    timer: Timer


@record(frozen=True)
class Warn:
    """Log a warning."""

    text: str


CallEffect: TypeAlias = (
    Start | Steer | Interrupt | LookUp | StopCommands | AskPlan | TakePlan | Abandon
)
"""A call of Codex, a question about a plan, or the end of the wait for a reply."""

PromptEffect: TypeAlias = Show | Insert | AnswerLocally | Answer | RefuseToJoin
"""An effect on one prompt."""

ShownEffect: TypeAlias = (
    AskTurn | EndReview | EndPlan | ShowActivity | EndTurn | SettleQuestions | Warn
)
"""An effect on the session's updates, questions or log."""

TimerEffect: TypeAlias = SetTimer | ClearTimer

Effect: TypeAlias = CallEffect | PromptEffect | ShownEffect | TimerEffect
