"""The client against a scripted app-server in memory: handshake, calls, errors, the end."""

from __future__ import annotations

import json

import anyio
import pytest

from codex_acp.codex.client import CodexClient
from codex_acp.codex.connection import app_server_connection
from codex_acp.codex.types import (
    ClientInfo,
    InitializeCapabilities,
    ThreadReadParams,
    ThreadStartParams,
)
from codex_acp.errors import (
    ConnectionClosed,
    ErrorReply,
    InvalidPayload,
    MisuseError,
    TransportError,
)
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Expect, Notify, ScriptedAppServer, Silence
from tests.codex.codex_bench import HELLO, WAIT_SECONDS


async def test_the_handshake_says_who_we_are_and_then_initialized() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        await server.wait_finished()
        first, second = server.player.received
        assert (first["method"], second) == ("initialize", {"method": "initialized"})
        params = first["params"]
        assert isinstance(params, dict)
        assert params["clientInfo"]["name"] == "codex_acp_sdk"
        assert params["capabilities"] == {"experimentalApi": True}
        assert codex.server.user_agent == "scripted/0.163.0"


async def test_the_handshake_takes_the_programs_name_and_wishes() -> None:
    async with ScriptedAppServer(HELLO) as server:
        client = CodexClient(
            server.link,
            client_info=ClientInfo(name="mine", version="7", title="Mine"),
            opt_out_notifications=("thread/started", "skills/changed"),
            capabilities=InitializeCapabilities(experimental_api=False, request_attestation=True),
        )
        async with client:
            assert server.player.received[0]["params"] == {
                "clientInfo": {"name": "mine", "version": "7", "title": "Mine"},
                "capabilities": {
                    "experimentalApi": False,
                    "requestAttestation": True,
                    "optOutNotificationMethods": ["thread/started", "skills/changed"],
                },
            }


async def test_a_list_of_threads_that_goes_in_circles_ends() -> None:
    pages: list[dict[str, JsonValue]] = [
        {"data": [], "nextCursor": cursor} for cursor in ("a", "b", "a")
    ]
    script = [*HELLO, *(Expect("thread/list", page) for page in pages)]
    async with ScriptedAppServer(script) as server:
        with anyio.fail_after(WAIT_SECONDS):
            async with CodexClient(server.link) as client:
                assert [thread async for thread in client.threads.list()] == []


async def test_a_server_that_never_answers_ends_the_handshake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app_server_connection, "HANDSHAKE_TIMEOUT_SECONDS", 0.05)
    async with ScriptedAppServer([Silence()]) as server:
        client = CodexClient(server.link)
        with anyio.fail_after(WAIT_SECONDS), pytest.raises(TransportError, match="initialize"):
            await client.connect()
        assert client.closed


async def test_a_refused_handshake_closes_the_client() -> None:
    script = [Expect("initialize", error={"code": -32600, "message": "go away"})]
    async with ScriptedAppServer(script) as server:
        client = CodexClient(server.link)
        with pytest.raises(ErrorReply, match="go away"):
            await client.connect()
        assert client.closed


async def test_cancelling_the_handshake_closes_the_client() -> None:
    async with ScriptedAppServer([Silence()]) as server:
        client = CodexClient(server.link)
        with anyio.move_on_after(0.05) as scope:
            await client.connect()
        assert scope.cancelled_caught
        assert client.closed


async def test_params_that_are_optional_are_sent_as_an_empty_object() -> None:
    script = [*HELLO, Expect("thread/list", {"data": [], "nextCursor": None})]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        await codex.thread_list()
        assert server.player.received[-1]["params"] == {}


async def test_params_that_do_not_exist_are_left_out() -> None:
    script = [*HELLO, Expect("account/logout", {})]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        await codex.account_logout()
        assert "params" not in server.player.received[-1]


async def test_only_what_was_set_is_sent_and_the_result_is_typed() -> None:
    script = [*HELLO, Expect("thread/start")]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        started = await codex.thread_start(ThreadStartParams(cwd="/w", model=None))
        assert server.player.received[-1]["params"] == {"cwd": "/w", "model": None}
        assert started.thread.id == "thread-1"
        assert started.cwd == "/w"


