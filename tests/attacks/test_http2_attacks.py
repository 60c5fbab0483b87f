"""What HTTP/2 adds to what may be tried against ``serve --listen http://…``: streams and frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import anyio
import pytest
from h2.events import ResponseReceived

from codex_acp.adapter.network.limits import Limits
from tests.attacks.raw_http import Http2, Raw
from tests.attacks.test_http_attacks import head, still_works, works
from tests.network.http_client import EVENTS, JSON
from tests.network.served import ALICE, BOB, Served, served, several_tokens

pytestmark = pytest.mark.attack("network")

Json = dict[str, Any]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    limits = Limits(message_bytes=100_000)
    async with served(tmp_path, scheme="http", tokens=several_tokens(), limits=limits) as running:
        yield running


def opened_and_reset(client: Http2, token: str) -> Iterator[bytes]:
    """Many streams at once, again and again."""
    while True:
        for _ in range(10):
            headers = {"authorization": f"Bearer {token}", **EVENTS}
            client.frames.reset_stream(client.request("GET", headers))
        yield client.frames.data_to_send()


async def test_streams_that_are_opened_and_reset(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.http_sockets.REQUESTS_AT_ONCE", 100)
    async with server.over_http(BOB) as bob:
        for token in (ALICE, "x" * 20):
            async with Http2(server.port) as rapid:
                await rapid.send_until_cut(opened_and_reset(rapid, token))
        assert len([each for each in caplog.records if "too many requests" in each.message]) <= 2
        await still_works(server, bob)


FRAMES: dict[str, bytes] = {
    "settings": b"\0\0\0\4\0" + bytes(4),
    "pings": b"\0\0\x08\6\0" + bytes(4) + b"12345678",
    "priorities": b"\0\0\5\2\0" + b"\0\0\0\3" + b"\0\0\0\0\1",
    "windows": b"\0\0\4\x08\0" + bytes(4) + b"\0\0\0\1",
    "unknown": b"\0\0\0\x77\0" + bytes(4),
}
"""Of HTTP/2, none of which is a request."""


@pytest.mark.parametrize("kind", FRAMES)
async def test_frames_that_are_no_request(server: Served, kind: str) -> None:
    async with server.over_http(BOB) as bob, Http2(server.port) as flood:
        await flood.send_until_cut(repeat(FRAMES[kind] * 100))
        await still_works(server, bob)


async def test_frames_of_an_owner_who_sends_nothing_else(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.over_http(BOB) as bob, Http2(server.port) as flood:
        flood.request("DELETE", {"authorization": f"Bearer {ALICE}"})
        await flood.flush()
        while not any(isinstance(each, ResponseReceived) for each in await flood.events()):
            pass
        await flood.send_until_cut(repeat(FRAMES["settings"] * 500))
        assert "too many frames" in caplog.text
        await still_works(server, bob)


async def test_large_frames_of_an_owner_are_not_counted(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_acp.adapter.network.http_sockets.FRAMES_AT_ONCE", 10)
    monkeypatch.setattr("codex_acp.adapter.network.http_sockets.FRAMES_PER_SECOND", 0.0)
    headers = {**JSON, "authorization": f"Bearer {ALICE}", "acp-connection-id": "0" * 32}
    async with Http2(server.port) as client:
        posted = client.request("POST", headers, ends=False)
        for left in reversed(range(20)):
            client.frames.send_data(posted, b" " * 2_000, end_stream=not left)
            await client.flush()
        while not any(isinstance(each, ResponseReceived) for each in await client.events()):
            pass
        with pytest.raises(AssertionError, match="all taken"):
            await client.send_until_cut(iter([FRAMES["pings"]]))
        await client.send_until_cut(repeat(FRAMES["pings"]))


async def test_frames_that_nobody_counts_cannot_be_changed_to(server: Served) -> None:
    begin = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": ""}
    for first in (head("OPTIONS", server), head("GET", server, **upgrade)):
        for parts in ((first + begin,), (first + begin[:7], begin[7:])):
            async with Raw(server.port) as raw:
                for part in parts:
                    await raw.send(part)
                    await anyio.sleep(0.05)
                await raw.ended()
    await works(server)


@pytest.mark.parametrize("frame", [1_000, 16_384])
@pytest.mark.parametrize("token", [ALICE, "x" * 20])
async def test_a_refused_request_whose_body_goes_on_ends_no_other_stream(
    server: Served, frame: int, token: str
) -> None:
    headers = {**JSON, "authorization": f"Bearer {token}", "acp-connection-id": "0" * 32}
    async with Http2(server.port) as client:
        refused, left = client.request("POST", headers, ends=False), 200_000
        answers: list[ResponseReceived] = []
        while left or not answers:
            while left and (room := client.frames.local_flow_control_window(refused)):
                size = min(frame, left, room)
                left -= size
                client.frames.send_data(refused, b" " * size, end_stream=not left)
            await client.flush()
            if left or not answers:
                found = await client.events()
                assert found, "the connection was cut off"
                answers += [each for each in found if isinstance(each, ResponseReceived)]
        other = client.request("DELETE", {**headers, "authorization": f"Bearer {BOB}"})
        await client.flush()
        while len(answers) < 2:
            found = await client.events()
            answers += [each for each in found if isinstance(each, ResponseReceived)]
        assert [each.stream_id for each in answers] == [refused, other]
    await works(server)
