"""The server over streamable HTTP: what is answered how, and in which stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from h2.frame_buffer import FrameBuffer
from websockets.protocol import Protocol

from codex_acp.adapter.network import http_server, websockets
from codex_acp.adapter.network.limits import Limits
from codex_acp.errors import MisuseError
from tests.network.http_client import EVENTS, JSON, HttpClient
from tests.network.listening_adapter import WAIT
from tests.network.served import ALICE, BOB, Served, served, several_tokens, until

Json = dict[str, Any]

FORMS: Json = {"elicitation": {"form": {}}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    limits = Limits(keep_seconds=600)
    async with served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits) as running:
        yield running


def where(server: Served, session: str) -> Json:
    return {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}


async def test_who_offers_to_upgrade_to_http_2_is_answered_in_http_1(server: Served) -> None:
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": ""}
    async with server.over_http(ALICE, http2=False) as client:
        response = await client.raw("GET", headers={**EVENTS, **upgrade})
        assert response.status_code == 409, "the client reads the stream already"


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
async def test_each_answer_has_its_stream(server: Served, http2: bool) -> None:
    async with server.over_http(ALICE, http2=http2, capabilities=FORMS) as client:
        assert client.version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert len(client.connection) == 32
        session = await client.new_session(server.cwd)
        said = await client.prompt(session, "hello")
        assert (await client.outcome(said))["result"]["stopReason"] == "end_turn"
        assert client.text(session) == "Hello."
        allowed = await client.prompt(session, "ask")
        await client.choose(await client.question(), "allow_once")
        await client.outcome(allowed)
        filled = await client.prompt(session, "form")
        form = await client.question(2)
        await client.reply(form, {"action": "cancel"})
        await client.outcome(filled)
        stopped = await client.prompt(session, "wait")
        await client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert (await client.outcome(stopped))["result"]["stopReason"] == "cancelled"
        loaded = await client.start("session/load", where(server, session))
        assert "result" in await client.outcome(loaded)
        assert [client.where(each) for each in (said, allowed, filled, stopped)] == [session] * 4
        assert client.where(loaded) is None
        assert client.where(2) is None  # that of session/new
        for stream, message in client.came:
            assert stream == message.get("params", {}).get("sessionId", stream)
        assert set(client.statuses[1:]) == {200, 202}
    async with server.connect(ALICE) as websocket:  # the other profile, at the same address
        await websocket.ask("session/load", where(server, session))
        ended = await websocket.outcome(await websocket.prompt(session, "hello"))
        assert ended["result"]["stopReason"] == "end_turn"


async def test_version_2_of_acp(server: Served) -> None:
    async with server.over_http(ALICE, version=2) as client:
        session = (await client.ask("session/new", {"cwd": str(server.cwd)}))["sessionId"]
        prompt: Json = {"sessionId": session, "prompt": [{"type": "text", "text": "ask"}]}
        await client.ask("session/prompt", prompt)
        asked = await client.question()
        option = asked["params"]["options"][0]["optionId"]
        await client.reply(asked, {"outcome": {"outcome": "selected", "optionId": option}})
        await client.until(lambda: "Heard." in json.dumps(client.updates))
        replay = {"replayFrom": {"type": "start"}}
        await client.ask("session/resume", {**where(server, session), **replay})
        assert {stream for stream, message in client.came if "method" in message} == {session}


async def test_what_is_not_taken(server: Served) -> None:
    note = {"jsonrpc": "2.0", "method": "x"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    prompt = {"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": {"sessionId": "s"}}
    other = {"acp-session-id": "another"}
    none = {"acp-connection-id": "0" * 32}
    two = [("acp-connection-id", "a"), ("acp-connection-id", "b")]
    async with server.over_http(ALICE) as client:
        known = {"acp-connection-id": client.connection}
        expected: list[tuple[str, Json | list[tuple[str, str]], Any, int]] = [
            ("POST", {"content-type": "text/plain"}, note, 415),
            ("POST", {}, note, 415),
            ("POST", {**JSON, **known, "content-encoding": "gzip"}, note, 415),
            ("POST", {**JSON, **known}, [note], 501),
            ("POST", {**JSON, **known}, "text", 400),
            ("POST", {**JSON, **known}, None, 400),
            ("POST", JSON, note, 400),
            ("POST", {**JSON, **none}, note, 404),
            ("POST", [*JSON.items(), *two], note, 400),
            ("POST", {**JSON, **known}, begin, 400),
            ("POST", JSON, {**begin, "id": None}, 400),
            ("POST", JSON, {**begin, "params": {"protocolVersion": "x"}}, 400),
            ("POST", {**JSON, **known}, prompt, 400),
            ("POST", {**JSON, **known, **other}, prompt, 400),
            ("POST", {**JSON, **known, "acp-session-id": "x" * 257}, note, 400),
            (
                "POST",
                {**JSON, **known, "content-type": "APPLICATION/json; charset=utf-8"},
                note,
                202,
            ),
            ("GET", {"accept": "application/json", **known}, None, 406),
            ("GET", EVENTS, None, 400),
            ("GET", {**EVENTS, **none}, None, 404),
            ("GET", {**EVENTS, **known}, None, 409),
            ("GET", {**EVENTS, **known, **other}, None, 404),
            ("DELETE", {}, None, 400),
            ("DELETE", none, None, 404),
            ("PUT", known, None, 405),
            ("OPTIONS", known, None, 405),
        ]
        for method, headers, content, status in expected:
            body = "no json" if content is None else json.dumps(content)
            if method == "POST":
                got = await client.bare(method, headers, body)
            else:
                got = await client.bare(method, headers)
            assert got.status_code == status, (method, headers, content, got.text)
        assert await client.ask("session/list", {})
        assert (await client.bare("DELETE", known)).status_code == 202
        assert (await client.bare("DELETE", known)).status_code == 404
        with anyio.fail_after(WAIT):
            await client.streams[None]


async def test_what_is_for_a_stream_that_nobody_reads_waits(server: Served) -> None:
    async with server.over_http(ALICE) as client:
        session = await client.new_session(server.cwd)
        running = await client.prompt(session, "ask")
        asked = await client.question()
        client.streams.pop(session).cancel()  # it broke
        await client.send({"id": 99, "method": "session/list", "params": {}})
        await client.outcome(99)

        # A question that was not answered comes again, since nobody knows what has arrived.
        await client.listen(session)
        assert await client.question(2) == asked
        await client.choose(asked, "allow_once")
        assert (await client.outcome(running))["result"]["stopReason"] == "end_turn"
        assert client.text(session) == "Heard."
        await client.choose(asked, "reject_once")  # late, of the second
        await client.ask("session/list", {})
        assert len(server.decisions()) == 1
        assert len(client.asked) == 2


async def test_a_session_goes_on_without_its_connection(server: Served) -> None:
    async with server.over_http(ALICE) as client:
        session = await client.new_session(server.cwd)
        await client.prompt(session, "ask")
        asked = await client.question()
        lost = client.connection
        await client.break_off()
    # The server does not know that the connection is lost: another takes the session over.
    async with server.over_http(ALICE, http2=False) as client:
        answer = await client.ask("session/load", where(server, session))
        assert answer["_meta"]["codex-acp-sdk"] == {"running": True, "questions": 1}
        again = await client.question()
        assert again["params"] == asked["params"]
        client.connection, mine = lost, client.connection
        late = {"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "x"}}}
        assert (await client.post({"jsonrpc": "2.0", **late})).status_code == 202
        client.connection = mine
        assert server.decisions() == []
        await client.choose(again, "allow_once")
        await client.until(lambda: "Heard." in client.text(session))
    # Ended by its client: the session is kept, as it is for a websocket that is closed.
    async with server.connect(ALICE) as websocket:
        await websocket.ask("session/resume", where(server, session))
        ended = await websocket.outcome(await websocket.prompt(session, "hello"))
        assert ended["result"]["stopReason"] == "end_turn"
    assert len([line for line in server.decisions() if '"accept"' in line]) == 1


async def test_a_client_that_names_no_session_hears_of_it_on_its_connection(server: Served) -> None:
    """The Python SDK's opens the stream of a session when it hears of it, and names none before."""
    async with server.over_http(ALICE) as client:
        session = await client.new_session(server.cwd)
        await client.prompt(session, "ask")
        await client.question()
        await client.break_off()
    async with server.over_http(ALICE) as client:
        load = {"jsonrpc": "2.0", "id": 7, "method": "session/load"}
        await client.post({**load, "params": where(server, session)})
        await client.outcome(7)
        again = await client.question()
        assert {stream for stream, _ in client.came} == {None}
        await client.listen(session)
        await client.choose(again, "reject_once")
        await client.until(lambda: "Heard." in client.text(session))
        heard = [stream for stream, message in client.came if "Heard." in json.dumps(message)]
        assert heard == [session]


