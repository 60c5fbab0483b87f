"""Every request of a client gets exactly one answer, whatever its handler does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import anyio
import pytest

from codex_acp.acp import AgentNotificationHandlers
from codex_acp.acp.types import (
    CancelNotification,
    CancelRequestNotification,
    InitializeRequest,
    InitializeResponse,
    PromptRequest,
    PromptResponse,
)
from codex_acp.errors import ConnectionClosed, ErrorReply, InvalidPayload, RpcError
from tests.acp.benches import AgentBench
from tests.acp.raw_peer import WAIT
from tests.acp.tables import PROMPT, agent_notifications, agent_requests, initialize

Prompt = Callable[[PromptRequest], Awaitable[PromptResponse]]

DONE = PromptResponse(stop_reason="end_turn")


def bench_with(
    prompt: Prompt, notifications: AgentNotificationHandlers | None = None
) -> AgentBench:
    requests = agent_requests()
    requests["session/prompt"] = prompt
    return AgentBench(requests, notifications)


def raising(error: BaseException) -> Prompt:
    async def prompt(params: PromptRequest) -> PromptResponse:
        del params
        raise error

    return prompt


def returning(value: object) -> Prompt:
    async def prompt(params: PromptRequest) -> PromptResponse:
        del params
        return cast("PromptResponse", value)

    return prompt


async def cancelled_from_within(params: PromptRequest) -> PromptResponse:
    del params
    future: asyncio.Future[PromptResponse] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


@pytest.mark.parametrize(
    ("prompt", "code", "text"),
    [
        (raising(RpcError(-32000, "log in first")), -32000, "log in first"),
        (raising(RpcError(-32002, "no such session", object())), -32002, "no such session"),
        (raising(ErrorReply("thread/start", -5, "no thread")), -32603, "thread/start failed"),
        (raising(InvalidPayload("turn/start", ("id: missing",))), -32603, "id: missing"),
        (raising(ConnectionClosed("codex has gone")), -32603, "codex has gone"),
        (raising(ValueError("not handled")), -32603, "ValueError: not handled"),
        (raising(asyncio.CancelledError()), -32800, "cancelled"),
        (cancelled_from_within, -32800, "cancelled"),
        (returning(None), -32603, "NoneType"),
        (returning({"stopReason": "end_turn"}), -32603, "dict"),
    ],
)
async def test_a_handler_that_fails_is_answered_with_what_happened(
    prompt: Prompt, code: int, text: str
) -> None:
    async with bench_with(prompt) as bench:
        await bench.initialize()
        for request_id in ("first", "second"):
            error = (await bench.peer.ask(request_id, "session/prompt", PROMPT))["error"]
            assert error["code"] == code
            assert text in error["message"]
            assert len(bench.peer.replies(request_id)) == 1


class Fatal(BaseException):
    """As KeyboardInterrupt, but one that the event loop does not treat specially."""


async def test_what_no_handler_may_catch_is_answered_and_ends_the_side() -> None:
    bench = bench_with(raising(Fatal("the end")))
    bench.peer.send(
        {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 1, "method": "session/prompt", "params": PROMPT},
    )
    with anyio.fail_after(WAIT), pytest.raises(BaseExceptionGroup) as raised:
        await bench.agent.run()
    assert [type(error) for error in raised.value.exceptions] == [Fatal]
    error = (await bench.peer.reply(1))["error"]
    assert (error["code"], "the end" in error["message"]) == (-32800, True)


async def test_the_data_of_an_rpc_error_is_sent() -> None:
    async with bench_with(raising(RpcError(-32000, "log in", {"methods": ["a"]}))) as bench:
        await bench.initialize()
        error = (await bench.peer.ask(0, "session/prompt", PROMPT))["error"]
        assert error == {"code": -32000, "message": "log in", "data": {"methods": ["a"]}}


async def test_a_failure_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    async with bench_with(raising(ValueError("not handled"))) as bench:
        await bench.initialize()
        await bench.peer.ask(0, "session/prompt", PROMPT)
    assert "the handler of session/prompt failed" in caplog.text
    assert "Traceback" in caplog.text


async def test_parallel_requests_are_answered_in_the_order_they_end() -> None:
    release = {"a": anyio.Event(), "b": anyio.Event(), "c": anyio.Event()}

    async def prompt(params: PromptRequest) -> PromptResponse:
        await release[params.session_id].wait()
        return DONE

    async with bench_with(prompt) as bench:
        await bench.initialize()
        bench.peer.send(
            *(
                {"id": name, "method": "session/prompt", "params": {**PROMPT, "sessionId": name}}
                for name in release
            )
        )
        for name in ("c", "a", "b"):
            release[name].set()
            assert (await bench.peer.reply(name))["result"] == {"stopReason": "end_turn"}
        assert [m.get("id") for m in bench.peer.messages] == ["init", "c", "a", "b"]


async def test_ids_zero_and_the_text_zero_are_two_requests() -> None:
    async with bench_with(returning(DONE)) as bench:
        await bench.initialize()
        bench.peer.send(
            {"id": 0, "method": "session/prompt", "params": PROMPT},
            {"id": "0", "method": "session/prompt", "params": PROMPT},
        )
        assert (await bench.peer.reply(0))["id"] == 0
        assert (await bench.peer.reply("0"))["id"] == "0"


async def test_a_session_cancel_in_the_same_read_finds_the_prompt_it_follows() -> None:
    running: dict[str, anyio.Event] = {}
    order: list[str] = []

    async def prompt(params: PromptRequest) -> PromptResponse:
        order.append("prompt")
        cancelled = running[params.session_id] = anyio.Event()
        with anyio.fail_after(WAIT):
            await cancelled.wait()
        return PromptResponse(stop_reason="cancelled")

    def cancel(params: CancelNotification) -> None:
        order.append("cancel")
        if params.session_id in running:
            running[params.session_id].set()

    notifications = agent_notifications()
    notifications["session/cancel"] = cancel
    async with bench_with(prompt, notifications) as bench:
        await bench.initialize()
        bench.peer.send(
            {"method": "session/cancel", "params": {"sessionId": "s1"}},
            {"id": 1, "method": "session/prompt", "params": PROMPT},
            {"method": "session/cancel", "params": {"sessionId": "s1"}},
        )
        assert (await bench.peer.reply(1))["result"] == {"stopReason": "cancelled"}
    assert order == ["cancel", "prompt", "cancel"]


async def blocks(params: PromptRequest) -> PromptResponse:
    del params
    await anyio.sleep_forever()
    raise AssertionError


async def ends_well_when_cancelled(params: PromptRequest) -> PromptResponse:
    del params
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return PromptResponse(stop_reason="cancelled")
    raise AssertionError


def failing_when_cancelled(error: Exception) -> Prompt:
    async def prompt(params: PromptRequest) -> PromptResponse:
        try:
            return await blocks(params)
        finally:
            raise error

    return prompt


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        (blocks, ("error", -32800)),
        (ends_well_when_cancelled, ("result", "cancelled")),
        (failing_when_cancelled(RpcError(-32042, "in the middle")), ("error", -32042)),
        (failing_when_cancelled(ValueError("in the middle")), ("error", -32800)),
    ],
)
async def test_a_cancelled_request_is_answered_once(
    prompt: Prompt, answer: tuple[str, object], together: bool
) -> None:
    async with bench_with(prompt) as bench:
        await bench.initialize()
        asked = {"id": 7, "method": "session/prompt", "params": PROMPT}
        cancel = {"method": "$/cancel_request", "params": {"requestId": 7}}
        if together:
            bench.peer.send(asked, cancel, cancel)
        else:
            bench.peer.send(asked)
            await bench.peer.settle()
            bench.peer.send(cancel)
        reply = await bench.peer.reply(7)
        kind, value = answer
        assert (reply[kind].get("code") or reply[kind].get("stopReason")) == value
        bench.peer.send(cancel)
        await bench.peer.settle()
        assert len(bench.peer.replies(7)) == 1


async def test_only_the_request_with_that_very_id_is_cancelled() -> None:
    async with bench_with(blocks) as bench:
        await bench.initialize()
        bench.peer.send(
            {"id": 1, "method": "session/prompt", "params": PROMPT},
            {"id": "1", "method": "session/prompt", "params": PROMPT},
            {"method": "$/cancel_request", "params": {"requestId": "1"}},
            {"method": "$/cancel_request", "params": {"requestId": 2}},
            {"method": "$/cancel_request", "params": {"requestId": None}},
        )
        assert (await bench.peer.reply("1"))["error"]["code"] == -32800
        bench.peer.send({"method": "$/cancel_request", "params": {"requestId": "1"}})
        await bench.peer.settle()
        assert bench.peer.replies(1) == []


async def test_the_first_step_of_a_handler_runs_though_its_cancellation_came_with_it() -> None:
    steps: list[str] = []

    async def prompt(params: PromptRequest) -> PromptResponse:
        steps.append("first")
        return await blocks(params)

    async with bench_with(prompt) as bench:
        await bench.initialize()
        bench.peer.send(
            {"id": 1, "method": "session/prompt", "params": PROMPT},
            {"method": "$/cancel_request", "params": {"requestId": 1}},
        )
        assert (await bench.peer.reply(1))["error"]["code"] == -32800
    assert steps == ["first"]


async def test_a_second_cancellation_does_not_cut_short_what_the_first_has_begun() -> None:
    asked_again, ended = asyncio.Event(), asyncio.Event()

    async def prompt(params: PromptRequest) -> PromptResponse:
        try:
            return await blocks(params)
        except asyncio.CancelledError:
            await asked_again.wait()
            ended.set()
            raise

    async with bench_with(prompt) as bench:
        await bench.initialize()
        cancel = {"method": "$/cancel_request", "params": {"requestId": 1}}
        bench.peer.send({"id": 1, "method": "session/prompt", "params": PROMPT})
        await bench.peer.settle()
        for _ in range(2):
            bench.peer.send(cancel)
            await bench.peer.settle()
        asked_again.set()
        assert (await bench.peer.reply(1))["error"]["code"] == -32800
    assert ended.is_set()


async def test_the_row_for_cancel_request_is_told_as_well() -> None:
    seen: list[object] = []

    def note(params: CancelRequestNotification) -> None:
        seen.append(params.request_id)

    notifications = agent_notifications()
    notifications["$/cancel_request"] = note
    async with bench_with(blocks, notifications) as bench:
        await bench.initialize()
        bench.peer.send(
            {"id": 1, "method": "session/prompt", "params": PROMPT},
            {"method": "$/cancel_request", "params": {"requestId": 1}},
        )
        assert (await bench.peer.reply(1))["error"]["code"] == -32800
    assert seen == [1]


async def test_an_initialize_that_was_cancelled_may_be_sent_again() -> None:
    calls: list[int] = []

    async def first_hangs(params: InitializeRequest) -> InitializeResponse:
        calls.append(params.protocol_version)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return await initialize(params)

    requests = agent_requests()
    requests["initialize"] = first_hangs
    async with AgentBench(requests) as bench:
        bench.peer.send(
            {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
            {"method": "$/cancel_request", "params": {"requestId": 1}},
        )
        assert (await bench.peer.reply(1))["error"]["code"] == -32800
        assert "result" in await bench.initialize()
