"""Prompts that come while another one runs, with the real adapter and the real Codex."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from codex_acp.testing import Gate, ModelResponse, Step, Text, When, exec_command
from tests.e2e.adapter_bench import WAIT, AdapterBench


class Running:
    """Prompts that run at once, by name."""

    def __init__(self, bench: AdapterBench, session: str, tasks: anyio.abc.TaskGroup) -> None:
        self._bench = bench
        self.session = session
        self._tasks = tasks
        self.ended: dict[str, str] = {}
        """Text of the prompt → its stop reason, in the order of the answers."""
        self._news = anyio.Event()

    def start(self, text: str) -> None:
        """Send a prompt."""
        self._tasks.start_soon(self._run, text)

    async def _run(self, text: str) -> None:
        response = await self._bench.prompt(self.session, text)
        self.ended[text] = response.stop_reason
        self._news.set()
        self._news = anyio.Event()

    async def all_ended(self, count: int) -> None:
        """Wait for so many answers."""
        with anyio.fail_after(WAIT):
            while len(self.ended) < count:
                await self._news.wait()


@asynccontextmanager
async def begun(bench: AdapterBench, text: str) -> AsyncIterator[Running]:
    """The prompts of a new session, of which the first one runs."""
    session = await bench.new_session()
    async with anyio.create_task_group() as tasks:
        running = Running(bench, session, tasks)
        running.start(text)
        yield running


async def test_a_prompt_sent_while_one_runs_reaches_the_model_in_the_same_turn() -> None:
    script = [
        ModelResponse(exec_command("true"), Gate("hold"), when=When(user_text="first")),
        ModelResponse(Text("Both heard."), when=When(user_text="second")),
    ]
    async with AdapterBench(script) as bench:
        async with begun(bench, "first") as running:
            await bench.wait_for_gate("hold")
            running.start("second")
            await bench.wait_for_text(running.session, "Both heard.")
            bench.model.open("hold")
            await running.all_ended(2)

        assert running.ended == {"first": "end_turn", "second": "end_turn"}
        asked = bench.model.requests[-1].user_texts
        assert asked[-1] == "second"
        assert "first" in asked
        assert bench.text(running.session) == "Both heard."
        shown = [n.update.session_update for n in bench.updates]
        assert "user_message_chunk" not in shown, "the client knows what it said"


async def test_a_prompt_sent_in_a_review_is_the_next_turn() -> None:
    script: list[list[Step]] = [[Gate("hold"), Text("Fine code.")], [Text("Hello again.")]]
    async with AdapterBench(script) as bench:
        async with begun(bench, "/review look closely") as running:
            await bench.wait_for_gate("hold")
            running.start("hello")
            bench.model.open("hold")
            await running.all_ended(2)

        assert list(running.ended.items()) == [
            ("/review look closely", "end_turn"),
            ("hello", "end_turn"),
        ]
        assert bench.model.requests[-1].last_user_text == "hello"
        assert bench.text(running.session).endswith("Hello again.")


@pytest.mark.attack("model")
async def test_a_plan_that_is_wanted_while_a_turn_runs_is_the_next_turn_in_plan_mode() -> None:
    script = [
        ModelResponse(exec_command("true"), Gate("hold"), when=When(user_text="first")),
        ModelResponse(Text("Done."), when=When(user_text="first")),
        ModelResponse(Text("A plan."), when=When(user_text="Improve it.")),
    ]
    async with AdapterBench(script) as bench:
        async with begun(bench, "first") as running:
            await bench.wait_for_gate("hold")
            running.start("/plan Improve it.")
            await bench.wait_for_update(lambda n: n.update.session_update == "config_option_update")
            bench.model.open("hold")
            await running.all_ended(2)

        assert list(running.ended) == ["first", "/plan Improve it."]
        modes = ["Plan Mode" in json.dumps(each.body) for each in bench.model.requests]
        assert modes == [False, False, True]


async def test_a_review_is_cancelled() -> None:
    async with AdapterBench([[Gate("never"), Text("Not heard.")], [Text("Next.")]]) as bench:
        async with begun(bench, "/review look closely") as running:
            await bench.wait_for_gate("never")
            bench.cancel(running.session)
            with anyio.fail_after(60):
                await running.all_ended(1)

        assert running.ended == {"/review look closely": "cancelled"}
        assert (await bench.prompt(running.session, "next")).stop_reason == "end_turn"


async def test_a_cancel_ends_the_turn_and_all_of_its_prompts() -> None:
    script: list[list[Step]] = [
        [Text("Begin. "), Gate("never")],
        [Text("Go on. "), Gate("never"), Text("Not heard.")],
        [Text("Again.")],
    ]
    async with AdapterBench(script) as bench:
        async with begun(bench, "first") as running:
            await bench.wait_for_text(running.session, "Begin. ")
            running.start("second")
            await bench.wait_for_text(running.session, "Go on. ")
            bench.cancel(running.session)
            with anyio.fail_after(60):
                await running.all_ended(2)

        assert running.ended == {"first": "cancelled", "second": "cancelled"}
        assert (await bench.prompt(running.session, "third")).stop_reason == "end_turn"
        assert bench.text(running.session) == "Begin. Go on. Again."


async def test_many_prompts_at_once_are_each_answered_once_and_all_read() -> None:
    script: list[ModelResponse] = [
        ModelResponse(Text("Begin. "), Gate("hold"), when=When(user_text="number 0")),
        ModelResponse(Text("ok "), repeat=True),
    ]
    texts = [f"number {n}" for n in range(6)]
    async with AdapterBench(script) as bench:
        async with begun(bench, texts[0]) as running:
            await bench.wait_for_text(running.session, "Begin. ")
            for text in texts[1:]:
                running.start(text)
            await running.all_ended(6)
            bench.model.open("hold")

        assert running.ended == dict.fromkeys(texts, "end_turn")
        read = [text for text in bench.model.requests[-1].user_texts if text in texts]
        assert read == texts
