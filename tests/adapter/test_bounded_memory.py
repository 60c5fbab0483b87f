"""What a client can do without end leaves nothing behind that grows with it."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from codex_acp._last_ones import LastOnes
from codex_acp.testing import Expect, turn_completed, turn_started
from codex_acp.testing.app_server_script import default_result
from tests.adapter.memory_bench import THREAD, MemoryBench

pytestmark = pytest.mark.attack("client")

TIMES = 43


def sizes() -> dict[tuple[int, str], int]:
    """How many entries each container of the library has that has no bound."""
    gc.collect()
    found = {}
    for owner in gc.get_objects():
        if not type(owner).__module__.startswith("codex_acp.") or "testing" in str(type(owner)):
            continue
        slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
        members = {name: getattr(owner, name, None) for name in slots}
        members |= getattr(owner, "__dict__", {})
        for name, value in members.items():
            if isinstance(value, dict | list | set) and not isinstance(value, LastOnes):
                found[id(owner), f"{type(owner).__qualname__}.{name}"] = len(value)
    return found


def grown(before: dict[tuple[int, str], int]) -> set[str]:
    """Those that have one entry more, or several, for each time."""
    now = sizes()
    return {each[1] for each, size in now.items() if size - before.get(each, size) >= TIMES - 1}


def started(thread: str) -> Expect:
    result: Any = default_result("thread/start", {}, "")
    result["thread"] = {**result["thread"], "id": thread, "sessionId": thread}
    return Expect("thread/start", result=result)


@pytest.mark.parametrize("version", [1, 2])
async def test_sessions_and_prompts_without_end(version: int) -> None:
    where = {"cwd": "/scripted/workspace", "mcpServers": []}
    async with MemoryBench(version=version) as bench:
        before: dict[tuple[int, str], int] = {}
        for number in range(TIMES + 1):
            thread = f"thread-{number + 10}"
            bench.server.play(started(thread))
            await bench.client.ask(f"n{number}", "session/new", where)
            for session in (thread, THREAD):
                about = {"sessionId": session}
                bench.server.play(Expect("turn/start"), *turn_started(), *turn_completed())
                prompt = {**about, "prompt": [{"type": "text", "text": "hi"}]}
                asked = f"{session}-{number}"
                assert "result" in await bench.client.ask(asked, "session/prompt", prompt)
                await bench.client.settle()
            await bench.client.ask(f"c{number}", "session/close", {"sessionId": thread})
            before = before or sizes()  # behind the first time, when all that is needed is there
        assert grown(before) == set()
