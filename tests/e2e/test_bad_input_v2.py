"""What a client of ACP v2 sends that makes no sense, and what another version would have sent.

One adapter is asked all of it: that it lives on is what the tests hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from codex_acp.testing import CodexHome, Text, exec_command
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.v2_bench import INFO, Json, V2Bench

pytestmark = pytest.mark.attack("client")

RUN = exec_command("echo begun; sleep 600", yield_time_ms=60_000)
NO_VERSION: tuple[Any, ...] = ("2", None, 1.5, -1, True, 65_536, [2], {})


@pytest.fixture(scope="module")
def shared() -> Iterator[V2Bench]:
    with V2Bench([[RUN], [Text("It was ended.")]]) as bench:
        yield bench


@pytest.fixture
def bench(shared: V2Bench) -> Iterator[V2Bench]:
    """The shared one; after each test it still answers."""
    yield shared
    assert shared.ask("session/list", {})["sessions"] is not None


@pytest.mark.parametrize(
    ("protocol", "unsupported", "asked", "answered"), [("auto", (), 99, 2), ("v2", (0, 1), 3, 2)]
)
def test_a_version_that_is_none_of_ours_is_refused_and_the_next_one_may_fit(
    protocol: str, unsupported: tuple[int, ...], asked: int, answered: int
) -> None:
    with CodexHome() as home, RawAdapter(home.env, "--protocol", protocol) as adapter:

        def initialize(version: object) -> Json:
            params = {"protocolVersion": version, "info": INFO, "clientInfo": INFO}
            return adapter.ask("initialize", params)

        for version in unsupported:
            error = initialize(version)["error"]
            assert error["code"] == -32022
            assert error["data"]["requested"] == version
        for none in NO_VERSION:
            assert initialize(none)["error"]["code"] == -32602, none
        assert adapter.ask("initialize", {"info": INFO})["error"]["code"] == -32602
        early = adapter.ask("session/new", {"cwd": str(home.workspace), "mcpServers": []})
        assert early["error"]["code"] == -32600
        assert initialize(asked)["result"]["protocolVersion"] == answered
        assert initialize(asked)["result"]["protocolVersion"] == answered, "it may be repeated"
        adapter.ask("session/list", {})
        assert initialize(asked)["error"]["code"] == -32600, "but before all else"


def test_an_agent_of_version_1_alone_answers_1_to_whatever_is_asked() -> None:
    with CodexHome() as home, RawAdapter(home.env, "--protocol", "v1") as adapter:
        params = {"protocolVersion": 2, "info": INFO, "clientInfo": INFO}
        assert adapter.ask("initialize", params)["result"]["protocolVersion"] == 1


def test_what_only_v1_has_is_unknown(bench: V2Bench) -> None:
    where = {"sessionId": bench.session}
    of_v1: dict[str, Json] = {
        "session/load": {**where, "cwd": "/", "mcpServers": []},
        "session/set_mode": {**where, "modeId": "read-only"},
        "authenticate": {"methodId": "api-key"},
        "logout": {},
    }
    for method, params in of_v1.items():
        assert bench.refused(method, params)["code"] == -32601, method
    assert bench.refused("initialize", {"protocolVersion": 1})["code"] == -32600


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"prompt": [{"type": "_hologram", "beam": 1}]}),
        ("session/prompt", {"prompt": [{"beam": 1}]}),
        ("session/prompt", {"prompt": "Go."}),
        ("session/prompt", {"prompt": []}),
        ("session/resume", {"cwd": "$CWD", "replayFrom": {"type": "_middle"}}),
        ("session/resume", {"cwd": "$CWD", "replayFrom": "start"}),
        ("session/resume", {"cwd": "work"}),
        ("session/set_config_option", {"configId": "mode", "type": "id", "value": 3}),
        ("session/set_config_option", {"configId": "mode", "type": "id", "value": None}),
        ("session/set_config_option", {"configId": "mode", "type": "id", "value": "made-up"}),
        ("session/set_config_option", {"configId": "mode", "type": "boolean", "value": True}),
        ("session/set_config_option", {"configId": "mode", "type": "_x", "value": "read-only"}),
        ("session/set_config_option", {"configId": "made-up", "type": "id", "value": "x"}),
        ("session/set_config_option", {"configId": "mode", "value": "read-only"}),
        ("tool_call/cancel", {"toolCallId": "made-up"}),
        ("tool_call/cancel", {"toolCallId": 7}),
        ("terminal/cancel", {"terminalId": "made-up"}),
        ("terminal/cancel", {}),
    ],
)
def test_params_that_do_not_fit_are_invalid(bench: V2Bench, method: str, params: Json) -> None:
    cwd = str(bench.home.workspace)
    given = {"sessionId": bench.session, **params}
    given = {key: cwd if value == "$CWD" else value for key, value in given.items()}
    assert bench.refused(method, given)["code"] == -32602


@pytest.mark.parametrize(
    "server",
    [
        {"type": "sse", "name": "x", "url": "https://127.0.0.1/sse", "headers": []},
        {"type": "_pigeon", "name": "x"},
        {"name": "x", "command": "/bin/true", "args": [], "env": []},
    ],
)
def test_an_mcp_server_that_v2_does_not_have_is_invalid(bench: V2Bench, server: Json) -> None:
    params = {"cwd": str(bench.home.workspace), "mcpServers": [server]}
    assert bench.refused("session/new", params)["code"] == -32602


def test_only_what_runs_in_its_own_session_can_be_cancelled_and_only_once(bench: V2Bench) -> None:
    other = bench.ask("session/new", {"cwd": str(bench.home.workspace)})["sessionId"]
    bench.prompt()
    terminal_id = bench.until("terminal_update")["terminalId"]
    ways = {"tool_call/cancel": "toolCallId", "terminal/cancel": "terminalId"}
    for method, key in ways.items():
        foreign = bench.refused(method, {"sessionId": other, key: terminal_id})
        assert foreign["code"] == -32602, "of another session"
        nowhere = bench.refused(method, {"sessionId": "nobody", key: terminal_id})
        assert (nowhere["code"], nowhere["data"]["sessionId"]) == (-32002, "nobody")
    assert bench.call(terminal_id)["status"] == "in_progress"
    bench.ask("tool_call/cancel", {"sessionId": bench.session, "toolCallId": terminal_id})
    assert bench.idle()["stopReason"] == "end_turn"
    for method, key in ways.items():
        again = bench.refused(method, {"sessionId": bench.session, key: terminal_id})
        assert again["code"] == -32602, "it has ended"


def test_a_session_that_is_not_open_is_as_closed_as_it_can_be(bench: V2Bench) -> None:
    other = bench.ask("session/new", {"cwd": str(bench.home.workspace)})["sessionId"]
    for session in (other, other, "nobody"):
        assert bench.ask("session/close", {"sessionId": session}) == {}


def test_a_cancel_of_what_does_not_run_is_ignored(bench: V2Bench) -> None:
    for session in (bench.session, "nobody", 7):
        bench.adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
    states = len(bench.states())
    bench.ask("session/list", {})
    assert len(bench.states()) == states
