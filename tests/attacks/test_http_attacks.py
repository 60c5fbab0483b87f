"""What a stranger or another client may try against ``serve --listen http://…``.

What is the same for both profiles is tried in `test_network_attacks`: here is what HTTP adds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count, repeat
from pathlib import Path
from typing import Any

import anyio
import pytest
from h2.events import Event, StreamReset

from codex_acp.adapter.network.http_link import AcceptedHttpLink
from codex_acp.adapter.network.limits import Limits
from tests.attacks.raw_http import Http2, Raw
from tests.attacks.test_network_attacks import TOKENS
from tests.network.http_client import EVENTS, JSON, HttpClient
from tests.network.listening_adapter import WAIT
from tests.network.served import ALICE, BOB, Served, served, several_tokens, until
from tests.network.test_tls import CERTIFICATE

pytestmark = pytest.mark.attack("network")

Json = dict[str, Any]

NOTE: Json = {"jsonrpc": "2.0", "method": "x"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    limits = Limits(message_bytes=100_000)
    async with served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits) as running:
        yield running


async def works(server: Served, token: str = ALICE) -> None:
    """A well-behaved client is served."""
    async with server.over_http(token) as client:
        await still_works(server, client)


async def still_works(server: Served, client: HttpClient) -> None:
    """One that is connected is, still."""
    session = await client.new_session(server.cwd)
    ended = await client.outcome(await client.prompt(session, "hello"))
    assert ended["result"]["stopReason"] == "end_turn"


def head(method: str, server: Served, **headers: str) -> str:
    """The head of a request over HTTP/1.1 with a good token."""
    lines = {"Host": f"127.0.0.1:{server.port}", "Authorization": f"Bearer {ALICE}", **headers}
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"{method} /acp HTTP/1.1\r\n{text}\r\n"


async def test_every_request_needs_a_good_token(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.over_http(ALICE) as alice:
        named = {"acp-connection-id": alice.connection}
        for token in TOKENS.values():
            bearer = {} if token is None else {"authorization": f"Bearer {token}"}
            async with HttpClient(server.url, None, initialize=False) as stranger:
                for method, headers in (("POST", JSON), ("GET", EVENTS), ("DELETE", {})):
                    got = await stranger.bare(method, {**named, **headers, **bearer})
                    assert got.status_code == 401, (method, token)
                    assert got.headers["www-authenticate"] == 'Bearer realm="acp"'
        await still_works(server, alice)
    assert ALICE not in caplog.text
    assert any("401" in each.message for each in caplog.records)


async def test_a_connection_is_its_owners_alone(server: Served) -> None:
    async with server.over_http(ALICE) as alice, server.over_http(BOB) as bob:
        session = await alice.new_session(server.cwd)
        running = await alice.prompt(session, "ask")
        asked = await alice.question()
        allow = {"outcome": {"outcome": "selected", "optionId": "p1:allow"}}
        named = {"acp-connection-id": alice.connection, "acp-session-id": session}
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": allow})
        theirs = [
            await bob.bare("POST", {**JSON, **named}, answer),
            await bob.bare("GET", {**EVENTS, **named}),
            await bob.bare("DELETE", named),
        ]
        nobodys = [
            await bob.bare("POST", {**JSON, **named, "acp-connection-id": "f" * 32}, answer),
            await bob.bare("GET", {**EVENTS, **named, "acp-connection-id": "f" * 32}),
            await bob.bare("DELETE", {**named, "acp-connection-id": "f" * 32}),
        ]
        assert [each.status_code for each in theirs] == [404, 404, 404]
        assert [each.text for each in theirs] == [each.text for each in nobodys]
        assert server.decisions() == []
        await alice.choose(asked, "reject_once")
        await alice.outcome(running)
        assert '"decline"' in server.decisions()[-1]


async def test_pages_and_names_that_were_bound_to_this_machine(server: Served) -> None:
    async with server.over_http(ALICE) as alice:
        named = {"acp-connection-id": alice.connection}
        for wrong in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"host": "evil.example"},
        ):
            for method, headers in (("POST", JSON), ("GET", EVENTS), ("DELETE", {})):
                got = await alice.bare(method, {**named, **headers, **wrong})
                assert got.status_code == 403, (method, wrong)
        assert await alice.ask("session/list", {})


async def test_a_token_that_is_taken_away_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.connection.WATCH_SECONDS", 0.01)
    limits = Limits(initialize_seconds=0.5)
    running = served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits)
    async with running as server, server.over_http(BOB) as bob, server.over_http(ALICE) as alice:
        server.token_file.write_text(f"alice {ALICE}\n")
        assert (await bob.post(NOTE)).status_code == 401
        await bob.ended()
        await still_works(server, alice)


# What is sent.


async def test_bodies_that_are_too_large_or_too_slow(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.over_http(ALICE) as alice, server.over_http(ALICE, http2=False) as old:
        large = json.dumps({**NOTE, "params": {"x": "x" * 100_000}})
        for client in (alice, old):
            named = {**JSON, "acp-connection-id": client.connection}
            assert (await client.bare("POST", named, large)).status_code == 413
            assert (await client.bare("POST", named, json.dumps(NOTE))).status_code == 202
        monkeypatch.setattr("codex_acp.adapter.network.http_app.BODY_SECONDS", 0.2)
        async with Raw(server.port) as slow:
            headers = {"Content_Type": "application/json", "Acp_Connection_Id": alice.connection}
            await slow.send(head("POST", server, Content_Length="1000", **headers) + "{")
            assert await slow.status() == 408
            await slow.ended()
        async with Raw(server.port) as endless:
            await endless.send(head("POST", server, Transfer_Encoding="chunked", **headers))
            await endless.send_until_cut(repeat(b"2000\r\n" + b" " * 0x2000 + b"\r\n"))
        for client in (alice, old):
            await still_works(server, client)


async def test_bodies_of_one_owner_at_once(tmp_path: Path) -> None:
    limits = Limits(message_bytes=10_000)
    running = served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits)
    async with running as server, server.over_http(ALICE) as alice, Http2(server.port) as many:
        headers = {
            **JSON,
            "authorization": f"Bearer {ALICE}",
            "acp-connection-id": alice.connection,
        }
        for _ in range(4):
            stream = many.request("POST", headers, ends=False)
            many.frames.send_data(stream, b" " * 6_000)  # below the limit, each
        await many.flush()
        answered: list[Any] = []
        while not answered:
            found = await many.events()
            assert found
            answered = [each.headers for each in found if hasattr(each, "headers")]
        assert (b":status", b"429") in answered[0]
        await works(server, BOB)


async def test_bodies_that_wait_for_a_connection_whose_answers_are_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: list[AcceptedHttpLink] = []

    class Kept(AcceptedHttpLink):
        def __init__(self, name: str, **more: Any) -> None:
            super().__init__(name, **more)
            links.append(self)

    monkeypatch.setattr("codex_acp.adapter.network.http_app.AcceptedHttpLink", Kept)
    limits = Limits(message_bytes=10_000, stall_seconds=2.0)
    running = served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits)
    async with running as server, server.over_http(ALICE) as alice:
        links[0].pause_reading()
        body = json.dumps({**NOTE, "params": {"a": "b" * 9_000}})
        posts = (alice.raw("POST", headers=JSON, content=body) for _ in range(4))
        answered = await asyncio.gather(*posts)
        assert [each.status_code for each in answered] == [429] * 4
        assert sum("unread" in each.text for each in answered) == 2, "the bodies that may wait"
        links[0].resume_reading()
        await still_works(server, alice)


async def test_heads_that_never_end(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.access_control.HANDSHAKE_SECONDS", 0.3)
    for begun in (
        "GET /acp HTTP/1.1\r\nHost:",
        "G",
        "POST /acp HTTP/1.1\r\nA: b\r\n",
        "PRI * HTTP/2",
    ):
        async with Raw(server.port) as slow:
            await slow.send(begun)
            await slow.ended()
    for method in ("GET", "POST"):
        async with Raw(server.port) as flood:
            await flood.send(f"{method} /acp HTTP/1.1\r\n")
            await flood.send_until_cut(f"X-{n}: {'x' * 1000}\r\n".encode() for n in count())
    async with Raw(server.port) as silent:
        await silent.ended()
    await works(server)


async def test_requests_in_which_two_could_be_read(server: Served) -> None:
    smuggled = "DELETE /acp HTTP/1.1\r\n\r\n"
    for headers in (
        {"Content_Length": "5", "Transfer_Encoding": "chunked"},
        {"Content_Length": "5, 6"},
        {"Transfer_Encoding": "chunked, identity"},
        {"Content_Length": "+5"},
    ):
        async with Raw(server.port) as raw:
            await raw.send(head("POST", server, **headers) + "0\r\n\r\n" + smuggled)
            assert await raw.status() in (400, 501)
            await raw.ended()
    await works(server)


async def test_a_websocket_behind_another_request(server: Served) -> None:
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    async with Raw(server.port) as raw:
        await raw.send(head("DELETE", server))
        assert await raw.status() == 400
        await raw.send(head("GET", server, **upgrade))
        await raw.ended()  # so that whoever is in front tries it on a connection of its own
    async with Raw(server.port) as raw:
        await raw.send(head("GET", server, **upgrade))
        assert await raw.status() == 101


# Those who hold something up.


async def test_a_stranger_who_goes_on_is_cut_off(server: Served) -> None:
    async with Raw(server.port) as stranger:
        statuses = []
        for _ in range(30):
            await stranger.send("DELETE /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            statuses.append(await stranger.status())
            if not statuses[-1]:
                break
            while (await stranger.reader.readline()).strip():
                pass
            await stranger.reader.readline()
        assert set(statuses[:-1]) == {401}
        assert statuses[-1] == 0
    await works(server)


async def test_a_reader_who_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their connection ends, and what it was asked is asked of whoever comes next."""
    monkeypatch.setattr("hypercorn.protocol.h2.BUFFER_HIGH_WATER", 1)  # takes 32 KiB for a client
    limits = Limits(stall_seconds=1.0, keep_seconds=600)
    async with served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits) as server:
        async with server.over_http(ALICE) as alice:
            session = await alice.new_session(server.cwd)
            await alice.prompt(session, "ask")
            await alice.question()
            alice.streams.pop(session).cancel()
            await anyio.sleep(0.1)
            headers = {"authorization": f"Bearer {ALICE}", "acp-connection-id": alice.connection}
            async with Http2(server.port) as stuck:
                stuck.frames.update_settings({4: 0})  # a window of nothing for each stream
                await stuck.flush()
                stuck.request("GET", {**headers, **EVENTS, "acp-session-id": session})
                await stuck.flush()
                await alice.ended()
                found: list[Event] = []
                while not any(isinstance(each, StreamReset) for each in found):
                    found = await stuck.events()
                    assert found, "the connection was cut off"
        async with server.over_http(ALICE) as alice:
            where = {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}
            await alice.ask("session/load", where)
            await alice.choose(await alice.question(), "allow_once")
            await until(server.decisions)
            assert '"accept"' in server.decisions()[-1]


