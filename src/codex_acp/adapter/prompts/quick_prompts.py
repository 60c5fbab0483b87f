"""A prompt of text that comes while what a prompt needs is still being loaded.

Its turn is asked for at once, and it goes the way of all prompts when the rest is there. Owns
nothing; see `EarlyTurn`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.session.driver import PromptDone
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.events.content import Block, TextBlock

BeginPrompt: TypeAlias = (
    "Callable[[Callable[[str], None] | None], Coroutine[object, object, EarlyTurn | None]]"
)
"""Asks for a prompt's turn, if that can be, and waits until what runs it is loaded; what it is
called with is called with the message's id when Codex has taken it."""


class RunPrompt(Protocol):
    """Runs a prompt, as `CodexAgent.run_prompt` does."""

    async def __call__(
        self, session_id: str, blocks: Sequence[Block], *, early: EarlyTurn | None
    ) -> PromptDone: ...


class AnswerPrompt(Protocol):
    """Has a prompt begun and run, and answers it as its version of ACP does."""

    async def __call__(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginPrompt
    ) -> EncodedJson: ...


def at_its_end(run_prompt: RunPrompt) -> AnswerPrompt:
    """That of v1."""

    async def answer(
        session_id: str, message: Sequence[TextBlock], begin: BeginPrompt
    ) -> EncodedJson:
        early = await begin(None)
        from codex_acp.mapping.v1.prompts import prompt_response
        from codex_acp.wire.codec import encode

        return encode(prompt_response(*await run_prompt(session_id, message, early=early)))

    return answer


class QuickPrompts:
    """Begins plain prompts early: called with the params of each ``session/prompt``."""

    def __init__(self, ahead: LoadAhead | None, sessions: Sessions, answer: AnswerPrompt) -> None:
        self._ahead = ahead
        self._sessions = sessions
        self._answer = answer

    def __call__(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        """Return what answers it; None: it is read by the models."""
        if self._ahead is None or not self._ahead.loading:
            return None
        from codex_acp.mapping.prompt.simple import simple_prompt

        simple = simple_prompt(params)
        if simple is None:
            return None
        return partial(self._answer, *simple, partial(self._begin, *simple))

    async def _begin(
        self,
        session_id: str,
        message: Sequence[TextBlock],
        when_inserted: Callable[[str], None] | None,
    ) -> EarlyTurn | None:
        early = self._sessions.ask_early(session_id, message, when_inserted)
        if early is not None:  # else it takes its place now: a cancel, or another, may be behind it
            await self._loaded()
        return early

    async def _loaded(self) -> None:
        assert self._ahead is not None
        try:
            await self._ahead.for_a_prompt()
        except asyncio.CancelledError:
            # The turn runs already. It is ended as that of every other prompt, by whoever waits
            # for it next; what is not loaded is then loaded where it is needed.
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
