"""A prompt that comes before its session was made waits for that, and misses nothing."""

from __future__ import annotations

import pytest

from codex_acp.adapter import agent
from codex_acp.testing import Expect, Notify
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note

NEVER = 3600.0


def said(text: str) -> Notify:
    """A piece of what the agent says."""
    params = {"threadId": THREAD, "turnId": "turn-0", "itemId": "item-0", "delta": text}
    return Notify("item/agentMessage/delta", params)


@pytest.mark.parametrize("delay", [NEVER, 0.0], ids=["the prompt loads", "the timer loads"])
async def test_what_codex_says_before_comes_before(
    monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    monkeypatch.setattr(agent, "LOAD_AFTER_SECONDS", delay)
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.server.play(*map(said, "one "), *map(said, "two "))
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        await bench.answer_turn_start("turn-1", turn_note("turn/started", "turn-1"))
        bench.server.play(said("three"), turn_note("turn/completed", "turn-1", "completed"))
        assert await bench.end_of() == "end_turn"
        assert bench.said() == "one two three"
