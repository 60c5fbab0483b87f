"""A model that reaches for another thread of the same program (contract 3.9c)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from codex_acp.codex import ReachedElsewhere, Thread, ThreadClosed, TurnInterrupted, TurnSilent
from codex_acp.testing import Gate, ModelResponse, Text, ToolCall, When, exec_command
from tests.codex import codex_bench
from tests.codex.codex_bench import WAIT_SECONDS, CodexBench
from tests.e2e.sub_agents_bench import OLD, LateModel

OTHER = "THE-ID-OF-ANOTHER-THREAD"
MADE = "THE-FILE-THAT-IS-MADE"

FEED = ToolCall("send_input", {"target": OTHER, "message": "make it"}, OLD, call_id="feed")
CLOSE = ToolCall("close_agent", {"target": OTHER}, OLD, call_id="close")
SCRIPT = [
    ModelResponse(exec_command(f"touch {MADE}", call_id="m"), when=When("make it")),
    ModelResponse(FEED, when=When("feed", no_tool_output="feed")),
    ModelResponse(Gate("told"), Text("Told."), when=When("feed", tool_output="feed")),
    ModelResponse(CLOSE, when=When("close", no_tool_output="close")),
    ModelResponse(Gate("told"), Text("Told."), when=When("close", tool_output="close")),
    ModelResponse(Gate("worked"), Text("Worked."), when=When("work")),
    ModelResponse(Text("Hello."), repeat=True),
]
"""A model that goes on only when it may: until then its turn can be interrupted."""


@asynccontextmanager
async def two_threads(
    monkeypatch: pytest.MonkeyPatch, *, hooks: bool
) -> AsyncIterator[tuple[CodexBench, Thread, Thread, Path]]:
    """A read-only thread, one with full access, and the file that the other can make."""
    monkeypatch.setattr(codex_bench, "ScriptedModel", LateModel)
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(SCRIPT, {"config": {"features": {"hooks": hooks}}}) as bench:
            reader = await bench.thread(sandbox="read-only")
            victim = await bench.thread(sandbox="danger-full-access", approval_policy="never")
            made = bench.home.root / "made"
            assert isinstance(bench.model, LateModel)
            bench.model.put(OTHER, victim.id)
            bench.model.put(MADE, str(made))
            yield bench, reader, victim, made


@pytest.mark.attack("model")
async def test_3_9c_without_hooks_a_turn_that_feeds_another_thread_ends_with_what_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_threads(monkeypatch, hooks=False) as (_, reader, victim, made):
        with pytest.raises(ReachedElsewhere) as raised:
            await reader.run("feed")
        assert raised.value.threads == (victim.id,)
        assert "features.hooks" in str(raised.value)
        # Codex adds a prompt to a turn that runs already; 0.147 then names one that never begins.
        with suppress(TurnInterrupted, TurnSilent):
            await victim.run("hello", silent_after=5)
        assert (await victim.run("hello")).text == "Hello."
        assert not made.exists()


@pytest.mark.attack("model")
async def test_3_9c_without_hooks_a_running_turn_ends_that_another_threads_model_feeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_threads(monkeypatch, hooks=False) as (bench, reader, victim, made):
        async with victim.turn("work") as fed:
            async for event in fed:
                if event.method == "item/completed":  # the prompt has reached the model
                    break
            with pytest.raises(ReachedElsewhere):
                await reader.run("feed")
            bench.model.open("worked")
            with suppress(TurnInterrupted):  # Codex was slower with the message
                assert (await fed.result()).text == "Worked."
        assert not made.exists()


@pytest.mark.attack("model")
async def test_3_9c_a_thread_that_another_ones_model_closes_goes_on_or_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_threads(monkeypatch, hooks=False) as (_, reader, victim, _made):
        with pytest.raises(ReachedElsewhere):
            await reader.run("close")
        with suppress(ThreadClosed):  # Codex was faster than the interrupt
            assert (await victim.run("hello")).text == "Hello."


async def test_3_9c_with_hooks_codex_refuses_the_call_and_no_turn_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_threads(monkeypatch, hooks=True) as (bench, reader, victim, made):
        bench.model.open("told")
        assert (await reader.run("feed")).text == "Told."
        assert (await reader.run("close")).text == "Told."
        assert (await victim.run("hello")).text == "Hello."
        assert not made.exists()
