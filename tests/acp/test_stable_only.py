"""What only the unstable schema has, on a side that was not opened for it: unknown, and unsent."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.acp import AgentRequestHandlers, AgentSide, ClientSide, acp_connection, types
from codex_acp.acp._generated.v1.methods import MODELS, STABLE_MODELS
from codex_acp.acp._generated.v2.methods import STABLE_MODELS as STABLE_V2
from codex_acp.acp.v2 import OtherStateUpdateSessionUpdate, UnknownVariant
from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.transport.link import memory_pair
from codex_acp.wire.codec import plain
from tests.acp.raw_peer import RawPeer
from tests.acp.tables import (
    INITIALIZE,
    PROMPT,
    agent_notifications,
    agent_requests,
    client_notifications,
    client_requests,
)

USAGE = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
PLAN_REMOVED = {"sessionId": "s", "update": {"sessionUpdate": "plan_removed", "planId": "p"}}


def test_an_unstable_field_is_kept_as_an_unknown_one() -> None:
    wire = {"stopReason": "end_turn", "usage": USAGE, "_meta": {"a": 1}}
    read = STABLE_MODELS.decode("PromptResponse", wire, "an answer")
    assert type(read) is types.PromptResponse
    assert read.usage is None
    assert read.model_extra == {"usage": USAGE}
    assert plain(read) == wire


def test_it_is_read_where_it_was_asked_for() -> None:
    read = MODELS.decode("PromptResponse", {"stopReason": "end_turn", "usage": USAGE}, "an answer")
    assert isinstance(read.usage, types.Usage)


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("ListSessionsRequest", {"archived": 5}),
        ("NewSessionRequest", {"cwd": "/w", "mcpServers": [], "systemPrompt": 5}),
    ],
)
def test_one_that_is_malformed_is_no_error(name: str, wire: dict[str, Any]) -> None:
    assert plain(STABLE_MODELS.decode(name, wire, name)) == wire
    with pytest.raises(InvalidPayload):
        MODELS.decode(name, wire, name)


def test_a_member_of_a_closed_union_does_not_fit() -> None:
    with pytest.raises(InvalidPayload, match="plan_removed"):
        STABLE_MODELS.decode("SessionNotification", PLAN_REMOVED, "session/update")
    read = MODELS.decode("SessionNotification", PLAN_REMOVED, "session/update")
    assert isinstance(read.update, types.PlanRemovedSessionUpdate)


def test_a_member_of_an_open_union_is_an_unknown_one() -> None:
    read = STABLE_V2.decode("UpdateSessionNotification", PLAN_REMOVED, "session/update")
    assert isinstance(read.update, UnknownVariant)
    state = {"sessionId": "s", "update": {"sessionUpdate": "state_update", "state": "unknown"}}
    read = STABLE_V2.decode("UpdateSessionNotification", state, "session/update")
    assert isinstance(read.update, OtherStateUpdateSessionUpdate)
    assert plain(read) == state


async def with_usage(request: types.PromptRequest) -> types.PromptResponse:
    del request
    return types.PromptResponse(stop_reason="end_turn", usage=types.Usage.model_validate(USAGE))


def agent(*, unstable: bool) -> tuple[AgentSide, RawPeer]:
    near, far = memory_pair()
    requests: AgentRequestHandlers = {**agent_requests(), "session/prompt": with_usage}
    side = AgentSide(
        acp_connection(near, name="the client"),
        requests,
        agent_notifications(),
        unstable={} if unstable else None,
    )
    return side, RawPeer(far)


async def test_a_result_with_an_unstable_field_is_an_error_that_says_how_to_send_it() -> None:
    side, peer = agent(unstable=False)
    async with side:
        await peer.ask("i", "initialize", INITIALIZE)
        error = (await peer.ask(1, "session/prompt", PROMPT))["error"]
    assert error["code"] == -32603
    assert "PromptResponse.usage" in error["message"]
    assert "`unstable`" in error["message"]


async def test_opened_for_it_the_side_sends_it() -> None:
    side, peer = agent(unstable=True)
    async with side:
        await peer.ask("i", "initialize", INITIALIZE)
        result = (await peer.ask(1, "session/prompt", PROMPT))["result"]
    assert result == {"stopReason": "end_turn", "usage": USAGE}


async def test_an_update_that_only_the_unstable_schema_has_is_not_sent() -> None:
    side, _ = agent(unstable=False)
    update = types.PlanRemovedSessionUpdate(plan_id="p")
    async with side:
        with pytest.raises(MisuseError, match="PlanRemovedSessionUpdate"):
            side.session_update(types.SessionNotification(session_id="s", update=update))


async def test_a_client_sends_neither_unstable_methods_nor_fields() -> None:
    near, _ = memory_pair()
    connection = acp_connection(near, name="the agent")
    side = ClientSide(connection, client_requests(), client_notifications())
    async with side:
        with pytest.raises(MisuseError, match="session/set_title is unstable"):
            await side.session_set_title(types.SetSessionTitleRequest(session_id="s", title="t"))
        with pytest.raises(MisuseError, match=r"ListSessionsRequest\.archived"):
            await side.session_list(types.ListSessionsRequest(archived="only"))
        prompt = types.SystemPrompt.model_construct()
        with pytest.raises(MisuseError, match=r"NewSessionRequest\.system_prompt"):
            await side.session_new(
                types.NewSessionRequest(cwd="/w", mcp_servers=[], system_prompt=prompt)
            )
