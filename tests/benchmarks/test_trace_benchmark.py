"""The way of one message can be traced, and has few idle calls. No machine changes the counts."""

from __future__ import annotations

from pathlib import Path

from benchmarks import trace


async def test_a_delta_asks_nobody_whom_it_does_not_concern(tmp_path: Path) -> None:
    await trace.steps_of("message", tmp_path)  # what is only made once
    steps = await trace.steps_of("message", tmp_path)

    deltas = [trace.counts(t) for name, t in steps.items() if "agentMessage/delta" in name]
    assert len(deltas) == 2
    for delta in deltas:
        assert 20 < delta["hops"] < 60
        assert delta["idle"] <= 2
        assert delta["again"] == 0
