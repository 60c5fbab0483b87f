"""How a connection ends while requests are in flight in both directions."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest

from codex_acp.acp import AgentSide
from codex_acp.acp.types import (
    CancelNotification,
    CompleteElicitationNotification,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
)
from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited, TransportError
from codex_acp.jsonrpc import Notification
from tests.acp.benches import AgentBench
from tests.acp.raw_peer import WAIT
from tests.acp.tables import INITIALIZE, PERMISSION, PROMPT, agent_notifications, agent_requests


class Prompts:
    """A prompt handler that asks for a permission, and notes how it ended."""

    def __init__(self) -> None:
        self.side: AgentSide | None = None
        self.asked = anyio.Event()
        self.ended: list[str] = []

    async def prompt(self, params: PromptRequest) -> PromptResponse:
        del params
        assert self.side is not None
        self.asked.set()
        try:
            await self.side.session_request_permission(
                RequestPermissionRequest.model_validate(PERMISSION)
            )
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        return PromptResponse(stop_reason="end_turn")


def bench_of(prompts: Prompts) -> AgentBench:
    requests = agent_requests()
    requests["session/prompt"] = prompts.prompt
    bench = AgentBench(requests)
    prompts.side = bench.agent
    return bench


async def start(bench: AgentBench) -> None:
    """Initialize and leave a prompt in flight, with a permission request of ours."""
    await bench.initialize()
    bench.peer.send({"id": "p", "method": "session/prompt", "params": PROMPT})
    await bench.peer.sent("session/request_permission")


async def test_when_the_client_disconnects_handlers_end_and_run_returns() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    bench.peer.send({"id": 1, "method": "initialize", "params": INITIALIZE})
    bench.peer.send({"id": "p", "method": "session/prompt", "params": PROMPT})
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            await prompts.asked.wait()
            await bench.peer.link.aclose()
    assert len(prompts.ended) == 1
    assert bench.peer.replies("p") == []
    assert bench.agent.closed
    bench.tap.check()


async def test_a_broken_connection_is_raised_by_run_with_its_reason() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    broken = ProcessExited("editor", 3, "no room")

    async def run() -> None:
        with pytest.raises(ProcessExited) as raised:
            await bench.agent.run()
        assert raised.value is broken

    bench.peer.send({"id": 1, "method": "initialize", "params": INITIALIZE})
    bench.peer.send({"id": "p", "method": "session/prompt", "params": PROMPT})
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await prompts.asked.wait()
            bench.link.fail(broken)
    assert len(prompts.ended) == 1


async def test_closing_here_answers_what_is_open_and_fails_what_is_called() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    async with bench:
        await start(bench)
    reply = await bench.peer.reply("p")
    assert reply["error"]["code"] == -32800
    assert "closed" in reply["error"]["message"]
    assert len(bench.peer.replies("p")) == 1
    assert len(prompts.ended) == 1
    assert bench.peer.closed
    with pytest.raises(ConnectionClosed):
        await bench.agent.session_request_permission(
            RequestPermissionRequest.model_validate(PERMISSION)
        )


async def test_when_the_client_disconnects_handlers_end_though_the_body_goes_on() -> None:
    prompts = Prompts()
    ended = anyio.Event()

    async def prompt(params: PromptRequest) -> PromptResponse:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return await prompts.prompt(params)

    requests = agent_requests()
    requests["session/prompt"] = prompt
    async with AgentBench(requests) as bench:
        bench.peer_is_gone = True
        await bench.initialize()
        bench.peer.send({"id": "p", "method": "session/prompt", "params": PROMPT})
        await bench.peer.link.aclose()
        with anyio.fail_after(WAIT):
            await ended.wait()


async def test_a_result_that_comes_after_the_closing_answer_is_dropped_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def prompt(params: PromptRequest) -> PromptResponse:
        del params
        with suppress(anyio.get_cancelled_exc_class()):  # a handler may do so
            await anyio.sleep_forever()
        return PromptResponse(stop_reason="cancelled")

    requests = agent_requests()
    requests["session/prompt"] = prompt
    async with AgentBench(requests) as bench:
        await bench.initialize()
        bench.peer.send({"id": "p", "method": "session/prompt", "params": PROMPT})
        await bench.peer.settle()
    assert [reply["error"]["code"] for reply in bench.peer.replies("p")] == [-32800]
    assert caplog.records == []


async def test_nothing_is_delivered_once_this_side_has_begun_to_close() -> None:
    seen: list[str] = []

    def cancel(params: CancelNotification) -> None:
        seen.append(params.session_id)

    notifications = agent_notifications()
    notifications["session/cancel"] = cancel
    async with AgentBench(notifications=notifications) as bench:
        await bench.initialize()
        bench.agent.on_notification(Notification("session/cancel", {"sessionId": "late"}))
    await anyio.wait_all_tasks_blocked()
    assert seen == []


async def test_aclose_ends_run_and_answers_what_is_open() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            await start(bench)
            await bench.agent.aclose()
    assert (await bench.peer.reply("p"))["error"]["code"] == -32800
    assert len(bench.peer.replies("p")) == 1
    bench.tap.check()


async def test_cancelling_run_answers_what_is_open() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            await start(bench)
            tasks.cancel_scope.cancel()
        assert (await bench.peer.reply("p"))["error"]["code"] == -32800
        assert len(bench.peer.replies("p")) == 1
        assert prompts.ended == ["CancelledError"]
        assert bench.peer.closed
    bench.tap.check()


async def test_a_native_cancellation_of_run_ends_it_too() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)
    with anyio.fail_after(WAIT):
        task = asyncio.create_task(bench.agent.run())
        await start(bench)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert (await bench.peer.reply("p"))["error"]["code"] == -32800
        assert len(prompts.ended) == 1
    bench.tap.check()


async def test_what_the_body_raises_is_not_wrapped() -> None:
    prompts = Prompts()
    bench = bench_of(prompts)

    async def body() -> None:
        async with bench:
            await start(bench)
            raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        await body()
    assert (await bench.peer.reply("p"))["error"]["code"] == -32800


async def test_messages_that_came_before_the_end_are_all_handled() -> None:
    seen: list[str] = []

    def cancel(params: CancelNotification) -> None:
        seen.append(params.session_id)

    notifications = agent_notifications()
    notifications["session/cancel"] = cancel
    bench = AgentBench(notifications=notifications)
    bench.peer.send(
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        *({"method": "session/cancel", "params": {"sessionId": str(n)}} for n in range(5)),
    )
    await bench.peer.link.aclose()
    with anyio.fail_after(WAIT):
        await bench.agent.run()
    assert seen == ["0", "1", "2", "3", "4"]


async def test_a_notification_after_the_end_is_dropped_and_a_call_fails() -> None:
    bench = AgentBench()
    async with bench:
        await bench.initialize()
        bench.peer_is_gone = True
        await bench.peer.link.aclose()
        with anyio.fail_after(WAIT):
            await bench.agent.wait_closed()
        params = RequestPermissionRequest.model_validate(PERMISSION)
        with pytest.raises(TransportError):
            await bench.agent.session_request_permission(params)
        sent = len(bench.tap.messages)
        bench.agent.elicitation_complete(CompleteElicitationNotification(elicitation_id="e"))
        assert len(bench.tap.messages) == sent


async def test_a_side_is_started_once_and_before_it_is_waited_for() -> None:
    bench = AgentBench()
    with pytest.raises(MisuseError, match="not started"):
        await bench.agent.wait_closed()
    with pytest.raises(MisuseError, match="not started"):
        await bench.agent.session_request_permission(
            RequestPermissionRequest.model_validate(PERMISSION)
        )
    async with bench:
        with pytest.raises(MisuseError, match="once"):
            await bench.agent.run()
