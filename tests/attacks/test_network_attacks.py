"""What a stranger or another client on the network may try against ``serve --listen``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from codex_acp.adapter.network.limits import Limits
from codex_acp.transport import websocket
from tests.network.listening_adapter import TOKEN, WAIT, JsonClient
from tests.network.served import ALICE, BOB, Served, served, several_tokens, until

pytestmark = pytest.mark.attack("network")

Json = dict[str, Any]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, tokens=several_tokens()) as running:
        yield running


async def works(server: Served, token: str = ALICE) -> None:
    """A well-behaved client is served."""
    async with server.connect(token) as client:
        session = await client.new_session(server.cwd)
        ended = await client.outcome(await client.prompt(session, "hello"))
        assert ended["result"]["stopReason"] == "end_turn"


async def refusal(server: Served, token: str | None = None, **more: Any) -> int:
    """The status with which somebody is refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with server.connect(token, **more):
            pass
    status: int = caught.value.response.status_code
    return status


TOKENS = {
    "none": None,
    "a wrong one": "x" * 24,
    "an expired one": "expired-token-of-bob",
    "the beginning of one": ALICE[:-1],
    "one and more": ALICE + "x",
    "an owner's name": "alice",
    "an empty one": "",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
async def test_a_client_whose_token_is(
    server: Served, token: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert await refusal(server, token) == 401
    (record,) = [r for r in caplog.records if "refused" in r.message]
    assert record.levelno == logging.WARNING
    assert ALICE[:6] not in caplog.text
    assert token is None or len(token) < 16 or token not in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Basic {ALICE}"},
        {"Authorization": ALICE},
        {"X-Token": ALICE},
        {"Cookie": f"token={ALICE}"},
    ],
    ids=["as another scheme", "without a scheme", "in another header", "in a cookie"],
)
async def test_a_token_that_is_shown(server: Served, headers: dict[str, str]) -> None:
    assert await refusal(server, None, headers=headers) == 401


async def test_a_token_in_the_address(server: Served) -> None:
    server.url += f"?token={ALICE}"
    assert await refusal(server, None) == 401


async def test_a_page_of_another_origin(server: Served) -> None:
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port}"):
        assert await refusal(server, ALICE, headers={"Origin": origin}) == 403


async def test_a_name_that_was_bound_to_this_machine(server: Served) -> None:
    names = ("evil.example", f"evil.example:{server.port}", "localhost.evil.example", "")
    for host in (*names, "[::1].evil.example", "[::1]evil.example:80", "127.0.0.1.evil.example"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"GET /acp HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Authorization: Bearer {ALICE}\r\n\r\n".encode()
        )
        with anyio.fail_after(WAIT):
            assert b" 403 " in await reader.readline()
        writer.close()


async def test_an_origin_and_a_host_that_were_allowed(tmp_path: Path) -> None:
    options: Json = {"origins": ("https://ide.example",), "hosts": ("agent.example",)}
    async with served(tmp_path, **options) as server:
        async with server.connect(headers={"Origin": "https://ide.example"}) as client:
            assert client.initialized["protocolVersion"] == 1
        assert await refusal(server, TOKEN, headers={"Origin": "https://ide.example.evil"}) == 403


async def test_another_path(server: Served) -> None:
    server.url = server.url.replace("/acp", "/")
    assert await refusal(server, ALICE) == 404


async def test_a_token_that_is_taken_away_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.connection.WATCH_SECONDS", 0.01)
    limits = Limits(initialize_seconds=2.0)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as server:
        async with server.connect(BOB) as bob, server.connect(ALICE) as alice:
            server.token_file.write_text(f"alice {ALICE}\n")
            await bob.ended()
            assert bob.closed is not None
            assert "no longer good" in str(bob.closed)
            assert await alice.ask("session/list", {})
        assert await refusal(server, BOB) == 401


async def test_a_token_file_that_others_can_read_lets_nobody_in(server: Served) -> None:
    server.token_file.chmod(0o644)
    assert await refusal(server, ALICE) == 401


