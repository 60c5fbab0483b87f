"""What an agent refuses, and that it says why: malformed, too early, unknown, invalid."""

from __future__ import annotations

import logging

import pytest

from codex_acp.acp import types
from codex_acp.acp._generated.v1.methods import AGENT_REQUESTS
from codex_acp.errors import InvalidPayload, MisuseError, RpcError
from tests.acp.benches import AgentBench
from tests.acp.tables import INITIALIZE, NEW_SESSION, PROMPT, agent_notifications, agent_requests


async def new_session(params: types.NewSessionRequest) -> types.NewSessionResponse:
    del params
    return types.NewSessionResponse(session_id="s1")


async def prompt(params: types.PromptRequest) -> types.PromptResponse:
    del params
    return types.PromptResponse(stop_reason="end_turn")


async def set_option(
    params: types.SetSessionConfigOptionRequest,
) -> types.SetSessionConfigOptionResponse:
    del params
    return types.SetSessionConfigOptionResponse(config_options=[])


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"{", None, -32700),
        (b'"initialize"', None, -32600),
        (b"[]", None, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"initialize"}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":5}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"initialize","params":{}}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"initialize","params":{}}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"initialize","params":{}}', None, -32600),
    ],
)
async def test_a_malformed_line_is_answered_and_the_next_one_is_read(
    line: bytes, request_id: object, code: int
) -> None:
    async with AgentBench() as bench:
        bench.peer.send_bytes(line + b"\n")
        reply = await bench.peer.reply(request_id)
        assert reply["error"]["code"] == code
        assert reply["error"]["message"]
        assert "result" in await bench.initialize()
        assert len(bench.peer.messages) == 2


@pytest.mark.parametrize("method", [*sorted(AGENT_REQUESTS.keys() - {"initialize"}), "_x/y", "no"])
async def test_any_request_before_initialize_is_an_invalid_request(method: str) -> None:
    requests = agent_requests()
    requests["session/new"] = new_session
    async with AgentBench(requests) as bench:
        reply = await bench.peer.ask(1, method, NEW_SESSION)
        assert reply["error"]["code"] == -32600
        assert method in reply["error"]["message"]
        assert "before initialize" in reply["error"]["message"]
        assert "result" in await bench.initialize()


async def test_a_second_initialize_is_an_invalid_request_and_changes_nothing() -> None:
    requests = agent_requests()
    requests["session/new"] = new_session
    async with AgentBench(requests) as bench:
        bench.peer.send(
            {"id": 1, "method": "initialize", "params": INITIALIZE},
            {"id": 2, "method": "initialize", "params": INITIALIZE},
        )
        assert (await bench.peer.reply(2))["error"]["code"] == -32600
        assert (await bench.peer.reply(1))["result"] == {"protocolVersion": 1}
        assert (await bench.peer.ask(3, "initialize", INITIALIZE))["error"]["code"] == -32600
        assert (await bench.peer.ask(4, "session/new", NEW_SESSION))["result"]


async def test_an_initialize_that_failed_may_be_sent_again() -> None:
    fails = [True]

    async def initialize(params: types.InitializeRequest) -> types.InitializeResponse:
        if fails.pop():
            raise RpcError(-32000, "not now")
        return types.InitializeResponse(protocol_version=params.protocol_version)

    requests = agent_requests()
    requests["initialize"] = initialize
    async with AgentBench(requests) as bench:
        invalid = await bench.peer.ask(1, "initialize", {"protocolVersion": "one"})
        assert invalid["error"]["code"] == -32602
        assert "protocolVersion" in invalid["error"]["message"]
        assert (await bench.peer.ask(2, "initialize", INITIALIZE))["error"]["code"] == -32000
        assert (await bench.peer.ask(3, "session/new", NEW_SESSION))["error"]["code"] == -32600
        fails.append(False)
        assert (await bench.peer.ask(4, "initialize", INITIALIZE))["result"]


async def test_requests_in_the_same_read_as_initialize_run_behind_it() -> None:
    order: list[str] = []

    async def initialize(params: types.InitializeRequest) -> types.InitializeResponse:
        order.append("initialize")
        return types.InitializeResponse(protocol_version=params.protocol_version)

    async def new(params: types.NewSessionRequest) -> types.NewSessionResponse:
        order.append("session/new")
        return await new_session(params)

    requests = agent_requests()
    requests["initialize"] = initialize
    requests["session/new"] = new
    async with AgentBench(requests) as bench:
        bench.peer.send(
            {"id": 1, "method": "initialize", "params": INITIALIZE},
            {"id": 2, "method": "session/new", "params": NEW_SESSION},
        )
        assert (await bench.peer.reply(2))["result"] == {"sessionId": "s1"}
    assert order == ["initialize", "session/new"]


@pytest.mark.parametrize(
    "method", [*sorted(AGENT_REQUESTS.keys() - {"initialize"}), "_x/y", "session/fork", "nope"]
)
async def test_a_method_that_is_not_offered_is_named_in_the_refusal(method: str) -> None:
    async with AgentBench() as bench:
        await bench.initialize()
        error = (await bench.peer.ask(1, method, {}))["error"]
        assert error["code"] == -32601
        assert method in error["message"]


