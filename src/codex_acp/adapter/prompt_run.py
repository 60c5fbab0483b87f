"""One running prompt: its turn, its cancellation and its one end.

A value with no IO. Events may come in any order: the end of the turn before the answer of
``turn/start``, a cancel before either.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codex_acp.mapping.stop_reasons import PromptStop

if TYPE_CHECKING:
    from codex_acp.mapping.stop_reasons import PromptEnd

__all__ = ["PromptRun"]


class PromptRun:
    """What a session knows of the prompt that it runs."""

    def __init__(self) -> None:
        self.turn_id: str | None = None
        """The turn, once ``turn/start`` was answered."""
        self.cancelled = False
        """Whether the client has cancelled it."""
        self.turn_started = asyncio.Event()
        """Set when the turn is known and has begun: from then on it can be interrupted."""
        self._end: asyncio.Future[PromptEnd] = asyncio.get_running_loop().create_future()
        self._begun: set[str] = set()
        self._early: dict[str, PromptEnd] = {}

    @property
    def ended(self) -> bool:
        """Whether the end is known."""
        return self._end.done()

    def finish(self, end: PromptEnd) -> None:
        """End the prompt so; only the first end counts. One that was cancelled ends cancelled."""
        if not self._end.done():
            self._end.set_result(PromptStop("cancelled") if self.cancelled else end)

    def turn_known(self, turn_id: str) -> None:
        """``turn/start`` was answered; the turn may have begun, and ended, before."""
        self.turn_id = turn_id
        self._look_for_start()
        early = self._early.pop(turn_id, None)
        if early is not None:
            self.finish(early)

    def turn_began(self, turn_id: str) -> None:
        """A turn of the thread began: this prompt's, or perhaps, or another one."""
        self._begun.add(turn_id)
        self._look_for_start()

    def turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        """A turn of the thread ended: this prompt's, or perhaps, or another one."""
        if self.turn_id is None:
            self._early[turn_id] = end
        elif turn_id == self.turn_id:
            self.finish(end)

    async def wait(self) -> PromptEnd:
        """The end, whenever it comes. Cancelling the wait changes nothing."""
        return await asyncio.shield(self._end)

    def _look_for_start(self) -> None:
        if self.turn_id in self._begun:
            self.turn_started.set()