# Sessions of others.


def params_of(method: str, session: str, cwd: str) -> Json:
    """What a method is asked with."""
    more: dict[str, Json] = {
        "session/prompt": {"prompt": [{"type": "text", "text": "hello"}]},
        "session/load": {"cwd": cwd, "mcpServers": []},
        "session/resume": {"cwd": cwd, "mcpServers": []},
        "session/fork": {"cwd": cwd, "mcpServers": []},
        "session/set_mode": {"modeId": "read-only"},
        "session/set_config_option": {"configId": "model", "value": "x"},
        "session/set_title": {"title": "mine"},
    }
    return {"sessionId": session, **more.get(method, {})}


OF_A_SESSION = (
    "session/prompt", "session/load", "session/resume", "session/fork", "session/set_mode",
    "session/set_config_option", "session/set_title", "session/close", "session/delete",
    "session/archive", "session/unarchive", "session/status",
)  # fmt: skip


async def test_nothing_of_a_session_can_be_had_with_anothers_token(server: Served) -> None:
    async with server.connect(ALICE) as alice, server.connect(BOB) as bob:
        session = await alice.new_session(server.cwd)
        running = await alice.prompt(session, "ask")
        asked = await alice.question()
        cwd = str(server.cwd)
        for method in OF_A_SESSION:
            theirs = await bob.refused(method, params_of(method, session, cwd))
            none = "00000000-0000-7000-8000-00000000ffff"
            nobodys = await bob.refused(method, params_of(method, none, cwd))
            assert theirs["code"] == nobodys["code"] == -32002, method
            assert theirs["message"].replace(session, "") == nobodys["message"].replace(none, "")
        await bob.send({"method": "session/cancel", "params": {"sessionId": session}})
        await bob.reply(asked, {"outcome": {"outcome": "selected", "optionId": "allow"}})
        assert (await bob.ask("session/list", {}))["sessions"] == []
        await alice.choose(asked, "reject_once")
        assert (await alice.outcome(running))["result"]["stopReason"] == "end_turn"
        assert alice.withdrawn == []
        assert bob.updates == bob.asked == []
        assert '"decline"' in server.decisions()[-1]


async def test_nothing_of_a_session_can_be_had_with_anothers_token_in_v2(server: Served) -> None:
    more: dict[str, Json] = {
        "session/prompt": {"prompt": [{"type": "text", "text": "hello"}]},
        "session/resume": {"cwd": str(server.cwd), "replayFrom": {"type": "start"}},
        "session/fork": {"cwd": str(server.cwd)},
        "session/set_config_option": {"configId": "mode", "type": "id", "value": "x"},
        "session/set_title": {"title": "mine"},
        "session/delete": {},
        "session/archive": {},
        "session/unarchive": {},
        "session/status": {},
        "tool_call/cancel": {"toolCallId": "x"},
        "terminal/cancel": {"terminalId": "x"},
    }
    async with server.connect(ALICE, version=2) as alice, server.connect(BOB, version=2) as bob:
        session = (await alice.ask("session/new", {"cwd": str(server.cwd)}))["sessionId"]
        prompt = {"prompt": [{"type": "text", "text": "ask"}]}
        await alice.ask("session/prompt", {"sessionId": session, **prompt})
        asked = await alice.question()
        for method, params in more.items():
            for spelled in (session, session.upper(), session.replace("-", "")):
                theirs = await bob.refused(method, {**params, "sessionId": spelled})
                none = "00000000-0000-7000-8000-00000000ffff"
                nobodys = await bob.refused(method, {**params, "sessionId": none})
                assert theirs["code"] == nobodys["code"] == -32002, method
        for there in (session, none):  # what is not there for him is as closed as it can be
            assert await bob.ask("session/close", {"sessionId": there}) == {}
        assert (await bob.ask("session/list", {}))["sessions"] == []
        await bob.send({"method": "session/cancel", "params": {"sessionId": session}})
        chosen = asked["params"]["options"][0]["optionId"]
        await bob.reply(asked, {"outcome": {"outcome": "selected", "optionId": chosen}})
        await alice.choose(asked, "reject_once")
        await until(server.decisions)
        assert alice.withdrawn == []
        assert bob.updates == bob.asked == []
        assert '"decline"' in server.decisions()[-1]


