"""Methods that only the unstable schema has: offered one by one, read with their own models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest

from codex_acp.acp import AgentSide, acp_connection
from codex_acp.acp._generated.v1.handlers import UnstableAgentRequestHandlers
from codex_acp.acp.unstable import (
    ForkSessionRequest,
    ForkSessionResponse,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
)
from codex_acp.errors import MisuseError, RpcError
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer
from tests.acp.tables import INITIALIZE, agent_notifications, agent_requests
from tests.support.acp_schema import SchemaTap

FORK = {"sessionId": "s1", "cwd": "/w", "mcpServers": []}


async def fork(request: ForkSessionRequest) -> ForkSessionResponse:
    assert type(request) is ForkSessionRequest
    return ForkSessionResponse(session_id=f"{request.session_id}-copy")


async def no_title(request: SetSessionTitleRequest) -> SetSessionTitleResponse:
    raise RpcError(-32002, f"there is no {request.session_id}")


def a_side(unstable: UnstableAgentRequestHandlers) -> tuple[AgentSide, RawPeer, SchemaTap]:
    near, far = memory_pair()
    tap = SchemaTap()
    connection = acp_connection(near, name="the peer", on_line=tap.on("agent"))
    side = AgentSide(connection, agent_requests(), agent_notifications(), unstable=unstable)
    return side, RawPeer(far), tap


@pytest.fixture
async def peer() -> AsyncIterator[RawPeer]:
    side, peer, tap = a_side({"session/fork": fork, "session/set_title": no_title})
    async with side:
        await peer.ask("init", "initialize", INITIALIZE)
        yield peer
    tap.check()


async def test_a_handler_gets_the_unstable_model_and_its_result_is_the_answer(
    peer: RawPeer,
) -> None:
    assert (await peer.ask(1, "session/fork", FORK))["result"] == {"sessionId": "s1-copy"}


async def test_its_errors_and_wrong_params_are_answered_like_any_others(peer: RawPeer) -> None:
    title = {"sessionId": "s1", "title": "T"}
    assert (await peer.ask(1, "session/set_title", title))["error"]["code"] == -32002
    wrong = await peer.ask(2, "session/fork", {"sessionId": 5})
    assert wrong["error"]["code"] == -32602
    assert "sessionId" in wrong["error"]["message"]


async def test_a_method_without_a_handler_is_not_offered(peer: RawPeer) -> None:
    answer = await peer.ask(1, "session/archive", {"sessionId": "s1"})
    assert answer["error"]["code"] == -32601


async def test_it_waits_for_initialize_like_any_other() -> None:
    side, peer, _ = a_side({"session/fork": fork})
    async with side:
        assert (await peer.ask(1, "session/fork", FORK))["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["session/new", "session/levitate"])
def test_only_methods_that_the_stable_schema_lacks_go_there(method: str) -> None:
    rows = cast("UnstableAgentRequestHandlers", {method: fork})
    with pytest.raises(MisuseError, match=method):
        a_side(rows)
