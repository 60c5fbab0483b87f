"""What can go wrong between the runtime and an agent that listens, over both profiles of ACP.

Each is a clear error on the client's side, and nothing of the session is lost by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from codex_acp.acp import connect_agent
from codex_acp.acp.types import NewSessionRequest
from codex_acp.adapter.network import connection
from codex_acp.adapter.network.limits import Limits
from codex_acp.errors import ErrorReply, MisuseError, TransportError
from codex_acp.runtime import AgentRuntime, Permission, Session
from codex_acp.transport import http_requests, remote_agent, websocket
from codex_acp.transport.http_requests import EventStream
from tests.network.listening_adapter import TOKEN, WAIT
from tests.network.served import Served, served, until
from tests.network.test_remote_runtime import allow, is_end

pytestmark = pytest.mark.parametrize("scheme", ["ws", "http"])

KEPT = Limits(keep_seconds=600)


class Wire:
    """Between a client and a server: ``cut`` it, or ``freeze`` it as a host that is gone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def freeze(self) -> None:
        """Nothing gets through, and nobody is told."""
        self._flows.clear()

    def cut(self) -> None:
        """As a broken network does, on both sides."""
        for writer in self._writers:
            writer.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, there_writer}
        ways = ((reader, there_writer), (there_reader, writer))
        tasks = {asyncio.ensure_future(self._one_way(*way)) for way in ways}
        self._tasks |= tasks
        with suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def aclose(self) -> None:
        """Leave nothing."""
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def through_wire(server: Served) -> AsyncIterator[tuple[Wire, str]]:
    wire = Wire(server.port)
    listener = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield wire, server.url.replace(str(server.port), str(port))
    finally:
        listener.close()
        await wire.aclose()


class Lively(EventStream):
    """As if there had been a sign of life: the first takes the server a second."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.has_keep_alive = True


class Thinking:
    """Somebody who does not answer."""

    def __init__(self) -> None:
        self.asked = False

    async def __call__(self, _: Permission) -> None:
        self.asked = True
        await anyio.sleep_forever()


async def comes_back(server: Served, session: Session) -> None:
    """Nothing was lost: the question is asked again, and answered once."""
    ended = anyio.Event()
    async with AgentRuntime(permissions=allow) as runtime:
        opening = runtime.open(
            server.url, token=TOKEN, cwd=session.cwd, session_id=session.session_id, or_new=False
        )
        async with opening as again:
            again.listen(lambda update: ended.set() if is_end(update) else None)
            with anyio.fail_after(WAIT):
                await ended.wait()
            assert again.opened.how == "load"
            assert (await again.run("hello")).text == "Hello."
    assert len([line for line in server.decisions() if '"accept"' in line]) == 1


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_a_connection_that_breaks_or_hangs_loses_nothing(
    tmp_path: Path, scheme: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_agent, "PING_SECONDS", 3.0)
    monkeypatch.setattr(websocket, "PING_EVERY_SECONDS", 1.0)
    monkeypatch.setattr(http_requests, "SILENT_SECONDS", 4.0)
    monkeypatch.setattr(http_requests, "EventStream", Lively)
    thinking = Thinking()
    limits = replace(KEPT, ping_seconds=1.0) if scheme == "http" else KEPT
    async with (
        served(tmp_path, scheme=scheme, limits=limits) as server,
        through_wire(server) as (wire, url),
        AgentRuntime(permissions=thinking) as runtime,
    ):
        session = await runtime.open(url, token=TOKEN, cwd=tmp_path)
        prompt = session.prompt("ask")
        await until(lambda: thinking.asked)
        getattr(wire, how)()
        with (
            anyio.fail_after(WAIT),
            pytest.raises(TransportError, match=r"lost|closed|broke HTTP|did not take"),
        ):
            await prompt.result()
        assert session.closed
        assert server.decisions() == []
        await comes_back(server, session)


async def test_a_token_that_expires_ends_the_connection_and_loses_nothing(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WATCH_SECONDS", 0.1)
    until_when = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    thinking = Thinking()
    tokens = f"me {TOKEN} {until_when}\n"
    limits = replace(KEPT, initialize_seconds=2.0)  # the first look at the token is behind that
    async with (
        served(tmp_path, scheme=scheme, limits=limits, tokens=tokens) as server,
        AgentRuntime(permissions=thinking) as runtime,
    ):
        session = await runtime.open(server.url, token=TOKEN, cwd=tmp_path)
        prompt = session.prompt("ask")
        await until(lambda: thinking.asked)
        server.token_file.write_text(f"me {TOKEN} 2020-01-01T00:00:00Z\n")
        with anyio.fail_after(WAIT), pytest.raises(TransportError, match=r"token|expired"):
            await prompt.result()
        with pytest.raises(TransportError, match="refused the token: 401"):
            await runtime.open(server.url, token=TOKEN, cwd=tmp_path)
        server.token_file.write_text(tokens)
        await comes_back(server, session)


async def test_a_session_of_two_clients_is_the_laters(tmp_path: Path, scheme: str) -> None:
    thinking = Thinking()
    async with (
        served(tmp_path, scheme=scheme, limits=KEPT) as server,
        AgentRuntime(permissions=thinking) as first,
        first.open(server.url, token=TOKEN, cwd=tmp_path) as session,
    ):
        prompt = session.prompt("ask")
        await until(lambda: thinking.asked)
        await comes_back(server, session)
        assert (await prompt.result()).stop_reason == "end_turn"
        with pytest.raises(ErrorReply, match=r"another connection|is no session|not open"):
            await session.run("hello")


async def test_a_program_that_reads_slowly_gets_all_of_it(tmp_path: Path, scheme: str) -> None:
    async with (
        served(tmp_path, scheme=scheme) as server,
        AgentRuntime() as runtime,
        runtime.open(server.url, token=TOKEN, cwd=tmp_path) as session,
        session.prompt("hello") as prompt,
    ):
        seen = []
        async for update in prompt:
            await anyio.sleep(0.05)
            seen.append(update)
        assert (await prompt.result()).text == "Hello."


async def test_an_address_is_enough_for_a_client_of_the_protocol(
    tmp_path: Path, scheme: str
) -> None:
    async with (
        served(tmp_path, scheme=scheme) as server,
        connect_agent(server.url, name="me", token=TOKEN) as agent,
    ):
        request = NewSessionRequest(cwd=str(tmp_path), mcp_servers=[])
        assert (await agent.side.session_new(request)).session_id
    with pytest.raises(MisuseError, match="for the URL of an agent"):
        connect_agent(["agent"], name="me", token=TOKEN)
