"""A session that another process asks for: who may have it, and in which state it goes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from codex_acp.adapter.hand_over import may_access
from codex_acp.codex.connection import thread_peers
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.thread_peers import ThreadPeers
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Expect, turn_completed, turn_started
from tests.adapter.memory_bench import THREAD, MemoryBench
from tests.adapter.test_early_turn import SlowLoad

TURN = [Expect("turn/start"), *turn_started(), *turn_completed()]


class OfOwner:
    """An audience of a network server."""

    owner = "alice"


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[ThreadPeers]:
    """The one that lets others ask, as soon as it does."""
    heard: asyncio.Queue[ThreadPeers] = asyncio.Queue()

    async def listen(peers: ThreadPeers, _codex: AppServerConnection) -> None:
        heard.put_nowait(peers)

    monkeypatch.setattr(ThreadPeers, "listen", listen)
    return heard


async def state(listening: asyncio.Queue[ThreadPeers], **more: JsonValue) -> JsonValue:
    """The answer to another process, without its way."""
    peers = await listening.get()
    return (await peers._answer({"thread": THREAD, **more}))["state"]


@pytest.mark.attack("network")
def test_8_2_no_owner_gets_the_session_of_another() -> None:
    hers = cast("Any", OfOwner())
    assert may_access(hers, "alice")
    assert not may_access(hers, "bob")
    assert may_access(hers, None)  # whoever has this user's files
    assert may_access(None, "bob")  # whose it is, that one's own server has decided


async def test_8_1_a_session_can_be_asked_for_before_all_of_a_prompt_is_loaded(
    listening: asyncio.Queue[ThreadPeers],
) -> None:
    async with MemoryBench(*TURN[:1], ahead=SlowLoad()) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        assert await state(listening) == "busy"


async def test_8_1_a_session_whose_end_its_client_is_being_told_is_at_rest(
    listening: asyncio.Queue[ThreadPeers], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MemoryBench(*TURN, version=2) as bench:
        write, asked = bench._link.write, list[asyncio.Task[JsonValue]]()

        def ask_with_the_end(data: bytes) -> None:
            if b'"end_turn"' in data:
                asked.append(asyncio.create_task(state(listening)))
            write(data)

        monkeypatch.setattr(bench._link, "write", ask_with_the_end)
        assert await bench.prompt() == "end_turn"
        assert await asked[0] == "free"


async def test_8_1_a_codex_that_does_not_let_go_is_busy_in_time(
    listening: asyncio.Queue[ThreadPeers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_peers, "LET_GO_SECONDS", 0.05)
    unheard = Expect("thread/unsubscribe", silent=True)
    async with MemoryBench(*TURN, unheard, Expect("thread/resume"), *TURN) as bench:
        await bench.prompt()
        assert await state(listening) == "busy"
        assert await bench.prompt("p2") == "end_turn"  # it takes it back
