"""Define the mapping's memory of a session between two notifications.

Changed in place by the functions of the mapping, and by nothing else; the same notifications at
the same times in the same order always give the same state and the same updates.
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
    from codex_acp.mapping.calls.call import OpenCall
    from codex_acp.mapping.events.session_events import RateLimit
    from codex_acp.mapping.streamed_text import SentThought
    from codex_acp.routing.changes import Looks

MAX_SAID: Final = 256
"""Lines that are not repeated; a session has a handful, and a hostile server has no limit."""

MAX_OWN_MESSAGES: Final = 1000
"""Of the client, which are known as its own when Codex tells of them: far more than can wait."""

MAX_ANNOUNCED: Final = 10_000
"""Tool calls that are known to be announced; an older one that changes is announced again."""


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
    """How the disk has the paths that the next step shows."""

    sent_text: dict[str, list[str]] = field(default_factory=dict)
    """Item id → the pieces of its text that were sent; gone when a turn of the thread completes."""

    thoughts: dict[str, SentThought] = field(default_factory=dict)
    """Reasoning item id → what was sent of it; gone when a turn of the thread completes."""

    remarks: dict[str, None] = field(default_factory=dict)
    """Codex's remarks on the machine, for the session's status."""

    plan_explanation: str | None = None
    """The explanation of the plan that was shown last in this turn."""

    proposed_plan: tuple[str, str] | None = None
    """The plan that plan mode has proposed: its item, its text; gone when a turn begins."""

    is_sub_agent: bool = False
    """Whether it is a sub-agent's thread: what it is told, no client has sent itself."""

    own_messages: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_OWN_MESSAGES))
    """``clientUserMessageId`` of what the client said itself; the caller adds to it."""

    said: LastOnes[tuple[str | None, ...], None] = field(
        default_factory=partial(LastOnes, MAX_SAID)
    )
    """Lines that `mapping.messages` does not repeat, oldest first."""

    review_text: str | None = None
    """The review that was shown last in this turn; Codex sends it as a message, too."""

    total_usage: models.TokenUsageBreakdown | None = None
    """Tokens of the whole thread, as Codex counted them last; see `mapping.session.states`."""

    context_usage: tuple[int, int] | None = None
    """Tokens in the context and its size, as they were sent last."""

    rate_limits: dict[str, RateLimit] = field(default_factory=dict)
    """The account's limits by their ids, as far as they were told; see `session.rate_limits`."""

    titled: bool = False
    """Whether the client has a title of the session, or Codex has one that it can list."""

    goal: tuple[str, str] | None = None
    """The thread's goal and its status, as they were said last."""

    open_compactions: list[str] = field(default_factory=list)
    """Compactions that were told of and have not ended."""

    turn_errors: dict[str, models.TurnError] = field(default_factory=dict)
    """Turn id → the last error that Codex will not retry; gone when the turn completes."""

    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    """Tool call id → what is remembered of it, from its announcement to its end."""

    cancelled_calls: set[str] = field(default_factory=set)
    """Tool calls that were cancelled, alone or with their turn; gone at the end of the next one."""

    shadowed: set[str] = field(default_factory=set)
    """Tool calls that were asked about when another item took their id; gone with the turn."""

    background: dict[str, models.CommandExecutionThreadItem] = field(default_factory=dict)
    """Tool call id → the command that runs on although its turn has ended, if that is told."""

    sub_agents: dict[str, SubAgent] = field(default_factory=dict)
    """By thread, the sub-agents of the session's own thread at any depth, in their order."""

    announced: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_ANNOUNCED))
    """Tool calls that the client knows, also ended ones, oldest first."""


@record
class SubAgent:
    """A thread that another one has started, and what is known of it."""

    thread_id: str
    parent_id: str
    call_id: str
    """The item that started it, or was first to name it."""
    title: str | None = None
    description: str | None = None
    turn_id: str | None = None
    """Turn that runs in the sub-agent's thread."""
    last_turn: str | None = None
    """Turn that ended last."""
    started: bool = False
    """Whether Codex says that it was started there; else a model may have named any thread."""
    replayed: frozenset[str] = frozenset()
    """The items of its history that were shown already."""

    def began(self, turn_id: str | None) -> bool:
        """Note that a turn runs; False for one that has ended: it comes behind its own end."""
        if turn_id is not None and turn_id == self.last_turn:
            return False
        self.turn_id = turn_id
        return True

    def ended(self, turn_id: str | None) -> None:
        """Note that nothing runs."""
        self.turn_id, self.last_turn = None, turn_id
