"""What an agent sends: updates, requests of its own, and what their answers become."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    KillTerminalRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedRequestPermissionOutcome,
    SessionNotification,
    TextContentBlock,
)
from codex_acp.errors import ErrorReply, InvalidPayload
from tests.acp.benches import AgentBench
from tests.acp.raw_peer import WAIT
from tests.acp.tables import PERMISSION


def chunk(text: str) -> SessionNotification:
    return SessionNotification(
        session_id="s1", update=AgentMessageChunkSessionUpdate(content=TextContentBlock(text=text))
    )


async def asked(bench: AgentBench, answer: dict[str, Any]) -> object:
    """Ask for a permission and have the peer give ``answer``: the result, or what was raised."""
    outcome: list[object] = []

    async def ask() -> None:
        try:
            outcome.append(
                await bench.agent.session_request_permission(
                    RequestPermissionRequest.model_validate(PERMISSION)
                )
            )
        except (ErrorReply, InvalidPayload) as error:
            outcome.append(error)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            request = await bench.peer.sent("session/request_permission")
            bench.peer.send({"id": request["id"], **answer})
    return outcome[0]


async def test_updates_are_sent_in_order_without_waiting() -> None:
    async with AgentBench() as bench:
        for n in range(100):
            bench.agent.session_update(chunk(str(n)))
        assert len(bench.tap.messages) == 100
        await bench.peer.settle()
        texts = [m["params"]["update"]["content"]["text"] for m in bench.peer.messages]
        assert texts == [str(n) for n in range(100)]


async def test_an_answer_is_read_as_its_model() -> None:
    async with AgentBench() as bench:
        result = {"outcome": {"outcome": "selected", "optionId": "y"}, "extra": 1}
        answer = await asked(bench, {"result": result})
        assert isinstance(answer, RequestPermissionResponse)
        assert isinstance(answer.outcome, SelectedRequestPermissionOutcome)
        assert answer.outcome.option_id == "y"
        assert bench.peer.messages[0]["params"] == PERMISSION


@pytest.mark.parametrize(
    ("result", "field"),
    [
        (None, "outcome"),
        ({}, "outcome"),
        ({"outcome": {"outcome": "selected"}}, "optionId"),
        ({"outcome": {"outcome": "perhaps"}}, "outcome"),
        ("yes", "value"),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_invalid_payload(
    result: object, field: str
) -> None:
    async with AgentBench() as bench:
        error = await asked(bench, {"result": result})
        assert isinstance(error, InvalidPayload)
        assert "session/request_permission" in str(error)
        assert any(field in problem for problem in error.problems)


async def test_an_error_answer_is_raised_as_it_came() -> None:
    async with AgentBench() as bench:
        error = await asked(bench, {"error": {"code": -32000, "message": "no", "data": [1]}})
        assert isinstance(error, ErrorReply)
        assert (error.code, error.message, error.data) == (-32000, "no", [1])


async def test_null_is_an_empty_result_where_nothing_is_required() -> None:
    async with AgentBench() as bench:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                params = KillTerminalRequest(session_id="s1", terminal_id="t1")
                tasks.start_soon(bench.agent.terminal_kill, params)
                request = await bench.peer.sent("terminal/kill")
                bench.peer.send({"id": request["id"], "result": None})


async def test_a_call_that_is_given_up_is_cancelled_at_the_peer_and_its_answer_dropped() -> None:
    async with AgentBench() as bench:
        params = RequestPermissionRequest.model_validate(PERMISSION)
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bench.agent.session_request_permission, params)
                request = await bench.peer.sent("session/request_permission")
                tasks.cancel_scope.cancel()
            cancel = await bench.peer.sent("$/cancel_request")
        assert cancel["params"] == {"requestId": request["id"]}
        assert "id" not in cancel
        bench.peer.send({"id": request["id"], "error": {"code": -32800, "message": "cancelled"}})
        await bench.peer.settle()
        assert not bench.agent.closed


async def test_drain_waits_for_a_slow_client() -> None:
    async with AgentBench(buffer_limit=1000) as bench:
        bench.peer.link.pause_reading()
        bench.agent.session_update(chunk("x" * 2000))
        drained = anyio.Event()

        async def drain() -> None:
            await bench.agent.drain()
            drained.set()

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(drain)
                await anyio.wait_all_tasks_blocked()
                assert (bench.agent.writing_paused, drained.is_set()) == (True, False)
                bench.peer.link.resume_reading()
        assert (bench.agent.writing_paused, drained.is_set()) == (False, True)
