"""A prompt of text that comes while what a prompt needs is still being loaded.

Its turn is asked for at once, and it goes the way of all prompts when the rest is there. Owns
nothing; see `EarlyTurn`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.prompts.host import PromptDone
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.events.content import Block, TextBlock


class RunPrompt(Protocol):
    """See `CodexAgent.run_prompt`."""

    async def __call__(
        self, session_id: str, blocks: Sequence[Block], *, early: EarlyTurn | None
    ) -> PromptDone: ...


class QuickPrompts:
    """See `Side`, ``quick``: called with the params of each ``session/prompt``."""

    def __init__(self, ahead: LoadAhead, sessions: Sessions, run_prompt: RunPrompt) -> None:
        self._ahead = ahead
        self._sessions = sessions
        self._run_prompt = run_prompt

    def __call__(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        """What answers it; None: it is read by the models."""
        if not self._ahead.loading:
            return None
        from codex_acp.mapping.prompt.simple import simple_prompt

        simple = simple_prompt(params)
        return None if simple is None else partial(self._answer, *simple)

    async def _answer(self, session_id: str, message: list[TextBlock]) -> EncodedJson:
        early = self._sessions.ask_early(session_id, message)
        if early is not None:  # else it takes its place now: a cancel, or another, may be behind it
            await self._loaded()
        from codex_acp.mapping.v1.prompts import prompt_response
        from codex_acp.wire.codec import encode

        done = await self._run_prompt(session_id, message, early=early)
        return encode(prompt_response(*done))

    async def _loaded(self) -> None:
        try:
            await self._ahead.for_a_prompt()
        except asyncio.CancelledError:
            # The turn runs already. It is ended as that of every other prompt, by whoever waits
            # for it next; what is not loaded is then loaded where it is needed.
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
