"""The scripted app-server in memory."""

from __future__ import annotations

import json
from typing import Any

import anyio

from codex_acp.errors import TransportError
from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Entry,
    Exit,
    Expect,
    Notify,
    Pause,
    RawLine,
    ScriptedAppServer,
    StderrText,
)
from codex_acp.transport.link import MemoryLink


class Client:
    """Collects what the server writes."""

    def __init__(self, link: MemoryLink) -> None:
        self.data = b""
        self.closed = anyio.Event()
        self._link = link
        self._arrived = anyio.Event()
        link.start(self)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._arrived.set()

    def link_closed(self, error: TransportError | None) -> None:
        assert error is None
        self.closed.set()

    def pause_writing(self) -> None:
        """Not needed: the client writes little."""

    def resume_writing(self) -> None:
        """Not needed: the client writes little."""

    def send(self, message: dict[str, Any]) -> None:
        self._link.write(json.dumps(message).encode() + b"\n")

    async def lines(self, count: int) -> list[Any]:
        """The first ``count`` messages."""
        with anyio.fail_after(60):
            while self.data.count(b"\n") < count:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        return [json.loads(line) for line in self.data.splitlines()[:count]]


async def test_a_script_is_played_over_the_link() -> None:
    script: list[Entry] = [Expect("a", result={"x": 1}), AskClient("q"), AwaitAnswer("q")]
    async with ScriptedAppServer([*script, Notify("done")]) as server:
        client = Client(server.link)
        client.send({"id": 1, "method": "a"})
        answer, asked = await client.lines(2)
        assert answer == {"id": 1, "result": {"x": 1}}
        client.send({"id": asked["id"], "result": {}})
        assert (await client.lines(3))[2] == {"method": "done"}
        await server.wait_finished()
        assert len(server.player.answers_to(0)) == 1


async def test_a_message_cut_anywhere_is_read_whole() -> None:
    async with ScriptedAppServer([Expect("a")]) as server:
        client = Client(server.link)
        for byte in b'{"id":1,"method":"a"}\n':
            server.link.write(bytes([byte]))
            await anyio.lowlevel.checkpoint()
        assert await client.lines(1) == [{"id": 1, "result": {}}]


async def test_a_pause_holds_back_what_comes_after_it_and_keeps_the_order() -> None:
    async with ScriptedAppServer([Pause(0.05), Notify("first"), Expect("a")]) as server:
        client = Client(server.link)
        client.send({"id": 1, "method": "a"})
        first, second = await client.lines(2)
        assert first == {"method": "first"}
        assert second["id"] == 1


async def test_entries_can_be_added_by_the_test() -> None:
    async with ScriptedAppServer() as server:
        client = Client(server.link)
        server.play(Notify("one"), Expect("a"), Notify("two"))
        assert await client.lines(1) == [{"method": "one"}]
        client.send({"id": 1, "method": "a"})
        message = await server.wait_for_message("a")
        assert message["id"] == 1
        assert (await client.lines(3))[2] == {"method": "two"}


async def test_an_exit_closes_the_link_after_all_data() -> None:
    script: list[Entry] = [StderrText("bye"), RawLine("garbage"), Exit(3), Notify("late")]
    async with ScriptedAppServer(script) as server:
        client = Client(server.link)
        with anyio.fail_after(60):
            await client.closed.wait()
        assert client.data == b"garbage\n"
        assert (server.exit_status, server.stderr_lines) == (3, ["bye"])


async def test_a_slow_client_holds_the_server_back() -> None:
    async with ScriptedAppServer([Notify("n", {"text": "x" * 1000}, times=1000)]) as server:
        server.link.pause_reading()
        client = Client(server.link)
        await anyio.lowlevel.checkpoint()
        assert client.data == b""
        server.link.resume_reading()
        assert len(await client.lines(1000)) == 1000
