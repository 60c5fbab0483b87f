"""The prompts of a session that are not answered yet, in the order in which they came.

Owns the order: a prompt is placed (it begins a turn, or is steered into the running one) only
when all before it are. Must not know what placing means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.prompts.run import PromptRun

MAX_PROMPTS: Final = 32
"""Unanswered prompts of one session: more than a person types while a turn runs."""


class QueuedPrompt:
    """One prompt that the client waits for."""

    __slots__ = ("_when_inserted", "joins", "message_id", "run", "scope", "speaks", "unread")

    def __init__(
        self, when_inserted: Callable[[str], None] | None = None, *, joins: bool = False
    ) -> None:
        self._when_inserted = when_inserted
        self.joins = joins
        """Whether it is for a turn that runs, and begins none."""
        self.message_id = ""
        """What its message is called, however often Codex is given it."""
        self.run: PromptRun | None = None
        """The turn that it is a part of; None: it waits, and can be taken back without a trace."""
        self.speaks = False
        """Whether it is being answered without a turn; those behind it need not wait for that."""
        self.unread = False
        """Whether it has its place, but the turn into which it was steered has not read it."""
        self.scope = CancelScope()
        """Around all that is done while it waits."""

    def inserted(self) -> None:
        """It has its place among the messages of the session: told once, with its id."""
        told, self._when_inserted = self._when_inserted, None
        if told is not None:
            told(self.message_id or uuid4().hex)


class PromptQueue:
    """Those who wait here are woken by `wake`, and look for themselves whether they are next."""

    def __init__(self) -> None:
        self._prompts: list[QueuedPrompt] = []
        self._news = asyncio.Event()

    @property
    def empty(self) -> bool:
        """Whether every prompt was answered."""
        return not self._prompts

    def enter(
        self, when_inserted: Callable[[str], None] | None = None, *, joins: bool = False
    ) -> QueuedPrompt:
        """A place at the end. Raises RpcError -32600 if too many wait."""
        if len(self._prompts) >= MAX_PROMPTS:
            message = f"{MAX_PROMPTS} prompts of this session are not answered yet; wait for one"
            raise RpcError(INVALID_REQUEST, message)
        prompt = QueuedPrompt(when_inserted, joins=joins)
        self._prompts.append(prompt)
        return prompt

    def leave(self, prompt: QueuedPrompt) -> None:
        """It is answered, or was taken back."""
        self._prompts.remove(prompt)
        self.wake()

    def is_next(self, prompt: QueuedPrompt) -> bool:
        """Whether every prompt before it is part of a turn, or is being answered."""
        waiting = (p for p in self._prompts if p.run is None and not p.speaks)
        return next(waiting, None) is prompt

    def of_run(self, run: PromptRun) -> list[QueuedPrompt]:
        """The prompts that are part of a turn, the one that began it first."""
        return [prompt for prompt in self._prompts if prompt.run is run]

    def find(self, message_id: str) -> QueuedPrompt | None:
        """The prompt with this message; None: it is answered, or was taken back."""
        return next((each for each in self._prompts if each.message_id == message_id), None)

    @property
    def has_unread(self) -> bool:
        """Whether the session goes on with a message that has its place."""
        return any(prompt.unread for prompt in self._prompts)

    def cancel_waiting(self) -> None:
        """Take back all that are part of no turn."""
        for prompt in self._prompts:
            if prompt.run is None:
                prompt.scope.cancel()

    def wake(self) -> None:
        """Something has changed that a waiting prompt may wait for."""
        self._news.set()
        self._news = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next `wake`."""
        await self._news.wait()
