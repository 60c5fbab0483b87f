"""Turns with the real Codex: results, notifications, interrupts, failures, many at a time."""

from __future__ import annotations

import base64
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel, Field

from codex_acp.codex import (
    NotificationStream,
    OutputInvalid,
    TurnFailed,
    TurnInterrupted,
    TurnSilent,
    TurnUnfinished,
    image,
)
from codex_acp.codex.types import (
    AgentMessageThreadItem,
    BaseBranchReviewTarget,
    CommandExecutionThreadItem,
    ErrorEvent,
    ItemAgentMessageDeltaEvent,
    ReviewStartParams,
    TurnCompletedEvent,
    TurnStartedEvent,
)
from codex_acp.errors import ErrorReply, MisuseError, ProcessExited
from codex_acp.testing import (
    Fail,
    Failed,
    Gate,
    ModelResponse,
    Step,
    Text,
    Usage,
    When,
    exec_command,
)
from codex_acp.transport.child import ChildProcess
from tests.codex.codex_bench import WAIT_SECONDS, CodexBench

Script = list[ModelResponse | list[Step]]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
"""A PNG of one pixel."""


class City(BaseModel):
    """A place."""

    name: str
    people: int = Field(0, description="How many live there.")


@dataclass
class Pair:
    left: str
    right: City


async def test_a_run_gives_text_items_usage_and_times() -> None:
    script: Script = [
        [exec_command("echo hello", call_id="c")],
        [Text("It ", "ran."), Usage(100, 20)],
    ]
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            result = await thread.run("Run it.")
            assert (result.status, result.text, result.output) == ("completed", "It ran.", None)
            assert result.thread_id == thread.id
            kinds = [type(item).__name__ for item in result.items]
            assert kinds == [
                "UserMessageThreadItem",
                "CommandExecutionThreadItem",
                "AgentMessageThreadItem",
            ]
            command = result.items[1]
            assert isinstance(command, CommandExecutionThreadItem)
            assert (command.status, command.exit_code) == ("completed", 0)
            assert result.usage is not None
            assert result.usage.last.input_tokens == 100
            assert result.error is None
            assert result.turn is not None
            assert result.turn.id == result.turn_id
            assert result.turn.completed_at is not None


async def test_iterating_gives_the_typed_notifications_of_this_turn_up_to_its_end() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hel", "lo")]]) as bench:
            thread = await bench.thread()
            async with thread.turn("Hi.") as turn:
                events = [event async for event in turn]
                assert isinstance(events[-1], TurnCompletedEvent)
                deltas = [
                    e.params.delta for e in events if isinstance(e, ItemAgentMessageDeltaEvent)
                ]
                assert deltas == ["Hel", "lo"]
                assert [event async for event in turn] == []
                assert (await turn.result()).text == "Hello"
                assert turn.so_far.status == "completed"


async def test_a_failed_turn_raises_with_the_kind_of_the_error_and_what_there_was() -> None:
    script: Script = [
        [Text("Before."), Failed("context_length_exceeded", "too long")],
        [Fail(400, "bad request")],
    ]
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            with pytest.raises(TurnFailed) as caught:
                await thread.run("Go.")
            assert caught.value.result.error is not None
            assert caught.value.result.error.codex_error_info == "contextWindowExceeded"
            assert caught.value.result.status == "failed"
            assert caught.value.result.text == "Before."
            with pytest.raises(TurnFailed, match="bad request"):
                await thread.run("Again.")


async def test_a_turn_does_not_fail_with_the_error_of_a_review_that_never_began() -> None:
    script: Script = [[Text("Hello.")], [Fail(400, "bad request")], [Text("Hello again.")]]
    outside_of_git = BaseBranchReviewTarget(branch="main")
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            review = ReviewStartParams(thread_id=thread.id, target=outside_of_git)
            async with NotificationStream(bench.codex, thread.id) as stream:
                await bench.codex.review_start(review)
                while not isinstance(await anext(stream), ErrorEvent):
                    pass
            result = await thread.run("Hi.")
            assert (result.status, result.error, result.text) == ("completed", None, "Hello.")
            with pytest.raises(TurnFailed, match="bad request"):
                await thread.run("And now?")
            assert (await thread.run("Again.")).text == "Hello again."


