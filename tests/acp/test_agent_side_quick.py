"""Quick answers: what they change is only that no model is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from codex_acp.acp import AgentSide
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc import EncodedJson
from tests.acp.benches import AgentBench
from tests.acp.tables import agent_notifications, agent_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp.dialects import QuickHandler
    from codex_acp.jsonrpc import JsonValue

WAIT = 60.0
NEW = {"cwd": "/work", "mcpServers": []}


async def never(_request: object) -> Any:
    raise AssertionError


class QuickBench(AgentBench):
    """An agent with quick answers."""

    def __init__(self, quick: Mapping[str, QuickHandler]) -> None:
        super().__init__()
        requests = agent_requests()
        requests["session/new"] = never
        self.agent = self.side = AgentSide(
            self.connection, requests, agent_notifications(), quick=quick
        )


def answering(run: Callable[[], Awaitable[EncodedJson]] | None) -> QuickHandler:
    return lambda _params: run


async def session() -> EncodedJson:
    return EncodedJson(b'{"sessionId":"quick"}')


async def test_a_quick_answer_is_sent_as_it_is() -> None:
    seen: list[JsonValue] = []

    def look(params: JsonValue) -> Callable[[], Awaitable[EncodedJson]]:
        seen.append(params)
        return session

    async with QuickBench({"session/new": look}) as bench:
        await bench.initialize()
        answer = await bench.peer.ask(1, "session/new", NEW)
        assert answer["result"] == {"sessionId": "quick"}
        assert seen == [NEW]


async def test_none_leaves_the_request_to_its_typed_handler() -> None:
    async with QuickBench({"session/new": answering(None)}) as bench:
        await bench.initialize()
        error = (await bench.peer.ask(1, "session/new", {"cwd": 1}))["error"]
        assert (error["code"], "cwd" in error["message"]) == (-32602, True)


async def test_initialize_still_comes_first() -> None:
    async with QuickBench({"session/new": answering(session)}) as bench:
        error = (await bench.peer.ask(1, "session/new", NEW))["error"]
        assert error["code"] == -32600


async def test_a_quick_initialize_that_fails_may_be_sent_again() -> None:
    failures = [RpcError(-32603, "not yet")]

    async def initialize() -> EncodedJson:
        if failures:
            raise failures.pop()
        return EncodedJson(b'{"protocolVersion":1}')

    async with QuickBench({"initialize": answering(initialize)}) as bench:
        params = {"protocolVersion": 1}
        assert (await bench.peer.ask(1, "initialize", params))["error"]["message"] == "not yet"
        assert "result" in await bench.peer.ask(2, "initialize", params)
        assert (await bench.peer.ask(3, "initialize", params))["error"]["code"] == -32600


async def test_a_quick_answer_can_be_cancelled() -> None:
    started = anyio.Event()

    async def wait() -> EncodedJson:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with QuickBench({"session/new": answering(wait)}) as bench:
        await bench.initialize()
        bench.peer.send({"id": 1, "method": "session/new", "params": NEW})
        with anyio.fail_after(WAIT):
            await started.wait()
        bench.peer.send({"method": "$/cancel_request", "params": {"requestId": 1}})
        assert (await bench.peer.reply(1))["error"]["code"] == -32800
        assert len(bench.peer.replies(1)) == 1


async def test_a_typed_handler_may_not_return_bytes() -> None:
    async def new(_request: object) -> Any:
        return b'{"sessionId":"bytes"}'

    requests = agent_requests()
    requests["session/new"] = new
    async with AgentBench(requests) as bench:
        await bench.initialize()
        error = (await bench.peer.ask(1, "session/new", NEW))["error"]
        assert (error["code"], "bytes" in error["message"]) == (-32603, True)


async def test_a_quick_answer_for_no_method_is_refused() -> None:
    with pytest.raises(MisuseError, match="session/later"):
        QuickBench({"session/later": answering(session)})
