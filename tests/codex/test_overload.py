"""An app-server that has too much to do: calls are tried again, further and further apart."""

from __future__ import annotations

from itertools import pairwise

import anyio
import pytest

from codex_acp.codex import CodexClient
from codex_acp.codex.connection.calls import ATTEMPTS, pause_before
from codex_acp.errors import ErrorReply, ServerOverloaded
from codex_acp.testing import Expect, ScriptedAppServer
from tests.codex.codex_bench import HELLO

BUSY = Expect("thread/list", error={"code": -32001, "message": "Server overloaded; retry later."})
BROKEN = Expect("thread/list", error={"code": -32603, "message": "broken"})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made, none of which takes any time."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr("codex_acp.codex.connection.calls.asyncio.sleep", sleep)
    return made


def test_pauses_grow_stay_bounded_and_are_spread() -> None:
    longest = [pause_before(attempt, 1.0) for attempt in range(2, 20)]
    assert longest[:3] == [0.1, 0.2, 0.4]
    assert max(longest) == 2.0
    assert all(a <= b for a, b in pairwise(longest))
    assert pause_before(4, 0.0) == pause_before(4, 1.0) / 2


async def test_a_call_is_tried_again_until_it_is_taken(pauses: list[float]) -> None:
    script = [*HELLO, BUSY, BUSY, Expect("thread/list")]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as client:
        assert (await client.thread_list()).data == []
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1]


async def test_at_last_it_is_an_error_that_says_how_often(pauses: list[float]) -> None:
    script = [*HELLO, *[BUSY] * ATTEMPTS]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as client:
        with pytest.raises(ServerOverloaded, match="thread/list failed") as caught:
            await client.thread_list()
        await server.wait_finished()
    assert caught.value.attempts == ATTEMPTS
    assert caught.value.code == -32001
    assert len(pauses) == ATTEMPTS - 1


async def test_another_error_is_not_tried_again(pauses: list[float]) -> None:
    script = [*HELLO, BUSY, BROKEN]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as client:
        with pytest.raises(ErrorReply, match="broken"):
            await client.thread_list()
    assert len(pauses) == 1


async def test_the_handshake_is_tried_again_too(pauses: list[float]) -> None:
    busy = Expect("initialize", error={"code": -32001, "message": "Server overloaded"})
    async with ScriptedAppServer([busy, *HELLO]) as server, CodexClient(server.link) as client:
        assert client.server.user_agent
    assert len(pauses) == 1


async def test_cancelling_stops_the_attempts() -> None:
    async with ScriptedAppServer([*HELLO, BUSY]) as server, CodexClient(server.link) as client:
        with anyio.move_on_after(0.02) as scope:
            await client.thread_list()
        assert scope.cancelled_caught