async def test_more_streams_than_a_connection_may_have(tmp_path: Path) -> None:
    running = served(tmp_path, scheme="http", limits=Limits(streams=2))
    async with running as server, server.over_http() as client:
        await client.listen("one")
        got = await client.raw("GET", headers={**EVENTS, "acp-session-id": "two"})
        assert got.status_code == 429


# Owners, on either profile.


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_one_owner_cannot_use_up_what_others_may_have(tmp_path: Path, scheme: str) -> None:
    limits = Limits(connections=4, sessions=6, keep_seconds=600, burst=100, sockets=40)
    running = served(tmp_path, scheme=scheme, tokens=several_tokens(), limits=limits)
    async with running as server:
        if scheme == "http":
            connect: Any = server.over_http
        else:
            connect = server.connect
        async with connect(BOB) as bob:
            kept = await bob.new_session(server.cwd)
        async with connect(ALICE) as one, connect(ALICE) as two:
            with pytest.raises(Exception, match="503"):
                async with connect(ALICE):
                    pass
            # All at once: what is being opened counts, too.
            asked = {"cwd": str(server.cwd), "mcpServers": []}
            started = [await one.start("session/new", asked) for _ in range(5)]
            answers = [await one.outcome(each) for each in started]
            errors = [each["error"]["message"] for each in answers if "error" in each]
            assert len(errors) == 2
            assert "3 sessions of yours are open" in errors[0]
            await two.refused("session/new", asked)
            async with connect(BOB) as bob, connect(BOB) as also:
                where = {"sessionId": kept, "cwd": str(server.cwd), "mcpServers": []}
                await bob.ask("session/resume", where)  # it was not ended to make room
                await also.new_session(server.cwd)
                await also.new_session(server.cwd)