async def test_the_message_of_an_error_steers_no_terminal() -> None:
    async with AgentBench() as bench:
        await bench.initialize()
        error = (await bench.peer.ask(1, "no\x1b[2J\x00pe", {}))["error"]
        assert error["message"] == "the method no\\x00pe is not offered"


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("session/new", None, "cwd"),
        ("session/new", {}, "cwd"),
        ("session/new", [], "value"),
        ("session/new", {"cwd": 5, "mcpServers": []}, "cwd"),
        ("session/new", {"cwd": "/x", "mcpServers": [{"name": "n"}]}, "mcpServers"),
        ("session/new", {"cwd": "/x", "mcpServers": [{"name": "n"}]}, "command"),
        ("session/prompt", {"sessionId": "s"}, "prompt"),
        ("session/prompt", {"sessionId": None, "prompt": []}, "sessionId"),
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]}, "text"),
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "hologram"}]}, "prompt.0"),
        ("session/set_config_option", {"sessionId": "s", "configId": "c"}, "value"),
        ("initialize", {}, "protocolVersion"),
        ("initialize", {"protocolVersion": 70000}, "protocolVersion"),
        ("initialize", {"protocolVersion": True}, "protocolVersion"),
    ],
)
async def test_invalid_params_name_the_wrong_field(method: str, params: object, field: str) -> None:
    requests = agent_requests()
    requests["session/new"] = new_session
    requests["session/prompt"] = prompt
    requests["session/set_config_option"] = set_option
    async with AgentBench(requests) as bench:
        if method != "initialize":
            await bench.initialize()
        error = (await bench.peer.ask(1, method, params))["error"]
        assert error["code"] == -32602
        assert field in error["message"]
        assert method in error["message"]
        assert any(field in problem for problem in error["data"]["problems"])
        assert len(bench.peer.replies(1)) == 1


async def test_what_the_schema_reads_leniently_is_no_error() -> None:
    seen: list[object] = []

    async def new(params: types.NewSessionRequest) -> types.NewSessionResponse:
        seen.append((params.mcp_servers, params.meta))
        return await new_session(params)

    async def listed(params: types.ListSessionsRequest) -> types.ListSessionsResponse:
        seen.append(params.cursor)
        return types.ListSessionsResponse(sessions=[])

    requests = agent_requests()
    requests["session/new"] = new
    requests["session/list"] = listed
    async with AgentBench(requests) as bench:
        await bench.initialize()
        params: dict[str, object] = {"cwd": "/x", "mcpServers": None, "_meta": 5, "unknown": {}}
        assert (await bench.peer.ask(1, "session/new", params))["result"]
        bench.peer.send({"id": 2, "method": "session/list"})
        assert (await bench.peer.reply(2))["result"] == {"sessions": []}
    assert seen == [([], None), None]


async def test_unknown_and_unhandled_notifications_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "codex_acp")
    async with AgentBench() as bench:
        await bench.initialize()
        bench.peer.send(
            {"method": "_x/note", "params": {}},
            {"method": "$/progress", "params": {}},
            {"method": "nope"},
            {"method": "session/cancel", "params": {"sessionId": 5}},
        )
        await bench.peer.settle()
        assert len(bench.peer.messages) == 1
        assert bench.invalid == []
    assert caplog.records == []


async def test_a_notification_before_initialize_is_not_delivered() -> None:
    seen: list[str] = []
    notifications = agent_notifications()

    def cancel(params: types.CancelNotification) -> None:
        seen.append(params.session_id)

    notifications["session/cancel"] = cancel
    async with AgentBench(notifications=notifications) as bench:
        bench.peer.send({"method": "session/cancel", "params": {"sessionId": "early"}})
        await bench.initialize()
        bench.peer.send({"method": "session/cancel", "params": {"sessionId": "later"}})
        await bench.peer.settle()
    assert seen == ["later"]


async def test_an_invalid_or_failing_notification_is_logged_and_the_next_is_delivered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    def cancel(params: types.CancelNotification) -> None:
        if params.session_id == "bad":
            raise ValueError("no such session")
        if params.session_id == "worse":
            raise InvalidPayload("something else", ("field: wrong",))
        seen.append(params.session_id)

    notifications = agent_notifications()
    notifications["session/cancel"] = cancel
    async with AgentBench(notifications=notifications) as bench:
        await bench.initialize()
        bench.peer.send(
            {"method": "session/cancel", "params": {"sessionId": 5}},
            {"method": "session/cancel", "params": {"sessionId": "bad"}},
            {"method": "session/cancel", "params": {"sessionId": "worse"}},
            {"method": "$/cancel_request", "params": {"requestId": [1]}},
            {"method": "session/cancel", "params": {"sessionId": "good"}},
        )
        await bench.peer.settle()
        assert [notification.method for notification, _ in bench.invalid] == [
            "session/cancel",
            "$/cancel_request",
        ]
        assert "sessionId" in bench.invalid[0][1].problems[0]
        assert "requestId" in bench.invalid[1][1].problems[0]
    assert seen == ["good"]
    assert "sessionId" in caplog.text
    assert "no such session" in caplog.text


async def test_a_table_without_a_row_or_with_an_unknown_one_is_named() -> None:
    requests = agent_requests()
    del requests["session/load"]  # type: ignore[misc] # what a program without types can do
    with pytest.raises(MisuseError, match="session/load"):
        AgentBench(requests)
    notifications = {**agent_notifications(), "session/stop": None}
    with pytest.raises(MisuseError, match="session/stop"):
        AgentBench(notifications=notifications)  # type: ignore[arg-type] # as above


async def test_an_agent_that_does_not_handle_initialize_is_refused() -> None:
    requests = agent_requests()
    requests["initialize"] = None
    with pytest.raises(MisuseError, match="initialize"):
        AgentBench(requests)


async def test_prompts_are_read_as_their_blocks() -> None:
    seen: list[object] = []

    async def typed(params: types.PromptRequest) -> types.PromptResponse:
        seen.append(type(params.prompt[0]).__name__)
        return await prompt(params)

    requests = agent_requests()
    requests["session/prompt"] = typed
    async with AgentBench(requests) as bench:
        await bench.initialize()
        assert (await bench.peer.ask(1, "session/prompt", PROMPT))["result"] == {
            "stopReason": "end_turn"
        }
    assert seen == ["TextContentBlock"]