async def test_an_interrupt_ends_the_turn_and_the_result_says_so() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Before"), Gate("never")]]) as bench:
            thread = await bench.thread()
            async with thread.turn("Go.") as turn:
                async for event in turn:
                    if isinstance(event, ItemAgentMessageDeltaEvent):
                        await turn.interrupt()
                with pytest.raises(TurnInterrupted) as caught:
                    await turn.result()
                assert caught.value.result.status == "interrupted"
                await turn.interrupt()  # that it has ended is no error


async def test_an_interrupt_right_after_the_start_is_not_lost() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([ModelResponse(Gate("never"), repeat=True)]) as bench:
            thread = await bench.thread()
            for _ in range(5):
                async with thread.turn("Go.") as turn:
                    await turn.interrupt()
                    with pytest.raises(TurnInterrupted):
                        await turn.result()


async def test_cancelling_a_run_interrupts_the_turn() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("x"), Gate("never")], [Text("Fine.")]]) as bench:
            thread = await bench.thread()
            async with anyio.create_task_group() as group:
                group.start_soon(thread.run, "Go.")
                await anyio.to_thread.run_sync(bench.model.wait_for_gate, "never")
                group.cancel_scope.cancel()
            assert [turn.status for turn in (await thread.read()).turns] == ["interrupted"]
            assert (await thread.run("Again.")).text == "Fine."


async def test_cancelling_while_the_turn_starts_interrupts_it_too() -> None:
    script = [
        ModelResponse(Gate("never"), when=When(user_text="Go.")),
        ModelResponse(Text("Fine."), when=When(user_text="Again.")),
    ]
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            async with anyio.create_task_group() as group:
                group.start_soon(thread.run, "Go.")
                await anyio.wait_all_tasks_blocked()  # turn/start is sent, and not answered
                group.cancel_scope.cancel()
            assert (await thread.run("Again.")).text == "Fine."
            assert [t.status for t in (await thread.read()).turns] == ["interrupted", "completed"]


async def test_leaving_a_turn_early_interrupts_it() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("x"), Gate("never")]]) as bench:
            thread = await bench.thread()
            async with thread.turn("Go.") as turn:
                async for event in turn:
                    if isinstance(event, TurnStartedEvent):
                        break
            assert [t.status for t in (await thread.read()).turns] == ["interrupted"]
            with pytest.raises(MisuseError, match="left"):
                await turn.result()
            with pytest.raises(MisuseError, match="once"):
                await turn.__aenter__()


async def test_a_detached_turn_runs_on() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("x"), Gate("later"), Text("y")]]) as bench:
            thread = await bench.thread()
            async with thread.turn("Go.") as turn:
                await anyio.to_thread.run_sync(bench.model.wait_for_gate, "later")
                await turn.detach()
            async with thread.turn("And this.") as follower:  # joins the one that runs
                assert follower.id == turn.id
                bench.model.open("later")
                async for event in follower:
                    if isinstance(event, TurnCompletedEvent):
                        assert event.params.turn.status in ("completed", "failed")


async def test_steering_says_something_to_the_turn_while_it_runs() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        script: Script = [
            [exec_command("sleep 0.2", call_id="c"), Gate("steered")],
            [Text("Both.")],
        ]
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            async with thread.turn("One.") as turn:
                await anyio.to_thread.run_sync(bench.model.wait_for_gate, "steered")
                await turn.steer("And two.")
                bench.model.open("steered")
                assert (await turn.result()).text == "Both."
            assert "And two." in bench.model.requests[-1].user_texts
            with pytest.raises(ErrorReply):
                await turn.steer("Too late.")


async def test_structured_output_is_asked_for_and_read_as_the_type() -> None:
    script = [
        [Text('{"name": "Bern", "people": 140000}')],
        [Text('{"left": "a", "right": {"name": "b", "people": 1}}')],
    ]
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            thread = await bench.thread()
            result = await thread.run("A city.", output_type=City)
            assert result.output == City(name="Bern", people=140000)
            wanted = bench.model.requests[-1].body["text"]["format"]  # type: ignore[index] # JSON
            assert wanted["type"] == "json_schema"
            assert wanted["strict"] is True
            assert wanted["schema"]["required"] == ["name", "people"]
            assert wanted["schema"]["additionalProperties"] is False
            pair = (await thread.run("A pair.", output_type=Pair)).output
            assert pair == Pair("a", City(name="b", people=1))


