"""Our runtime with agents of the SDKs that listen, over both profiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from codex_acp.runtime import AgentRuntime, Permission
from tests.clients.third_party import NODE_VARIABLE, SDK_PYTHON_VARIABLE, TREE_VARIABLE, WAIT

HERE = Path(__file__).parent

AGENTS = {
    "npm": lambda: [
        os.environ.get(NODE_VARIABLE, "node"),
        str(HERE / "network_agent.mjs"),
        os.environ[TREE_VARIABLE],
    ],
    "python": lambda: [
        os.environ.get(SDK_PYTHON_VARIABLE, sys.executable),
        str(HERE / "network_agent.py"),
    ],
}


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("sdk", AGENTS)
async def test_turns_with_an_agent_that_listens(sdk: str, scheme: str, tmp_path: Path) -> None:
    def allow(permission: Permission) -> str:
        asked.append(permission)
        return permission.options[0].option_id

    asked: list[Permission] = []
    agent = await anyio.open_process(AGENTS[sdk](), stderr=None)
    try:
        assert agent.stdout is not None
        with anyio.fail_after(WAIT):
            url = (await agent.stdout.receive()).decode().strip().replace("ws", scheme, 1)
            runtime = AgentRuntime(permissions=allow)
            async with runtime, runtime.open(url, cwd=tmp_path) as session:
                results = [await session.run("Go."), await session.run("Again.")]
        for result in results:
            assert (result.text, result.stop_reason) == ("yes", "end_turn")
        assert len(asked) == 2
    finally:
        agent.kill()
        await agent.aclose()
