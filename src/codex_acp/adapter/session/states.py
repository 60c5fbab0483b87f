"""States of a session: each union is closed, and a value of it never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.adapter.session.events import Kind
    from codex_acp.mapping.events import PromptEnd

# Prompts that are not answered.


@record(frozen=True)
class Waits:
    """The prompt can be taken back without a trace. ``steered``: it was added to a turn that has
    ended without reading it, so the client has seen it taken."""

    steered: bool = False


@record(frozen=True)
class Local:
    """This side answers the prompt, without a turn."""


@record(frozen=True)
class Steers:
    """``turn/steer`` is on the wire.

    ``end``: how the turn has ended meanwhile; ``unread``: surely without the message.
    """

    call: int
    turn: str
    end: PromptEnd | None = None
    unread: bool = False


@record(frozen=True)
class InTurn:
    """The prompt is a part of the turn that is asked for, or runs, and ends with it."""


@record(frozen=True)
class Reviews:
    """The prompt's turn has ended with a plan. ``call``: the question whether it is carried out;
    None: it is, and plan mode is being left."""

    call: int | None


Place: TypeAlias = Waits | Local | Steers | InTurn | Reviews


@record(frozen=True)
class Prompt:
    """One prompt. ``kind`` None: its content is being read. ``inserted``: its message was shown;
    ``works``: a message of it was, so that the session is not idle. ``returned``: it was taken out
    of a turn that ended without reading it, which happens once at most."""

    id: str
    kind: Kind | None
    place: Place
    joins: bool = False
    inserted: bool = False
    works: bool = False
    returned: bool = False


@record(frozen=True)
class Question:
    """Something that a person is asked. ``turn`` None: before a turn."""

    id: int
    turn: str | None


# The turn.


@record(frozen=True)
class Run:
    """A turn, as far as it is known.

    ``number`` tells one from the next. ``starter`` is the prompt whose message begins it; None:
    Codex began it by itself. ``turn`` None: Codex has not named it. ``call``: the one that begins
    it, until it is answered.
    """

    number: int
    starter: str | None
    turn: str | None = None
    call: int | None = None
    begun: tuple[tuple[str, str | None], ...] = ()
    """Turns of the thread that have begun meanwhile, each with the turn that it is a part of."""
    ended: tuple[tuple[str, PromptEnd], ...] = ()
    """Turns that have ended while it had no name."""
    read: frozenset[str] = frozenset()
    """Messages that Codex has taken into a turn."""
    commands: frozenset[str] = frozenset()
    """Items of commands that run."""
    steerable: bool = True
    added: bool = False
    """Codex added the message to a turn that was given up."""
    compacts: bool = False
    """Codex answered without a name: it is the next turn that compacts the thread."""

    @property
    def inner(self) -> tuple[str, ...]:
        """Turns that are a part of it: Codex runs a review inside of one."""
        return tuple(turn for turn, root in self.begun if root == self.turn and root is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the turn."""
        return () if self.turn is None else (self.turn, *self.inner)

    @property
    def active(self) -> str | None:
        """The name by which Codex takes messages and interrupts: the inner turn's, if any."""
        return next(iter(self.inner), self.turn)

    @property
    def started(self) -> bool:
        """Whether the turn is known and has begun: Codex refuses to interrupt it before that."""
        return self.turn is not None and any(self.turn in pair for pair in self.begun)


@record(frozen=True)
class Idle:
    """No turn runs. ``freed``: a given-up turn for which no prompt is held up any longer."""

    freed: bool = False


@record(frozen=True)
class Freeing:
    """A given-up turn runs, or may still begin: a prompt waits for its end, but not long.

    ``call``: its interrupt.
    """

    call: int | None


@record(frozen=True)
class Starting:
    """The call that begins a turn is on the wire, and Codex has not named the turn."""

    run: Run
    cancelled: bool = False


@record(frozen=True)
class Running:
    """A turn with a name."""

    run: Run


@record(frozen=True)
class Cancelling:
    """The turn was cancelled. ``call``: the interrupt on the wire; ``tries``: interrupts so far."""

    run: Run
    call: int | None = None
    tries: int = 0


@record(frozen=True)
class CleaningUp:
    """The turn has ended interrupted, and commands of it still run: they are ended first.

    ``left`` None: Codex has not answered; else the items whose completion is waited for.
    """

    run: Run
    end: PromptEnd
    call: int
    left: frozenset[str] | None = None
    cancelled: bool = False


Turn: TypeAlias = Idle | Freeing | Starting | Running | Cancelling | CleaningUp


@record(frozen=True)
class LateStart:
    """A call that begins a turn, given up before Codex named the turn: what it begins is stale.

    ``begins``: the next turn to begin is taken for it, until a message tells otherwise.
    """

    call: int
    message: str
    begins: bool
