"""A session that an agent opens when the program waits for it no more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.runtime import AgentRuntime, AgentSpec
from tests.runtime.scripted_agent import ScriptedAgent

WAIT = 60.0


@pytest.mark.parametrize("how", ["new", "load", "resume"])
async def test_what_an_agent_opens_when_nobody_waits_any_more_is_closed(how: str) -> None:
    agent = ScriptedAgent(load=how == "load", session={"close": {}, "resume": {}})
    asked, opens, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ids: list[str] = []
    answers = {
        "new": types.NewSessionResponse(session_id="late"),
        "load": types.LoadSessionResponse(),
        "resume": types.ResumeSessionResponse(),
    }

    async def slow(_request: object) -> Any:  # and deaf to $/cancel_request
        asked.set()
        while not opens.is_set():
            with suppress(asyncio.CancelledError):
                await opens.wait()
        return answers[how]

    async def close(request: types.CloseSessionRequest) -> types.CloseSessionResponse:
        ids.append(request.session_id)
        closed.set()
        return types.CloseSessionResponse()

    agent.on(close=close, **{how: slow})
    wanted = None if how == "new" else "late"
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(_open, runtime, agent.spec(shared=True), wanted))
                await asked.wait()
                tasks.cancel_scope.cancel()
            opens.set()
            await closed.wait()
    assert ids == ["late"]


async def _open(runtime: AgentRuntime, spec: AgentSpec, session_id: str | None) -> None:
    await runtime.open(spec, session_id=session_id)