async def test_a_session_belongs_to_one_connection_of_its_owner(server: Served) -> None:
    async with server.connect(ALICE) as one, server.connect(ALICE) as two:
        session = await one.new_session(server.cwd)
        running = await one.prompt(session, "wait")
        for method in ("session/prompt", "session/close", "session/set_mode", "session/delete"):
            error = await two.refused(method, params_of(method, session, str(server.cwd)))
            assert "on another connection" in error["message"], method
        await two.send({"method": "session/cancel", "params": {"sessionId": session}})
        await two.ask("session/list", {})
        assert running not in one.answers
        await one.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert (await one.outcome(running))["result"]["stopReason"] == "cancelled"
        assert two.updates == []


async def test_what_is_open_is_settled_when_its_connection_is_lost(server: Served) -> None:
    async with server.connect(ALICE) as client:
        session = await client.new_session(server.cwd)
        await client.prompt(session, "ask")
        await client.question()
        await client.break_off()
    await until(server.decisions)
    assert not any('"accept"' in line for line in server.decisions())
    await works(server)


# What is sent.


async def others_go_on(server: Served, hostile: JsonClient) -> None:
    """The hostile connection is ended, and it alone."""
    await hostile.ended()
    await works(server)


async def test_a_message_above_the_limit(tmp_path: Path) -> None:
    limits = Limits(message_bytes=10_000)
    running = served(tmp_path, tokens=several_tokens(), limits=limits)
    async with running as server, server.connect(ALICE) as client:
        await client.start("session/list", {"cursor": "x" * 20_000})
        await others_go_on(server, client)
        assert "1009" in str(client.closed)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_message_of_very_many_lists(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_acp.transport.json_decoding.MAX_BRACKETS", 1_000)
    running = served(tmp_path, scheme=scheme, tokens=several_tokens())
    async with running as server:
        connect: Any = server.connect if scheme == "ws" else server.over_http
        async with connect(ALICE) as client:
            if scheme == "ws":
                answer = await client.outcome(await client.start("x", {"a": [[]] * 1_000}))
                assert answer["error"]["code"] == -32700
                assert "TooManyBrackets" in answer["error"]["message"]
            else:
                with pytest.raises(AssertionError, match=r"400 .*brackets"):
                    await client.start("x", {"a": [[]] * 1_000})
            session = await client.new_session(server.cwd)
            ended = await client.outcome(await client.prompt(session, "hello"))
            assert ended["result"]["stopReason"] == "end_turn"


async def test_fragments_without_end(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_FRAGMENTS", 256)

    async def empty() -> AsyncIterator[str]:
        while True:
            await anyio.sleep(0.0001)  # the server is in this loop, too
            yield ""

    async with server.connect(ALICE) as client:
        with pytest.raises(Exception, match="1008"):
            await client.socket.send(empty())
        await others_go_on(server, client)


@pytest.mark.parametrize("kind", ["ping", "text", "binary"])
async def test_small_frames_without_end(
    server: Served, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.websockets.SMALL_FRAMES_AT_ONCE", 200)
    async with server.connect(BOB) as bob, server.connect(ALICE) as client:
        send: dict[str, Callable[[], Awaitable[object]]] = {
            "ping": client.socket.ping,
            "text": lambda: client.socket.send(""),
            "binary": lambda: client.socket.send(b"x"),
        }

        async def flood() -> None:
            while True:
                await send[kind]()
                await anyio.lowlevel.checkpoint()

        with pytest.raises(ConnectionClosed), anyio.fail_after(WAIT):
            await flood()
        assert "too many frames" in caplog.text
        assert await bob.ask("session/list", {})


async def test_only_small_frames_are_counted(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.websockets.SMALL_FRAMES_AT_ONCE", 20)
    monkeypatch.setattr("codex_acp.adapter.network.websockets.SMALL_FRAMES_PER_SECOND", 0.0)
    async with server.connect(ALICE) as client:
        for size in (1_024, 70_000) * 20:
            await client.socket.send(" " * size)
        await client.socket.send([" "] * 10)
        assert await client.ask("session/list", {})
        await client.socket.send([" "] * 100)
        with anyio.fail_after(WAIT):
            await client.socket.wait_closed()


async def test_odd_frames_are_answered_or_ignored(server: Served) -> None:
    async with server.connect(ALICE) as client:
        await client.socket.send(b'{"jsonrpc":"2.0","id":77,"method":"session/list","params":{}}')
        await client.socket.send("")
        await client.socket.send("\n\r\n")
        await client.socket.send("[" + '{"jsonrpc":"2.0","id":78,"method":"session/list"}' + "]")
        await client.socket.send("no json")
        parts = ['{"jsonrpc":"2.0","id":79,', '"method":"session/list",', '"params":{}}']
        await client.socket.send(parts)
        assert "result" in await client.outcome(79)
        assert 77 not in client.answers
        assert 78 not in client.answers
        errors = [each["error"]["code"] for each in client.received if "error" in each]
        assert sorted(errors) == [-32700, -32600]
    await works(server)


async def test_text_that_is_no_utf_8(server: Served) -> None:
    async with server.connect(ALICE) as client:
        await client.socket.send(b"\xff\xfe", text=True)
        await others_go_on(server, client)


async def test_a_request_before_initialize(server: Served) -> None:
    async with server.connect(ALICE, initialize=False) as client:
        error = await client.refused("session/list", {})
        assert error["code"] == -32600


# Those who hold something up.


async def test_a_connection_that_never_initializes_is_ended(tmp_path: Path) -> None:
    limits = Limits(initialize_seconds=0.05)
    async with served(tmp_path, limits=limits) as server:
        async with server.connect(initialize=False) as client:
            await client.ended()
            assert "has not sent initialize" in str(client.closed)
        await works(server, TOKEN)


async def test_a_connection_that_is_dead_is_found_out(tmp_path: Path) -> None:
    limits = Limits(ping_seconds=0.2)
    async with served(tmp_path, limits=limits) as server:
        async with server.connect() as client:
            client.socket.transport.pause_reading()  # so that no pong is ever sent
            await anyio.sleep(0.5)
            client.socket.transport.resume_reading()
            await client.ended()
        async with server.connect() as alive:
            await anyio.sleep(0.5)
            assert await alive.ask("session/list", {})


async def test_more_connections_than_there_may_be(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(connections=2)) as server:
        async with server.connect(), server.connect():
            assert await refusal(server, TOKEN) == 503
        await works(server, TOKEN)


async def test_connections_faster_than_they_may_come(tmp_path: Path) -> None:
    limits = Limits(burst=2, new_connections=0.0)
    async with served(tmp_path, limits=limits) as server, server.connect(), server.connect():
        assert await refusal(server, TOKEN) == 429


async def test_strangers_that_say_nothing_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(handshakes=3)) as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in silent]
        await until(lambda: sum(end.done() for end in ends) >= 3)
        for (_, writer), end in zip(silent, ends, strict=True):
            writer.close()
            end.cancel()
        await asyncio.wait(ends)
        await works(server, TOKEN)


async def test_more_sessions_than_there_may_be(tmp_path: Path) -> None:
    running = served(tmp_path, limits=Limits(sessions=2))
    async with running as server, server.connect() as client:
        first = await client.new_session(server.cwd)
        await client.new_session(server.cwd)
        error = await client.refused("session/new", {"cwd": str(server.cwd), "mcpServers": []})
        assert "sessions are open" in error["message"]
        await client.ask("session/close", {"sessionId": first})
        await client.new_session(server.cwd)
