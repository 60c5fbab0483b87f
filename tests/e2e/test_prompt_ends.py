"""How a prompt ends: stop reasons and errors, with the real adapter and the real Codex."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import anyio
import pytest

from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc import INTERNAL_ERROR
from codex_acp.testing import Fail, Failed, Gate, Step, Text, exec_command
from tests.e2e.adapter_bench import AdapterBench

CANCELLED_WITHIN = 60.0
"""Seconds from ``session/cancel`` to the answer, on the busiest machine: longer is never."""


async def cancelled_when(
    bench: AdapterBench, session: str, running: Callable[[], Awaitable[None]]
) -> str:
    """Prompt, cancel when ``running`` has returned, and give the stop reason."""
    reasons: list[str] = []
    ended = anyio.Event()

    async def prompt() -> None:
        reasons.append((await bench.prompt(session)).stop_reason)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prompt)
        await running()
        bench.cancel(session)
        with anyio.fail_after(CANCELLED_WITHIN):
            await ended.wait()
    # Codex has ended the turn: the adapter's own bound, which answers as well, was not needed.
    assert "did not end turn" not in bench.child.stderr_tail
    return reasons[0]


async def test_a_prompt_cancelled_before_its_turn_has_started_ends_cancelled() -> None:
    script: list[list[Step]] = [[Gate("never"), Text("Not heard.")], [Text("Heard.")]]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        reason = await cancelled_when(bench, session, anyio.lowlevel.checkpoint)

        assert reason == "cancelled"
        assert bench.text(session) == ""
        asked = [m["method"] for by, m in bench.tap.messages if by == "client" and "method" in m]
        assert asked[-2:] == ["session/prompt", "session/cancel"]
        bench.model.open("never")


async def test_a_prompt_cancelled_in_mid_stream_ends_cancelled_and_the_next_one_works() -> None:
    script: list[list[Step]] = [
        [Text("Begin. "), Gate("never"), Text("Not heard.")],
        [Text("Again.")],
    ]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        reason = await cancelled_when(
            bench, session, lambda: bench.wait_for_text(session, "Begin. ")
        )
        second = await bench.prompt(session, "once more")

        assert reason == "cancelled"
        assert second.stop_reason == "end_turn"
        assert bench.text(session) == "Begin. Again."


async def test_a_prompt_cancelled_while_a_command_runs_ends_cancelled() -> None:
    command = exec_command("echo up > started; sleep 300", yield_time_ms=60_000)
    async with AdapterBench([[command]], sandbox_mode="danger-full-access") as bench:
        started = bench.home.workspace / "started"
        os.mkfifo(started)
        session = await bench.new_session()
        reason = await cancelled_when(bench, session, lambda: bench.wait_for_file(started))

        assert reason == "cancelled"


async def test_a_cancel_when_nothing_runs_is_ignored() -> None:
    async with AdapterBench([[Text("Fine.")]]) as bench:
        session = await bench.new_session()
        bench.cancel(session)
        bench.cancel("no such session")
        response = await bench.prompt(session)

        assert response.stop_reason == "end_turn"
        assert bench.text(session) == "Fine."


async def test_4_4_a_failed_turn_is_an_error_with_codexs_message() -> None:
    script: list[list[Step]] = [[Fail(400, "the model is on fire")], [Text("Fine.")]]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        with pytest.raises(ErrorReply, match="the model is on fire") as failed:
            await bench.prompt(session)
        response = await bench.prompt(session)

        assert failed.value.code == INTERNAL_ERROR
        assert isinstance(failed.value.data, dict)
        assert "the model is on fire" in failed.value.data["message"]
        assert response.stop_reason == "end_turn"


async def test_a_response_that_breaks_off_is_an_error() -> None:
    async with AdapterBench([[Text("Half a "), Failed("server_error", "gone wrong")]]) as bench:
        session = await bench.new_session()
        with pytest.raises(ErrorReply, match="gone wrong") as failed:
            await bench.prompt(session)

        assert failed.value.code == INTERNAL_ERROR
        assert bench.text(session) == "Half a "


async def test_4_4_a_full_context_window_stops_with_max_tokens_and_says_why() -> None:
    script: list[list[Step]] = [[Text("So far. "), Failed("context_length_exceeded", "too long")]]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        response = await bench.prompt(session)

        assert response.stop_reason == "max_tokens"
        said, why = bench.messages(session).values()
        assert said == "So far. "
        assert "context window" in why
