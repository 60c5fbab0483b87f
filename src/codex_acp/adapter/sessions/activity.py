"""What a session is doing, as a client is told that is told of it: running, waiting, idle."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codex_acp.mapping.events.session_events import Activity, StateChanged
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codex_acp.adapter.prompts.turn_calls import TurnCalls
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.state import SessionState


class SessionActivity:
    """``tell`` is called with each change, in order."""

    def __init__(self, tell: Callable[[StateChanged], None]) -> None:
        self._tell = tell
        self._works = False
        self._questions = 0
        self._only_asks = False
        """Whether it works for nothing but a question that comes before a turn."""
        self._speeches = 0
        self._held: PromptEnd | None = None
        """The end of what was over while a command still spoke."""
        self._told: Activity = "idle"

    @property
    def now(self) -> Activity:
        """Codex waits for the person while any question is open: it asks from within its turn."""
        if not self._works:
            return "idle"
        return "requires_action" if self._questions else "running"

    def begins(self) -> None:
        """A prompt was taken, or Codex works by itself."""
        self._works, self._only_asks = True, False
        self._look()

    def ends(self, end: PromptEnd, usage: Mapping[str, JsonValue] | None = None) -> None:
        """That is over; said once, with why and with the tokens that it took, and not before a
        command has spoken."""
        if self._speeches:
            self._held = end
        elif self._works:
            self._works = False
            self._told = "idle"
            self._tell(StateChanged("idle", end, usage=usage))

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """While a prompt is answered without a turn."""
        self._speeches += 1
        try:
            yield
        finally:
            self._speeches -= 1

    def spoken(self, end: PromptEnd, *, works: bool) -> None:
        """It has been; ``works``: a turn runs, whose end will be told."""
        held, self._held = self._held, None
        if not works:
            self.ends(held if held is not None and end == PromptStop("end_turn") else end)

    def again(self) -> None:
        """Say what is, whatever was said before."""
        self._told = self.now
        self._tell(StateChanged(self._told))

    def again_soon(self) -> bool:
        """The same behind what is being shown now; true, for who asks whether to show it."""
        asyncio.get_running_loop().call_soon(self.again)
        return True

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a person is asked something."""
        self.asks()
        try:
            yield
        finally:
            self.asked()

    def asks(self) -> None:
        """A person is asked something."""
        self._questions += 1
        self._look()

    def asked(self) -> None:
        """That was answered, or withdrawn."""
        self._questions -= 1
        self._look()

    @contextmanager
    def asking_first(self) -> Iterator[None]:
        """While a person is asked before a turn begins, or while one runs."""
        if not self._works:
            self.begins()
            self._only_asks = True
        try:
            with self.waiting():
                yield
        finally:
            if self._only_asks:
                self.ends(PromptStop("end_turn"))

    def _look(self) -> None:
        if self.now != self._told:
            self.again()


async def stop_command(state: SessionState, calls: TurnCalls, call_id: str) -> bool:
    """End the command of a tool call that runs; whether there was one that could be ended."""
    open_call = state.open_calls.get(call_id)
    item = state.background.get(call_id) if open_call is None else open_call.item
    process_id = getattr(item, "process_id", None)
    if process_id is None:
        return False
    state.cancelled_calls.add(call_id)  # before Codex tells what came of it
    stopped = False
    try:
        stopped = await calls.terminate(process_id)
    finally:
        if not stopped:
            state.cancelled_calls.discard(call_id)
    return stopped
