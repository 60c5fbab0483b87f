"""A turn for synchronous code; see `codex_acp.codex.sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.sync.loop_calls import LoopCalls
    from codex_acp.codex.threads import turn as one_turn
    from codex_acp.codex.threads.inputs import Input
    from codex_acp.codex.threads.results import RunResult

T = TypeVar("T")


class Turn(Generic[T]):
    """A running turn, as `codex_acp.codex.Turn`: ``with thread.turn(...) as turn: for event in
    turn: ...``.

    Iterating one that was not entered enters it, and leaves it when the loop is left.
    """

    def __init__(self, codex: LoopCalls, turn: one_turn.Turn[T]) -> None:
        self._codex = codex
        self._entered = False
        self.turn = turn
        """This turn on the event loop."""
        self.thread_id: str = turn.thread_id
        """The thread it belongs to."""

    def __repr__(self) -> str:
        return f"{self.turn!r}"

    @property
    def id(self) -> str:
        """Return the id of the turn, as `codex_acp.codex.Turn.id` does."""
        return self.turn.id

    @property
    def so_far(self) -> RunResult[None]:
        """Return the result so far, as `codex_acp.codex.Turn.so_far` does."""
        return self.turn.so_far

    def __enter__(self) -> Self:
        """Start the turn."""
        self._codex.call(self.turn.__aenter__)
        self._entered = True
        return self

    def __exit__(self, *_exc: object) -> None:
        """Leave the turn: interrupt it unless it has ended or was detached."""
        self._codex.call(self.turn.aclose)

    def __iter__(self) -> Iterator[ServerNotification]:
        """Its typed notifications, as they come."""
        if not self._entered:
            with self:
                yield from self._events()
        else:
            yield from self._events()

    def result(self) -> RunResult[T]:
        """Wait for the result, as `codex_acp.codex.Turn.result` does."""
        return self._codex.call(self.turn.result)

    def steer(self, more: Input) -> None:
        """Add input to the running turn, as `codex_acp.codex.Turn.steer` does."""
        self._codex.call(self.turn.steer, more)

    def interrupt(self) -> None:
        """Interrupt the turn, as `codex_acp.codex.Turn.interrupt` does."""
        self._codex.call(self.turn.interrupt)

    def detach(self) -> None:
        """Leave the turn running, as `codex_acp.codex.Turn.detach` does."""
        self._codex.call(self.turn.detach)

    def _events(self) -> Iterator[ServerNotification]:
        while (event := self._codex.call(anext, self.turn, None)) is not None:
            yield event
