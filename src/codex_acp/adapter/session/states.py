"""States of a session's prompts and of its turn: immutable values in closed unions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.adapter.session.events import Kind
    from codex_acp.mapping.events import PromptEnd

# Prompts that are not answered.


@record(frozen=True)
class Waits:
    """The prompt waits for its turn. ``steered``: Codex had added it to a turn that ended without
    reading it, so the client has seen its message already."""

    steered: bool = False


@record(frozen=True)
class Local:
    """The adapter answers the prompt, without a turn."""


@record(frozen=True)
class Steers:
    """The reply to ``turn/steer`` is awaited.

    ``end``: how the turn ended meanwhile; ``unread``: the turn surely did not read the message.
    """

    call: int
    turn: str
    end: PromptEnd | None = None
    unread: bool = False


@record(frozen=True)
class InTurn:
    """The prompt belongs to the turn that starts or runs; the turn's end answers it."""


@record(frozen=True)
class Reviews:
    """The prompt's turn ended with a plan. ``call``: the number of the question whether to carry
    the plan out; after a yes, the number of the preparation of the plan's message."""

    call: int


Place: TypeAlias = Waits | Local | Steers | InTurn | Reviews
"""How far a prompt is on the way to its answer."""


@record(frozen=True)
class Prompt:
    """One prompt.

    ``kind`` None: its content is being read. ``joins``: it is for a running turn and must begin
    none. ``inserted``: its message was shown. ``works``: one of its messages was shown (a plan
    that is carried out makes a second), so the session is not idle. ``approved``: the person wants
    its plan carried out, and the turn that leaves plan mode has not begun. ``returned``: it went
    back to the queue after a turn that did not read it, which may happen once.
    """

    id: str
    kind: Kind | None
    place: Place
    joins: bool = False
    inserted: bool = False
    works: bool = False
    approved: bool = False
    returned: bool = False


@record(frozen=True)
class Question:
    """A question to the person. ``turn`` None: it is asked before a turn."""

    id: int
    turn: str | None


# The turn.


@record(frozen=True)
class Run:
    """A turn, as far as the session knows it.

    ``number`` counts the turns of the session. ``starter`` is the prompt whose message begins the
    turn; None: Codex began the turn without a prompt. ``turn`` is Codex's id of the turn, None
    until Codex has named it. ``call`` is the number of the call that begins the turn, until its
    reply.
    """

    number: int
    starter: str | None
    turn: str | None = None
    call: int | None = None
    begun: tuple[tuple[str, str | None], ...] = ()
    """Turns of the thread that have begun since, each with its outer turn or None."""
    ended: tuple[tuple[str, PromptEnd], ...] = ()
    """Turns of the thread that ended before Codex named this one."""
    read: frozenset[str] = frozenset()
    """Ids of the messages that Codex has read into a turn."""
    commands: frozenset[str] = frozenset()
    """Ids of the commands' items that run."""
    steerable: bool = True
    """Whether a message may join the turn: Codex takes it, and no later message has other rights.
    """
    added_to_old: bool = False
    """Whether Codex added the starter's message to a turn that was given up or answered."""
    compacts: bool = False
    """Whether the turn compacts the thread: Codex's reply does not name this turn."""

    @property
    def inner(self) -> tuple[str, ...]:
        """Turns inside this one: Codex runs a review in an inner turn."""
        return tuple(turn for turn, outer in self.begun if outer is not None and outer == self.turn)

    def outer_of(self, turn: str | None) -> str | None:
        """Return the turn around an inner turn that has begun; None for any other turn."""
        return None if turn is None else dict(self.begun).get(turn)

    def has_begun(self, turn: str) -> bool:
        """Return whether a turn has begun: an inner turn, or the turn around it."""
        return any(turn in pair for pair in self.begun)

    @property
    def begun_and_not_ended(self) -> set[str]:
        """Turns that have begun and not ended, with their outer turns."""
        over = {turn for turn, _ in self.ended}
        pairs = [pair for pair in self.begun if over.isdisjoint(pair)]
        return {name for pair in pairs for name in pair if name is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the turn and of its inner turns."""
        return () if self.turn is None else (self.turn, *self.inner)

    @property
    def target(self) -> str | None:
        """The id that Codex accepts for messages and interrupts: the inner turn's, if any."""
        return next(iter(self.inner), self.turn)

    @property
    def started(self) -> bool:
        """Whether the turn is named and has begun: before, Codex refuses to interrupt it."""
        return self.turn is not None and self.has_begun(self.turn)


@record(frozen=True)
class Idle:
    """No turn runs. ``freed``: the next prompt waits no longer for the end of a stale turn."""

    freed: bool = False


@record(frozen=True)
class Freeing:
    """A prompt waits, for a short time, for the end of a stale turn. ``call``: the number of the
    turn's interrupt."""

    call: int | None


@record(frozen=True)
class Starting:
    """A turn was asked for, and Codex has not named it."""

    run: Run
    cancelled: bool = False


@record(frozen=True)
class Running:
    """A turn runs that Codex has named."""

    run: Run


@record(frozen=True)
class Cancelling:
    """The turn was cancelled. ``call``: the awaited interrupt; ``tries``: interrupts so far."""

    run: Run
    call: int | None = None
    tries: int = 0


@record(frozen=True)
class CleaningUp:
    """The turn was interrupted, and Codex ends its commands that still run.

    ``left``: the items whose completion is awaited; None: Codex has not replied yet.
    """

    run: Run
    end: PromptEnd
    call: int
    left: frozenset[str] | None = None
    cancelled: bool = False


Turn: TypeAlias = Idle | Freeing | Starting | Running | Cancelling | CleaningUp


@record(frozen=True)
class LateStart:
    """A call that was given up before Codex named the turn that it begins: that turn is stale.

    ``call`` None: it was answered, without naming the turn (``/compact``).
    ``message`` None: the call begins a turn of its own (``/review``), and no other turn takes it.
    ``begins``: the next turn counts as the stale turn, unless a message shows otherwise.
    """

    call: int | None
    message: str | None
    begins: bool
