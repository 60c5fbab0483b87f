"""Methods of an agent that are in no schema."""

from __future__ import annotations

import pytest

from codex_acp.acp import AgentSide
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc import JsonValue
from tests.acp.benches import AgentBench
from tests.acp.tables import agent_notifications, agent_requests


async def echo(params: JsonValue) -> JsonValue:
    if params is None:
        raise RpcError(-32602, "params: are missing")
    return {"heard": params}


class ExtendedBench(AgentBench):
    """An agent with one such method."""

    def __init__(self, method: str = "_vendor/echo") -> None:
        super().__init__()
        rows = (agent_requests(), agent_notifications())
        self.agent = self.side = AgentSide(self.connection, *rows, extensions={method: echo})


async def test_an_extension_is_asked_with_plain_json_and_answers_so() -> None:
    async with ExtendedBench() as bench:
        early = (await bench.peer.ask(1, "_vendor/echo", {"a": [1]}))["error"]
        assert early["code"] == -32600
        await bench.initialize()
        answer = await bench.peer.ask(2, "_vendor/echo", {"a": [1]})
        assert answer["result"] == {"heard": {"a": [1]}}
        assert (await bench.peer.ask(3, "_vendor/echo", None))["error"]["code"] == -32602
        assert (await bench.peer.ask(4, "_vendor/other", {}))["error"]["code"] == -32601


async def test_a_method_that_a_schema_may_have_one_day_is_no_extension() -> None:
    with pytest.raises(MisuseError, match="has to begin with _"):
        ExtendedBench("session/echo")