@pytest.mark.parametrize("said", ["It is Bern.", '{"name": "Bern", "people": "many"}', ""])
async def test_output_that_does_not_fit_keeps_the_text(said: str) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text(said)]]) as bench:
            thread = await bench.thread()
            with pytest.raises(OutputInvalid, match="City") as caught:
                await thread.run("A city.", output_type=City)
            assert caught.value.text == said
            assert caught.value.result.status == "completed"
            assert caught.value.problems


async def test_images_reach_the_model_however_they_are_given(tmp_path: Path) -> None:
    file = tmp_path / "pixel.png"
    file.write_bytes(PIXEL)
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Pixels.")]]) as bench:
            thread = await bench.thread()
            await thread.run(["Look:", image(file), image(PIXEL), image(url, detail="high")])
            sent = str(bench.model.requests[0].body["input"])
            assert sent.count("'input_image'") == 3
            assert "Look:" in sent


async def test_a_silent_turn_raises_and_is_interrupted() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("x"), Gate("never")]]) as bench:
            thread = await bench.thread()
            with pytest.raises(TurnSilent) as caught:
                await thread.run("Go.", silent_after=0.3)
            assert caught.value.seconds >= 0.3
            assert caught.value.thread_id == thread.id
            assert caught.value.open_requests == ()
            assert [t.status for t in (await thread.read()).turns] == ["interrupted"]


async def test_a_turn_can_go_on_after_its_silence() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("x"), Gate("later"), Text("y")]]) as bench:
            thread = await bench.thread()
            async with thread.turn("Go.", silent_after=0.3) as turn:
                with pytest.raises(TurnSilent):
                    await turn.result()
                bench.model.open("later")
                result = None
                while result is None:
                    with suppress(TurnSilent):  # a busy machine is silent for as long
                        result = await turn.result()
                assert result.text == "y"


async def test_many_threads_run_at_a_time_and_hear_only_their_own() -> None:
    numbers = range(12)
    script = [ModelResponse(Text(f"I am {n}."), when=When(user_text=f"({n})")) for n in numbers]
    said: dict[int, str] = {}
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:

            async def one(number: int) -> None:
                thread = await bench.thread()
                async with thread.turn(f"Who are you? ({number})") as turn:
                    async for event in turn:
                        assert getattr(event.params, "thread_id", thread.id) == thread.id
                said[number] = (await turn.result()).text

            async with anyio.create_task_group() as group:
                for number in numbers:
                    group.start_soon(one, number)
    assert said == {n: f"I am {n}." for n in numbers}


async def test_a_lost_app_server_ends_every_turn_with_its_exit() -> None:
    lost: list[ProcessExited] = []
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([ModelResponse(Text("x"), Gate("never"), repeat=True)]) as bench:

            async def one() -> None:
                thread = await bench.thread()
                with pytest.raises(ProcessExited) as caught:
                    await thread.run("Go.")
                lost.append(caught.value)

            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(one)
                await anyio.to_thread.run_sync(bench.model.wait_for_requests, 3)
                link = bench.codex.link
                assert isinstance(link, ChildProcess)
                os.kill(link.pid, signal.SIGKILL)
            thread = bench.codex.threads.get("any")
            with pytest.raises(ProcessExited):
                await thread.run("More.")
    assert [error.returncode for error in lost] == [-signal.SIGKILL] * 3


async def test_every_way_in_which_a_turn_can_go_wrong_has_one_name() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Fail(400, "no")], [Text("no JSON")]]) as bench:
            thread = await bench.thread()
            with pytest.raises(TurnUnfinished) as failed:
                await thread.run("Go.")
            assert failed.value.result.thread_id == thread.id
            with pytest.raises(TurnUnfinished) as invalid:
                await thread.run("Go.", output_type=City)
            assert any(isinstance(i, AgentMessageThreadItem) for i in invalid.value.result.items)
