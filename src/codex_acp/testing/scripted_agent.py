"""An ACP agent that does what a script says: to test a client without any agent.

Owns what the script's steps mean. The protocol's own rules are `codex_acp.acp.run_agent`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import anyio

from codex_acp.acp import run_agent
from codex_acp.errors import TransportError
from codex_acp.transport.link import memory_pair
from codex_acp.transport.shielding import running_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp import PromptTurn
    from codex_acp.acp.types import (
        AgentCapabilities,
        PermissionOption,
        PromptRequest,
        SessionUpdate,
        StopReason,
        ToolKind,
    )
    from codex_acp.transport.link import Link


@dataclass(frozen=True)
class AskPermission:
    """A tool call that asks first; whether it was allowed is in `ScriptedAgent.allowed`.

    ``then`` is what it shows when it may run.
    """

    title: str
    kind: ToolKind = "execute"
    then: str = ""
    options: Sequence[PermissionOption] = ()
    """None: allow once and reject once."""


@dataclass(frozen=True)
class UntilCancelled:
    """Nothing more until the client cancels the prompt."""


AgentStep: TypeAlias = "str | AskPermission | UntilCancelled | SessionUpdate"
"""One thing that the agent does: a text is a piece of its message."""


@dataclass
class ScriptedAgent:
    """``turns`` has the steps of each prompt, in order; a prompt beyond them is just answered.

    ::

        agent = ScriptedAgent([["Hello ", "there."], [AskPermission("Run ls"), "Done."]])
        spec = AgentSpec(name="scripted", link=agent.link)      # for codex_acp.runtime
        async with connect_agent(agent.link(), name="me"): ...   # for the protocol itself

    Runs on the test's event loop; each `link` is one start. A step that is an exception of
    `codex_acp.errors` cannot be scripted: give ``stop_reason`` for a turn that ends otherwise.
    """

    turns: Sequence[Sequence[AgentStep]] = ()
    name: str = "scripted"
    stop_reason: StopReason = "end_turn"
    capabilities: AgentCapabilities | None = None
    prompts: list[PromptRequest] = field(default_factory=list)
    """The prompts that came, in order."""
    allowed: list[bool] = field(default_factory=list)
    """The answers to `AskPermission`, in order."""
    cancelled: int = 0
    """Prompts that the client cancelled while they ran."""

    def __post_init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.waiting: asyncio.Event = asyncio.Event()
        """Set when a turn has come to `UntilCancelled`."""

    def link(self) -> Link:
        """Start it: the client's end of a connection to it."""
        near, far = memory_pair()
        task = running_loop().create_task(self._serve(far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return near

    async def _serve(self, link: Link) -> None:
        with contextlib.suppress(TransportError):
            await run_agent(self._answer, name=self.name, capabilities=self.capabilities, link=link)

    async def _answer(self, turn: PromptTurn) -> StopReason:
        number = len(self.prompts)
        self.prompts.append(turn.request)
        try:
            for step in self.turns[number] if number < len(self.turns) else ():
                await self._do(turn, step)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.stop_reason

    async def _do(self, turn: PromptTurn, step: AgentStep) -> None:
        if isinstance(step, str):
            turn.say(step)
        elif isinstance(step, AskPermission):
            await self._ask(turn, step)
        elif isinstance(step, UntilCancelled):
            self.waiting.set()
            await anyio.sleep_forever()
        else:
            turn.update(step)

    async def _ask(self, turn: PromptTurn, step: AskPermission) -> None:
        async with turn.tool_call(step.title, kind=step.kind) as call:
            answer = await (call.is_allowed(step.options) if step.options else call.is_allowed())
            self.allowed.append(answer)
            if answer and step.then:
                call.show(step.then)