async def test_one_owner_who_comes_too_often_holds_up_no_other(tmp_path: Path) -> None:
    limits = Limits(burst=2, new_connections=0.0)
    running = served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits)
    async with running as server, server.over_http(ALICE), server.over_http(ALICE):
        with pytest.raises(AssertionError, match="429"):
            async with server.over_http(ALICE):
                pass
        await works(server, BOB)


async def test_an_owner_has_a_share_of_tcp_connections(tmp_path: Path) -> None:
    limits = Limits(sockets=4)
    async with served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits) as server:
        async with Raw(server.port) as one, Raw(server.port) as two, Raw(server.port) as three:
            statuses = []
            for raw in (one, two, three):
                await raw.send(head("DELETE", server))
                statuses.append(await raw.status())
            assert statuses == [400, 400, 503]
        # Those that have ended do not count any more.
        with anyio.fail_after(WAIT):
            while statuses[-1] == 503:
                async with Raw(server.port) as raw:
                    await raw.send(head("DELETE", server))
                    statuses.append(await raw.status())
        async with HttpClient(server.url, BOB, initialize=False) as bob:
            assert (await bob.bare("DELETE")).status_code == 400


@pytest.mark.parametrize("scheme", ["http", "https", "wss"])
async def test_strangers_that_say_nothing_push_out_their_own(tmp_path: Path, scheme: str) -> None:
    certificate = None if scheme == "http" else CERTIFICATE
    limits = Limits(handshakes=3)
    running = served(tmp_path, scheme=scheme, limits=limits, certificate=certificate)
    async with running as server, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(Raw(server.port)) for _ in range(6)]
        for each in silent[:3]:
            await each.ended()
        trusting = {} if certificate is None else {"cafile": certificate}
        if scheme == "wss":
            trust = ssl.create_default_context(cafile=certificate)
            async with server.connect(ssl=trust) as websocket:
                assert await websocket.ask("session/list", {})
        else:
            async with server.over_http(**trusting) as client:
                await still_works(server, client)


async def test_what_a_stranger_sends_stands_in_no_log(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "codex_acp")
    for sent in ("GET /\xff\x00 HTTP/9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nnonsense-of-mine" * 50):
        async with Raw(server.port) as raw:
            await raw.send(sent.encode("latin-1"))
            await raw.ended()
    assert "Traceback" not in caplog.text
    assert "nonsense" not in caplog.text
    await works(server)
