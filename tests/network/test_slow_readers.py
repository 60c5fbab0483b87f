"""A client that does not read: it is put out, and neither Codex nor anybody else waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.side import acp_connection
from codex_acp.adapter.agent_v1 import AgentInV1
from codex_acp.adapter.network.access_control import Token, no_token
from codex_acp.adapter.network.connection import NetworkConnection
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.registry import Owners, Registry
from codex_acp.mapping.events import Notice, ToolCallAnnounced
from codex_acp.transport.link import memory_pair
from tests.network.listening_adapter import WAIT

pytestmark = pytest.mark.attack("network")


class Agent:
    """One that can be introduced to."""

    def introduce(self, *_: object) -> None: ...


@asynccontextmanager
async def lagging(limits: Limits) -> AsyncIterator[tuple[NetworkConnection, list[str]]]:
    """A connection to a client that reads nothing, and why it is put out."""
    ours_link, _client_link = memory_pair(buffer_limit=1000)
    out: list[str] = []
    async with anyio.create_task_group() as tasks:
        registry = Registry(tasks.start_soon, Owners(no_token()), limits)
        ours = NetworkConnection(registry, Token("me", b""), cast("Any", Agent()))
        v1 = AgentInV1(ours)
        connection = acp_connection(ours_link, name="client")
        side = AgentSide(connection, v1.requests(), v1.notifications())
        ours.client.side, ours.disconnect = side, out.append
        async with side:
            ours.introduce({}, 1)
            ours.client.outflow.send("s", Notice("info", "x" * 2000))
            with anyio.fail_after(WAIT):
                while not side.writing_paused:  # noqa: ASYNC110 - it is told to nobody
                    await anyio.sleep(0.001)
            yield ours, out
            tasks.cancel_scope.cancel()


async def put_out(out: list[str]) -> str:
    with anyio.fail_after(WAIT):
        while not out:  # noqa: ASYNC110 - it is told to nobody
            await anyio.sleep(0.01)
    return out[0]


async def test_a_client_that_leaves_updates_unread_is_put_out() -> None:
    async with lagging(Limits(stall_seconds=0.05)) as (ours, out):
        for number in range(3000):
            ours.client.outflow.send("s", Notice("info", str(number)))
        assert "unread for 0.05 s" in await put_out(out)


async def test_a_client_for_whom_too_much_waits_is_put_out_at_once() -> None:
    async with lagging(Limits(stall_seconds=600, unread_text=100_000)) as (ours, out):
        for number in range(3000):
            call = ToolCallAnnounced(id=str(number), title="x" * 100, status="pending")
            ours.client.outflow.send("s", call)
        assert "100000 characters" in await put_out(out)


async def test_a_client_that_catches_up_stays() -> None:
    async with lagging(Limits(stall_seconds=0.05)) as (ours, out):
        for number in range(3000):
            ours.client.outflow.send("s", Notice("info", str(number)))
        ours.client.outflow.flush()
        await anyio.sleep(0.2)
        assert out == []
