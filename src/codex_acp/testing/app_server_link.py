"""A scripted app-server in memory, at the other end of a link.

Owns the joining of an ``AppServerPlayer`` to one end of ``transport.link.memory_pair()``: the
framing of lines, pauses on the event loop, back-pressure. No process and no file; it runs on
the event loop of the test.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, assert_never

from codex_acp.jsonrpc.framing import LineFramer, TooLong
from codex_acp.testing import app_server_script as entries
from codex_acp.testing.app_server_script import AppServerPlayer
from codex_acp.transport.link import memory_pair
from codex_acp.transport.shielding import running_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from codex_acp.errors import TransportError
    from codex_acp.testing.app_server_script import AppServerScriptLike, Entry, JsonObject, Output
    from codex_acp.transport.link import MemoryLink

WAIT_SECONDS = 10.0
"""Bound of the waiting methods: in memory everything comes within milliseconds."""


class ScriptedAppServer:
    """``async with ScriptedAppServer(script) as server:`` and give ``server.link`` to a client.

    ``server.player`` holds what the client said. ``StderrText`` is collected in
    ``stderr_lines``, ``Exit`` closes the link and is kept in ``exit_status``.
    """

    def __init__(self, script: AppServerScriptLike = ()) -> None:
        self.player: AppServerPlayer = AppServerPlayer(script)
        self.stderr_lines: list[str] = []
        self.exit_status: int | None = None
        client_end, server_end = memory_pair()
        self.link: MemoryLink = client_end
        """The client's end; the client starts it and closes it."""
        self._end = server_end
        self._receiver = _ServerEnd(self.player, server_end, self)

    def __repr__(self) -> str:
        return f"ScriptedAppServer({self.player!r})"

    async def __aenter__(self) -> Self:
        """Start the server's end."""
        running_loop()
        self._end.start(self._receiver)
        self._receiver.run(self.player.start())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close the server's end."""
        await self._end.aclose()

    def play(self, *entries: Entry) -> None:
        """Add ``entries`` to the end of the script; they are played as soon as it is their turn."""
        self._receiver.run(self.player.extend(*entries))

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``; it is asked again after each message of the client.

        Raises TimeoutError after ten seconds; the caller may set a tighter bound of its own.
        """
        import anyio

        with anyio.fail_after(WAIT_SECONDS):
            while not holds():
                changed = self._receiver.changed
                await changed.wait()

    async def wait_finished(self) -> None:
        """Wait until every entry has been played."""
        await self.wait_for(lambda: self.player.finished)

    async def wait_for_message(self, method: str) -> JsonObject:
        """Wait for a message of this method; returns the client's newest one."""
        await self.wait_for(lambda: self.player.newest(method) is not None)
        found = self.player.newest(method)
        assert found is not None
        return found


class _ServerEnd:
    """Receives what the client writes, and does what the player says."""

    def __init__(self, player: AppServerPlayer, end: MemoryLink, owner: ScriptedAppServer) -> None:
        self.changed = asyncio.Event()
        self._player = player
        self._link = end
        self._owner = owner
        self._framer = LineFramer()
        self._inbox: deque[JsonObject] = deque()
        self._outputs: deque[Output] = deque()
        self._held = False
        self._pausing = False
        self._output_open = True

    def data_received(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            message = None if isinstance(line, TooLong) else _parsed(line)
            if message is not None:
                self._inbox.append(message)
        self._pump()

    def link_closed(self, error: TransportError | None) -> None:
        del error
        self._output_open = False
        self._notify()

    def pause_writing(self) -> None:
        self._held = True

    def resume_writing(self) -> None:
        self._held = False
        self._pump()

    def run(self, outputs: list[Output]) -> None:
        """Do ``outputs`` after those that wait."""
        self._outputs.extend(outputs)
        self._pump()

    def _pump(self) -> None:
        """All outputs of one message come before the next message is fed."""
        while not self._held and not self._pausing and self._owner.exit_status is None:
            if self._outputs:
                self._do(self._outputs.popleft())
            elif self._inbox:
                self._outputs.extend(self._player.feed(self._inbox.popleft()))
            else:
                break
        self._notify()

    def _do(self, output: Output) -> None:
        match output:
            case entries.Send():
                data = json.dumps(output.message, separators=(",", ":")).encode() + b"\n"
                self._write(data)
            case entries.RawLine():
                self._write(output.raw.encode() + b"\n" * output.newline)
            case entries.StderrText():
                self._owner.stderr_lines.append(output.stderr)
            case entries.Pause():
                self._pausing = True
                asyncio.get_running_loop().call_later(output.pause, self._go_on)
            case entries.CloseOutput():
                self._output_open = False
                self._link.end_writing()
            case entries.Exit():
                self._owner.exit_status = output.exit
                self._output_open = False
                self._link.end_writing()
            case _:
                assert_never(output)

    def _go_on(self) -> None:
        self._pausing = False
        self._pump()

    def _write(self, data: bytes) -> None:
        if self._output_open:
            self._link.write(data)

    def _notify(self) -> None:
        """Wake whoever waits for a change, and begin to wait for the next."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


def _parsed(line: bytes) -> JsonObject | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
