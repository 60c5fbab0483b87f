"""One turn that runs for a prompt: its ids, its cancellation and its one end.

A value with no IO. Events may come in any order: the end of the turn before the answer of
``turn/start``, a cancel before either. Prompts that were steered into the turn share its end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptStop
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import JsonValue


class PromptRun:
    """What a session knows of the turn that it runs.

    ``message_id`` names the message of the prompt that began it, if it is one of ``turn/start``.
    ``active`` is a turn of the thread that runs already: Codex adds the message to that.
    ``when_ended`` is called once, with the end, before anybody who waits hears of it.
    """

    def __init__(
        self,
        message_id: str | None = None,
        active: str | None = None,
        when_ended: Callable[[PromptEnd], None] | None = None,
    ) -> None:
        self.message_id = message_id
        self.turn_id: str | None = None
        """The turn, once ``turn/start`` was answered or something else has told it."""
        self.cancelled = False
        """Whether the client has cancelled it."""
        self.steerable = True
        """Whether Codex may take more messages into the turn; it does not into a review."""
        self.turn_started = asyncio.Event()
        """Set when the turn is known and has begun: from then on it can be interrupted."""
        self.read: set[str] = set()
        """The messages that Codex has taken into a turn, by the id that we gave them."""
        self.commands: dict[str, asyncio.Event] = {}
        """Items of commands that were started and have not completed; set when they do."""
        self.asked_at: int | None = None
        """How much was written to Codex before the turn was asked for, if that is known."""
        self.asked = False
        """Whether the turn was asked for."""
        self.untaken = False
        """Whether Codex has ended without having read anything of what begins the turn."""
        self.answer = CancelScope()
        """Around the call that begins the turn."""
        self.usage: dict[str, JsonValue] | None = None
        """The tokens that it has used, as ``Usage`` of ACP's unstable schema, if Codex told."""
        self._when_ended = when_ended
        self._end: asyncio.Future[PromptEnd] = asyncio.get_running_loop().create_future()
        self._active = active
        self._begun: dict[str, str | None] = {} if active is None else {active: None}
        self._early: dict[str, PromptEnd] = {}
        self._takes_next = False

    @property
    def ended(self) -> bool:
        """Whether the end is known."""
        return self._end.done()

    @property
    def over(self) -> bool:
        """Whether nothing is to be begun for it any more."""
        return self.cancelled or self.ended

    @property
    def ended_well(self) -> bool:
        """Whether it has ended as Codex ends a turn that is done."""
        return self.ended and self._end.result() == PromptStop("end_turn")

    @property
    def active_id(self) -> str | None:
        """What Codex calls the turn while it runs: of a review, the turn inside of it."""
        inner = (turn for turn, root in self._begun.items() if root == self.turn_id)
        return self.turn_id if self.turn_id is None else next(inner, self.turn_id)

    @property
    def turn_ids(self) -> list[str]:
        """All names of the turn that are known: of a review, also the turns inside of it."""
        if self.turn_id is None:
            return []
        return [self.turn_id, *(turn for turn, root in self._begun.items() if root == self.turn_id)]

    def is_turn(self, turn_id: str | None) -> bool:
        """Whether this is the turn, by one of its names."""
        return turn_id is not None and turn_id in (self.turn_id, self.active_id)

    def finish(self, end: PromptEnd) -> None:
        """End the prompt so; only the first end counts. One that was cancelled ends cancelled."""
        if self._end.done():
            return
        end = PromptStop("cancelled") if self.cancelled else end
        self._end.set_result(end)
        if self._when_ended is not None:
            self._when_ended(end)

    def turn_known(self, turn_id: str) -> None:
        """``turn/start`` was answered; the turn may have begun, and ended, before."""
        self.turn_id = turn_id
        self._look_for_start()
        early = self._early.pop(turn_id, None)
        if early is not None:
            self.finish(early)

    def takes_next_turn(self) -> None:
        """The call that began the turn was answered without its id: it is the next one to begin.

        Or the one that has begun meanwhile: a thread runs one turn at a time.
        """
        self._takes_next = True
        begun = next((turn for turn in self._begun if turn != self._active), None)
        if begun is not None and self.turn_id is None:
            self.turn_known(begun)

    def turn_began(self, turn_id: str, root_id: str | None = None) -> None:
        """A turn of the thread began: this prompt's, or perhaps, or another one.

        ``root_id`` is the turn that it is a part of, if that is another one.
        """
        self._begun[turn_id] = None if root_id == turn_id else root_id
        if self._takes_next and self.turn_id is None:
            self.turn_known(turn_id)
        self._look_for_start()

    def turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        """A turn of the thread ended: this prompt's, or perhaps, or another one."""
        if self.turn_id is None:
            self._early[turn_id] = end
        elif turn_id == self.turn_id:
            self.finish(end)

    def message_read(self, message_id: str, turn_id: str) -> None:
        """Codex took a message into a turn; our own tells the turn, should the answer be lost."""
        self.read.add(message_id)
        self._begun.setdefault(turn_id, None)
        if message_id == self.message_id and self.turn_id is None:
            self.turn_known(turn_id)
        self._look_for_start()

    def command_began(self, item_id: str) -> None:
        """A command runs."""
        self.commands.setdefault(item_id, asyncio.Event())

    def command_ended(self, item_id: str) -> None:
        """It does not any more; nothing if it was never said that it does."""
        ended = self.commands.pop(item_id, None)
        if ended is not None:
            ended.set()

    async def wait(self) -> PromptEnd:
        """The end, whenever it comes. Cancelling the wait changes nothing."""
        return await shielded(self._end)

    def _look_for_start(self) -> None:
        if self.turn_id is not None and (
            self.turn_id in self._begun or self.turn_id in self._begun.values()
        ):
            self.turn_started.set()
