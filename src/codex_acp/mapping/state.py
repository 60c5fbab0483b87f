"""Define what the mapping remembers of a session between two notifications.

Only the functions of the mapping change this state, in place. The same notifications at the same
times in the same order always give the same state and the same updates. Codex streams an item's
text as deltas and then sends the whole, valid text: `left_to_send` returns the difference.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes
from codex_acp._record import record  # as `dataclass`, loaded faster
from codex_acp.acp.capabilities import ClientFeatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex._generated import models
    from codex_acp.mapping.call import OpenCall
    from codex_acp.mapping.events import RateLimit
    from codex_acp.routing.changes import Looks


MAX_NOTICES: Final = 256
"""Notices remembered so that none is repeated: a session has few, a hostile server many."""
MAX_OWN_MESSAGES: Final = 1000
"""Messages remembered as sent by the client, until Codex reports them: far more than can wait."""
MAX_ANNOUNCED: Final = 10_000
"""Tool calls remembered as announced; an older one is announced again when it changes."""


@record
class SessionState:
    """One session's memory. The first five fields are inputs: the caller sets them."""

    features: ClientFeatures = field(default_factory=ClientFeatures)
    """Features that ACP leaves to the client."""
    now: float = 0.0
    """Seconds of a monotonic clock, set before each step."""
    roots: Mapping[str, str] = field(default_factory=dict)
    """The directories that the session was opened with → where each led then."""
    looks: Looks = field(default_factory=dict)
    """Where the paths of the next step lead on the disk."""
    elsewhere: bool = False
    """Whether commands may run and files change on another machine than this one."""
    sent_text: dict[str, list[str]] = field(default_factory=dict)
    """Item id → the sent pieces of its text; cleared when a turn of the thread completes."""
    thoughts: dict[str, SentThought] = field(default_factory=dict)
    """Id of a reasoning item → its sent parts; cleared when a turn of the thread completes."""
    remarks: dict[str, None] = field(default_factory=dict)
    """Warnings of Codex about this computer, which ``/status`` shows."""
    plan_explanation: str | None = None
    """The explanation of the plan that was shown last in this turn."""
    proposed_plan: tuple[str, str] | None = None
    """Item id and text of the plan that plan mode proposed; cleared when a turn begins."""
    is_sub_agent: bool = False
    """Whether the thread is a sub-agent's, whose prompts no client has sent."""
    own_messages: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_OWN_MESSAGES))
    """``clientUserMessageId`` of the client's own messages; the caller adds them."""
    notices: LastOnes[tuple[str | None, ...], None] = field(
        default_factory=partial(LastOnes, MAX_NOTICES)
    )
    """Keys of the notices that `mapping.messages` does not repeat, oldest first."""
    review_text: str | None = None
    """The review that was shown last in this turn, which Codex also sends as a message."""
    total_usage: models.TokenUsageBreakdown | None = None
    """Tokens of the whole thread, as Codex counted them last."""
    context_usage: tuple[int, int] | None = None
    """Tokens in the context and its size, as they were sent last."""
    rate_limits: dict[str, RateLimit] = field(default_factory=dict)
    """Limit id → the account's limit, as Codex reported it last."""
    has_title: bool = False
    """Whether the client has a title of the session, or Codex has one that it can list."""
    goal: tuple[str, str] | None = None
    """The thread's goal and the goal's status, as they were shown last."""
    open_compactions: list[str] = field(default_factory=list)
    """Ids of compactions that were announced and have not ended."""
    turn_errors: dict[str, models.TurnError] = field(default_factory=dict)
    """Turn id → the last error that Codex will not retry, until a turn of the thread completes."""
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    """Tool call id → the open call, from its announcement to its end."""
    cancelled_calls: set[str] = field(default_factory=set)
    """Ids of tool calls that were cancelled alone or with their turn; cleared when the next turn
    ends."""
    shadowed: set[str] = field(default_factory=set)
    """Ids of tool calls with an open question that an item with another action also has; cleared
    when the turn ends."""
    background: dict[str, models.CommandExecutionThreadItem] = field(default_factory=dict)
    """Tool call id → a command that runs on after its turn."""
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
    """Whether Codex has reported the start; the model alone can name any thread."""
    replayed: frozenset[str] = frozenset()
    """Ids of the items in the thread's history that were shown already."""

    def begin_turn(self, turn_id: str | None) -> bool:
        """Note that a turn runs; return False if Codex has reported the turn's end already."""
        if turn_id is not None and turn_id == self.last_turn:
            return False
        self.turn_id = turn_id
        return True

    def end_turn(self, turn_id: str | None) -> None:
        self.turn_id, self.last_turn = None, turn_id


MAX_PIECES: Final = 1024
"""Pieces of a text that are kept apart; an object for a piece is ten times as large as its text."""
JOINED_PER_PIECE: Final = 64
"""Characters of the joined text that allow one more piece: so a long text is joined less often."""


@record
class SentThought:
    """Parts of one reasoning item that were sent."""

    raw: bool
    """Whether the parts are the model's raw reasoning, and not its summary."""
    part: int
    """The number of the part that was sent last."""
    pieces: list[str] = field(default_factory=list)
    """The sent text of all parts."""


def add_piece(pieces: list[str], piece: str) -> None:
    """Add a sent piece; join the pieces if there are too many. A joined text stands first."""
    if len(pieces) >= MAX_PIECES and len(pieces) >= len(pieces[0]) // JOINED_PER_PIECE:
        pieces[:] = ("".join(pieces),)
    pieces.append(piece)


def left_to_send(pieces: list[str], item_id: str, whole: str) -> tuple[str, str] | None:
    """Return the message id and the text to send after ``pieces``; None if nothing is missing.

    A ``whole`` text that does not continue the sent text becomes another message. Nothing is
    missing if the sent text begins with ``whole``, or differs from ``whole`` in blank space only.
    Afterwards ``pieces`` hold ``whole``, so that no text is sent twice.
    """
    sent = "".join(pieces)
    pieces[:] = (whole,)
    if whole.startswith(sent):
        rest = whole[len(sent) :]
        return (item_id, rest) if rest else None
    if sent.startswith(whole) or sent.split() == whole.split():
        return None
    return f"{item_id}:completed", whole