async def test_a_page_of_an_origin_that_was_allowed(tmp_path: Path) -> None:
    page = {"origin": "https://ide.example"}
    asks = {**page, "access-control-request-method": "POST"}
    async with served(tmp_path, scheme="http", origins=(page["origin"],)) as server:
        async with server.over_http(headers=page) as client:
            session = await client.new_session(server.cwd)
            await client.outcome(await client.prompt(session, "hello"))
            got = await client.bare("OPTIONS", asks)
            assert got.status_code == 204
            assert got.headers["access-control-allow-origin"] == page["origin"]
            assert "Acp-Session-Id" in got.headers["access-control-allow-headers"]
        async with HttpClient(server.url, None, initialize=False) as stranger:
            assert (await stranger.bare("OPTIONS", asks)).status_code == 204
            assert (await stranger.bare("POST", page)).status_code == 401
            other = await stranger.bare("OPTIONS", {**asks, "origin": "https://ide.example.evil"})
            assert other.status_code == 403
            assert "access-control-allow-origin" not in other.headers


async def test_a_session_of_another_owner_has_no_stream(server: Served) -> None:
    async with server.over_http(ALICE) as alice, server.over_http(BOB) as bob:
        session = await alice.new_session(server.cwd)
        await alice.prompt(session, "ask")
        asked = await alice.question()
        headers = {"acp-session-id": session}
        assert (await bob.raw("GET", headers={**EVENTS, **headers})).status_code == 404
        load = {"jsonrpc": "2.0", "id": 7, "method": "session/load"}
        await bob.post({**load, "params": where(server, session)}, **headers)
        assert (await bob.outcome(7))["error"]["code"] == -32002
        await alice.choose(asked, "reject_once")
        await until(server.decisions)
        assert bob.asked == bob.updates == []


def test_a_version_of_h2_or_websockets_whose_frames_cannot_be_counted_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a client could flood the server."""

    def parse_nothing(_: Protocol) -> Iterator[None]:
        while True:
            yield

    monkeypatch.setattr(FrameBuffer, "__iter__", lambda _: iter(()))
    with pytest.raises(MisuseError, match="h2 cannot be counted"):
        http_server.check_counting()
    monkeypatch.setattr(Protocol, "parse", parse_nothing)
    with pytest.raises(MisuseError, match="websockets cannot be counted"):
        websockets.check_counting()
