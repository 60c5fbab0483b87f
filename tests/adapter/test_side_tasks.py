"""A task beside the requests that fails ends only itself; a Codex that is too old is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.adapter.tasks import SideTasks, guarded
from codex_acp.codex._generated.version import OLDEST_VERSION
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.errors import ErrorReply
from codex_acp.testing import AppServerScript, Expect, ScriptedAppServer
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer

NEW = {"cwd": "/", "mcpServers": []}


async def _refused() -> None:
    raise ErrorReply("skills/list", -32603, "no skills today")


async def _broken() -> None:
    message = "a bug"
    raise KeyError(message)


async def _cancels_itself() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize("task", [_refused, _broken, _cancels_itself])
async def test_a_side_task_that_fails_ends_no_other(
    task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    done = anyio.Event()

    async def good() -> None:
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        done.set()

    with caplog.at_level(logging.WARNING):
        async with anyio.create_task_group() as tasks:
            spawn = guarded(tasks.start_soon)
            spawn(task)
            spawn(good)
    assert done.is_set()
    assert [record.levelno for record in caplog.records] == {
        _refused: [logging.WARNING],
        _broken: [logging.ERROR],
        _cancels_itself: [],
    }[task]


@asynccontextmanager
async def serving(initialized: dict[str, object]) -> AsyncIterator[RawPeer]:
    """An agent on a Codex that answers ``initialize`` so."""
    link, far = memory_pair()
    script = AppServerScript(Expect("initialize", result=initialized), defaults=True)
    async with ScriptedAppServer(script) as server, anyio.create_task_group() as tasks:
        client = RawPeer(far)
        tasks.start_soon(serve_link, link, AppServer(LaunchOptions("/none"), server.link))  # type: ignore[arg-type] # a link in place of a process
        await client.ask("i", "initialize", {"protocolVersion": 1})
        yield client
        await far.aclose()


async def test_a_codex_that_is_too_old_is_told_and_the_agent_stays_up() -> None:
    async with serving({"userAgent": "codex_acp_sdk/0.100.0 (Debian 12; x86_64)"}) as client:
        first = await client.ask(1, "session/new", NEW)
        assert first["error"]["code"] == -32603
        assert "Codex 0.100.0 is too old" in first["error"]["message"]
        assert OLDEST_VERSION in first["error"]["message"]
        assert "error" in await client.ask(2, "session/new", NEW)
        assert not client.closed


async def test_what_is_read_beside_the_requests_may_be_missing() -> None:
    """The commands of a session are read from ``codexHome``."""
    async with serving({"userAgent": "a build of their own"}) as client:
        answer = await client.ask(1, "session/new", NEW)
        assert answer["result"]["sessionId"] == "thread-1"
        await client.settle()
        again = await client.ask(2, "session/list", {})
        assert not client.closed
        assert again["id"] == 2


async def test_all_end_although_one_does_not_heed_it_and_who_waits_is_cancelled() -> None:
    ended: list[str] = []

    async def heeds() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("heeds")

    async def heeds_the_second_time() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("heeds the second time")

    tasks = SideTasks()
    tasks.start(heeds)
    tasks.start(heeds_the_second_time)
    await anyio.lowlevel.checkpoint()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await tasks.aclose()
    assert ended == ["heeds", "heeds the second time"]


async def test_nothing_begins_once_the_tasks_are_being_ended() -> None:
    ran: list[str] = []

    async def late() -> None:
        ran.append("late")

    async def begins_another_as_it_ends() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            tasks.start(late)

    tasks = SideTasks()
    tasks.start(begins_another_as_it_ends)
    await anyio.lowlevel.checkpoint()
    await tasks.aclose()
    tasks.start(late)
    guarded(tasks.start)(late)
    await anyio.wait_all_tasks_blocked()
    assert ran == []