async def test_an_error_of_the_server_is_an_error_reply() -> None:
    error = {"code": -32600, "message": "no such thread", "data": {"why": 1}}
    script = [*HELLO, Expect("thread/read", error=error)]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        with pytest.raises(ErrorReply) as caught:
            await codex.thread_read(ThreadReadParams(thread_id="x"))
        reply = caught.value
        assert (reply.method, reply.code, reply.data) == ("thread/read", -32600, {"why": 1})


async def test_a_result_that_does_not_fit_names_the_method_and_the_field() -> None:
    script = [*HELLO, Expect("thread/list", {"data": 7}), Expect("brand/new")]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        with pytest.raises(InvalidPayload, match="thread/list") as caught:
            await codex.thread_list()
        assert any(problem.startswith("data") for problem in caught.value.problems)
        assert await codex.call_raw("brand/new") == {}  # the connection lives on


async def test_a_call_that_no_json_can_carry_raises_at_once() -> None:
    """Codex cannot read the line, and would never answer."""
    async with ScriptedAppServer([*HELLO]) as server, CodexClient(server.link) as codex:
        for params in ({"cwd": "/caf\udce9"}, ThreadReadParams(thread_id="\udce9")):
            with pytest.raises(MisuseError, match="not Unicode"):
                await codex.call_raw("thread/start", params)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["\N{WAVING HAND SIGN}", "a \\ud83d in a text"])
def test_a_call_with_a_character_beyond_the_bmp_loads_no_model(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("codex_acp.wire.codec.encode")
    encoded = app_server_connection._params_of({"text": text}, None)
    assert encoded is not None
    assert json.loads(encoded) == {"text": text}


async def test_a_raw_call_takes_and_gives_plain_data() -> None:
    script = [*HELLO, Expect("brand/new", {"n": [1, None]})]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        params: dict[str, JsonValue] = {"a": None}
        assert await codex.call_raw("brand/new", params) == {"n": [1, None]}
        assert server.player.received[-1]["params"] == {"a": None}


async def test_calls_before_the_start_and_after_the_end_are_told_apart() -> None:
    async with ScriptedAppServer(HELLO) as server:
        client = CodexClient(server.link)
        with pytest.raises(MisuseError, match="not connected"):
            await client.thread_list()
        with pytest.raises(MisuseError, match="not connected"):
            _ = client.server
        await client.connect()
        with pytest.raises(MisuseError, match="once"):
            await client.connect()
        assert not client.closed
        await client.aclose()
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await client.thread_list()


async def test_the_end_of_the_server_fails_the_calls_in_flight() -> None:
    async with ScriptedAppServer([*HELLO, Silence()]) as server, CodexClient(server.link) as codex:

        async def call() -> None:
            with pytest.raises(ConnectionClosed):
                await codex.thread_list()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await server.wait_for_message("thread/list")
            server.link.peer.end_writing()
        assert codex.closed


async def test_a_client_that_was_never_started_can_be_closed() -> None:
    async with ScriptedAppServer() as server:
        client = CodexClient(server.link)
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await client.thread_list()


async def test_an_opened_thread_has_the_environments_that_codex_listed_last() -> None:
    listed: dict[str, JsonValue] = {"environments": [{"environmentId": "far"}]}
    script = [
        *HELLO,
        Expect("thread/start", result={"thread": {"id": "t"}}),
        Expect("thread/loaded/list", result={"data": []}),
        *(
            Notify("thread/settings/updated", {"threadId": thread, "threadSettings": settings})
            for thread, settings in (("t", listed), ("t", {}), ("another", listed), (None, None))
        ),
        Expect("thread/loaded/list", result={"data": []}),
    ]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        with anyio.fail_after(WAIT_SECONDS):
            for method in ("thread/start", "thread/loaded/list", "thread/loaded/list"):
                await codex.call_raw(method, {})
        assert dict(codex.opened_threads) == {"t": ("far",)}
