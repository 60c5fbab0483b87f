"""What a client sends that makes no sense: answered, and the next message works.

The tests that need no fresh adapter share one: that it lives on is what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import CodexHome
from tests.e2e.raw_adapter import Message, RawAdapter

pytestmark = pytest.mark.attack("client")

UNKNOWN_SESSION = "no-such-session"
TEXT = {"type": "text", "text": "hi"}
LIMIT = 4096


@pytest.fixture(scope="module")
def home() -> Iterator[CodexHome]:
    with CodexHome() as home:
        yield home


@pytest.fixture(scope="module")
def shared(home: CodexHome) -> Iterator[RawAdapter]:
    with RawAdapter(home.env) as adapter:
        adapter.initialize()
        yield adapter


@pytest.fixture
def adapter(shared: RawAdapter) -> Iterator[RawAdapter]:
    """The shared one; after each test it still answers, and with nothing else before."""
    yield shared
    before = len(shared.messages)
    assert shared.ask("session/prompt", {"sessionId": UNKNOWN_SESSION, "prompt": [TEXT]})["error"]
    # The commands of a session are told when they are known: whenever that is.
    news = [m for m in shared.messages[before:] if "availableCommands" not in str(m)]
    assert len(news) == 1, news


def error_of(answer: Message) -> dict[str, Any]:
    error: dict[str, Any] = answer["error"]
    return error


def has_no_id(message: Message) -> bool:
    return "method" not in message and message["id"] is None


@pytest.mark.parametrize("line", [b"not json\n", b'{"jsonrpc":"2.0",\n', b"\xff\xfe\n", b"NaN\n"])
def test_a_line_that_is_no_json_is_a_parse_error_without_an_id(
    adapter: RawAdapter, line: bytes
) -> None:
    adapter.write(line)

    assert error_of(adapter.wait_for(has_no_id))["code"] == -32700


@pytest.mark.parametrize("batch", ["[]", '[{"jsonrpc":"2.0","id":9,"method":"session/new"}]'])
def test_a_json_array_is_an_invalid_request(adapter: RawAdapter, batch: str) -> None:
    adapter.write(batch.encode() + b"\n")

    assert error_of(adapter.wait_for(has_no_id))["code"] == -32600


def test_an_unknown_method_is_not_found(adapter: RawAdapter) -> None:
    error = error_of(adapter.ask("session/levitate", {}))

    assert error["code"] == -32601
    assert "session/levitate" in error["message"]


def test_a_method_of_the_other_side_is_not_found(adapter: RawAdapter) -> None:
    params = {"sessionId": "s", "path": "/etc/hostname"}

    assert error_of(adapter.ask("fs/read_text_file", params))["code"] == -32601


@pytest.mark.parametrize(
    "method", ["auth/login", "auth/logout", "tool_call/cancel", "terminal/cancel"]
)
def test_a_method_of_v2_is_not_found(adapter: RawAdapter, method: str) -> None:
    params = {"sessionId": "s", "toolCallId": "t", "terminalId": "t", "methodId": "m"}

    assert error_of(adapter.ask(method, params))["code"] == -32601


def test_an_unknown_notification_is_ignored(adapter: RawAdapter) -> None:
    adapter.send(
        {"method": "session/levitated", "params": {}},
        {"method": "_vendor.example/hello"},
        {"method": "session/cancel", "params": {"sessionId": 5}},
    )  # the fixture holds that nothing is answered


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"cwd": 5, "mcpServers": []}, "cwd"),
        ({"mcpServers": []}, "cwd"),
        ({"cwd": "/", "mcpServers": [{"name": "n", "args": [], "env": []}]}, "command"),
        (None, "cwd"),
    ],
)
def test_invalid_params_name_the_field(adapter: RawAdapter, params: object, field: str) -> None:
    error = error_of(adapter.ask("session/new", params))

    assert error["code"] == -32602
    assert field in error["message"]


def test_a_relative_directory_is_invalid(adapter: RawAdapter) -> None:
    error = error_of(adapter.ask("session/new", {"cwd": "work", "mcpServers": []}))

    assert error["code"] == -32602
    assert "cwd" in error["message"]
    assert "absolute" in error["message"]


def test_an_sse_mcp_server_is_invalid(adapter: RawAdapter, home: CodexHome) -> None:
    server = {"type": "sse", "name": "old", "url": "https://127.0.0.1/sse", "headers": []}
    params = {"cwd": str(home.workspace), "mcpServers": [server]}
    error = error_of(adapter.ask("session/new", params))

    assert error["code"] == -32602
    assert "mcpServers.0" in error["message"]
    assert "'sse'" in error["message"]


def test_two_mcp_servers_of_one_name_are_invalid(adapter: RawAdapter, home: CodexHome) -> None:
    server = {"name": "twin", "command": "/bin/true", "args": [], "env": []}
    params = {"cwd": str(home.workspace), "mcpServers": [server, server]}
    error = error_of(adapter.ask("session/new", params))

    assert error["code"] == -32602
    assert "mcpServers.1" in error["message"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": "!"}},
        {"type": "_hologram", "beam": 1},
        {"beam": 1},
    ],
)
def test_a_block_that_the_model_cannot_be_given_is_invalid(
    adapter: RawAdapter, home: CodexHome, block: dict[str, object]
) -> None:
    session = adapter.new_session(home.workspace)
    error = error_of(adapter.ask("session/prompt", {"sessionId": session, "prompt": [TEXT, block]}))

    assert error["code"] == -32602
    assert "prompt.1" in error["message"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("mode", 3), ("mode", None), ("mode", "made-up"), ("mode", True), ("made-up", "x")],
)
def test_an_option_value_of_the_wrong_type_or_of_no_option_is_invalid(
    adapter: RawAdapter, home: CodexHome, option: str, value: object
) -> None:
    session = adapter.new_session(home.workspace)
    params = {"sessionId": session, "configId": option, "value": value}

    assert error_of(adapter.ask("session/set_config_option", params))["code"] == -32602


def test_an_empty_prompt_is_invalid(adapter: RawAdapter, home: CodexHome) -> None:
    session = adapter.new_session(home.workspace)

    assert error_of(adapter.ask("session/prompt", {"sessionId": session, "prompt": []}))[
        "code"
    ] == (-32602)


def test_an_unknown_session_is_not_found(adapter: RawAdapter) -> None:
    error = error_of(
        adapter.ask("session/prompt", {"sessionId": UNKNOWN_SESSION, "prompt": [TEXT]})
    )

    assert error["code"] == -32002
    assert UNKNOWN_SESSION in error["message"]


def test_a_second_initialize_is_refused(adapter: RawAdapter) -> None:
    error = error_of(adapter.ask("initialize", {"protocolVersion": 1}))

    assert error["code"] == -32600


def test_a_request_before_initialize_is_refused_and_initialize_still_works(home: CodexHome) -> None:
    with RawAdapter(home.env) as adapter:
        early = adapter.ask("session/new", {"cwd": str(home.workspace), "mcpServers": []})
        assert error_of(early)["code"] == -32600
        assert "initialize" in error_of(early)["message"]

        adapter.initialize()


def test_a_line_over_the_limit_is_refused_and_the_next_line_works(
    home: CodexHome, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing"
    env = {**home.env, "CODEX_PATH": str(nothing)}
    with RawAdapter(env, f"--line-limit={LIMIT}") as adapter:
        adapter.initialize()
        long = {"jsonrpc": "2.0", "id": 77, "method": "session/new", "params": {"x": "y" * LIMIT}}
        adapter.write(json.dumps(long).encode() + b"\n")
        error = error_of(adapter.wait_for(lambda message: message.get("id") == 77))
        assert error["code"] == -32600
        assert str(LIMIT) in error["message"]

        adapter.write(b"y" * LIMIT + b"y\n")  # nothing tells whose it is
        assert error_of(adapter.wait_for(has_no_id))["code"] == -32600

        assert error_of(adapter.ask("session/levitate"))["code"] == -32601
