"""Define what the mapping remembers of a session between two notifications.

Only the functions of the mapping change it, in place. The same notifications at the same times in
the same order always give the same state and the same updates. Codex streams an item's text as
deltas and then sends the item whole, which is what counts: a `StreamedText` tracks the difference.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes
from codex_acp._record import record
from codex_acp.acp.capabilities import ClientFeatures

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.call import OpenCall
    from codex_acp.mapping.events import RateLimit
    from codex_acp.routing.changes import Looks


MAX_SAID: Final = 256
"""Lines remembered so that they are not repeated: a session has few, a hostile server many."""

MAX_OWN_MESSAGES: Final = 1000
"""Messages remembered as sent by the client, until Codex reports them: far more than can wait."""

MAX_ANNOUNCED: Final = 10_000
"""Tool calls remembered as announced; an older one is announced again when it changes."""


@record
class SessionState:
    """One session's memory. The first four fields are inputs: the caller sets them."""

    client: ClientFeatures = field(default_factory=ClientFeatures)
    """Features of the client beyond the baseline."""

    now: float = 0.0
    """Seconds of a monotonic clock, set before each step."""

    roots: tuple[str, ...] = ()
    """The directories that the session was opened with."""

    looks: Looks = field(default_factory=dict)
    """Where the paths of the next step lead on the disk."""

    sent_text: dict[str, list[str]] = field(default_factory=dict)
    """Item id → the sent pieces of its text; cleared when a turn of the thread completes."""

    thoughts: dict[str, SentThought] = field(default_factory=dict)
    """Reasoning item id → the sent parts; cleared when a turn of the thread completes."""

    remarks: dict[str, None] = field(default_factory=dict)
    """Warnings of Codex about this computer, which ``/status`` shows."""

    plan_explanation: str | None = None
    """The explanation of the plan that was shown last in this turn."""

    proposed_plan: tuple[str, str] | None = None
    """Item id and text of the plan that plan mode proposed; cleared when a turn begins."""

    is_sub_agent: bool = False
    """Whether this is a sub-agent's thread, whose prompts no client has sent."""

    own_messages: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_OWN_MESSAGES))
    """``clientUserMessageId`` of the client's own messages; the caller adds them."""

    said: LastOnes[tuple[str | None, ...], None] = field(
        default_factory=partial(LastOnes, MAX_SAID)
    )
    """Lines that `mapping.messages` does not repeat, oldest first."""

    review_text: str | None = None
    """The review that was shown last in this turn; Codex sends it as a message, too."""

    total_usage: models.TokenUsageBreakdown | None = None
    """Tokens of the whole thread, as Codex counted them last; see `mapping.session`."""

    context_usage: tuple[int, int] | None = None
    """Tokens in the context and its size, as they were sent last."""

    rate_limits: dict[str, RateLimit] = field(default_factory=dict)
    """Limit id → the account's limit, as Codex reported it last."""

    titled: bool = False
    """Whether the client has a title of the session, or Codex has one that it can list."""

    goal: tuple[str, str] | None = None
    """The thread's goal and its status, as they were shown last."""

    open_compactions: list[str] = field(default_factory=list)
    """Ids of compactions that were announced and have not ended."""

    turn_errors: dict[str, models.TurnError] = field(default_factory=dict)
    """Turn id → the last error that Codex will not retry; removed when the turn completes."""

    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    """Tool call id → the open call, from its announcement to its end."""

    cancelled_calls: set[str] = field(default_factory=set)
    """Tool calls cancelled alone or with their turn; cleared at the end of the next turn."""

    shadowed: set[str] = field(default_factory=set)
    """Tool calls with an open question whose id another item took; cleared with the turn."""

    background: dict[str, models.CommandExecutionThreadItem] = field(default_factory=dict)
    """Tool call id → a command that outlives its turn, if the client is told of such commands."""

    sub_agents: dict[str, SubAgent] = field(default_factory=dict)
    """Thread id → a sub-agent of the session's thread, at any depth, oldest first."""

    announced: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_ANNOUNCED))
    """Ids of tool calls that were announced to the client, ended ones too, oldest first."""


@record
class SubAgent:
    """A thread that another thread has started."""

    thread_id: str
    parent_id: str
    call_id: str
    """Id of the item that started the thread, or named it first."""
    title: str | None = None
    description: str | None = None
    turn_id: str | None = None
    """Turn that runs in the sub-agent's thread."""
    last_turn: str | None = None
    """Turn that ended last."""
    started: bool = False
    """Whether Codex reports that the thread was started so; a model can name any thread."""
    replayed: frozenset[str] = frozenset()
    """Ids of items of its history that were shown already."""

    def began(self, turn_id: str | None) -> bool:
        """Note that a turn runs, and return True; return False if its end was reported already."""
        if turn_id is not None and turn_id == self.last_turn:
            return False
        self.turn_id = turn_id
        return True

    def ended(self, turn_id: str | None) -> None:
        """Note that a turn has ended."""
        self.turn_id, self.last_turn = None, turn_id


MAX_PIECES: Final = 1024
"""Each is an object of its own, ten times as large as its text."""

CHARACTERS_A_PIECE: Final = 64
"""So many joined already allow one more: then joining costs the same for each, however long."""


@record
class SentThought:
    """Parts of one reasoning item that were sent."""

    raw: bool
    """Whether it is the model's raw reasoning, and not its summary."""

    part: int
    """The number of the part that was sent last."""

    pieces: list[str] = field(default_factory=list)
    """The text, as it was sent."""


def add_piece(pieces: list[str], piece: str) -> None:
    """Remember that a piece was sent."""
    if len(pieces) >= MAX_PIECES and len(pieces) >= len(pieces[0]) // CHARACTERS_A_PIECE:
        pieces[:] = ("".join(pieces),)
    pieces.append(piece)


def left_to_send(pieces: list[str], item_id: str, whole: str) -> tuple[str, str] | None:
    """The message id and the text that complete what ``pieces`` have said; None: nothing does.

    A whole that says something else is a message of its own: appended to the other it would make
    no sense. One that differs in blank space only, or is the beginning of what was sent, adds
    nothing. From then on ``pieces`` are the whole, so that it is never sent twice.
    """
    sent = "".join(pieces)
    pieces[:] = (whole,)
    if whole.startswith(sent):
        rest = whole[len(sent) :]
        return (item_id, rest) if rest else None
    if sent.startswith(whole) or sent.split() == whole.split():
        return None
    return f"{item_id}:completed", whole
