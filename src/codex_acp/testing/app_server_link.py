"""Run a scripted app-server in memory, at one end of ``transport.link.memory_pair()``.

Connects an ``AppServerPlayer`` to the link, with framing of lines, pauses and back-pressure. Runs
on the event loop of the test, without a process or a file.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, assert_never

from codex_acp.jsonrpc import LineFramer, TooLong
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
"""Seconds that the waiting methods wait; in memory, messages arrive within milliseconds."""


class ScriptedAppServer:
    """``async with ScriptedAppServer(script) as server:`` and give ``server.link`` to a client."""

    def __init__(self, script: AppServerScriptLike = ()) -> None:
        self.player: AppServerPlayer = AppServerPlayer(script)
        """The player of the script, with the client's messages."""
        self.stderr_lines: list[str] = []
        """Texts of the `StderrText` entries."""
        self.exit_status: int | None = None
        """Status of the `Exit` entry, which closes the link."""
        client_end, server_end = memory_pair()
        self.link: MemoryLink = client_end
        """The client's end, which the client starts and closes."""
        self._server_end = server_end
        self._receiver = _Receiver(self, server_end)

    def __repr__(self) -> str:
        return f"ScriptedAppServer({self.player!r})"

    async def __aenter__(self) -> Self:
        running_loop()
        self._server_end.start(self._receiver)
        self._receiver.run(self.player.start())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._server_end.aclose()

    def play(self, *entries: Entry) -> None:
        """Add entries to the end of the script."""
        self._receiver.run(self.player.extend(*entries))

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()`` is true; call it after each message of the client.

        Raises TimeoutError after ten seconds.
        """
        import anyio

        with anyio.fail_after(WAIT_SECONDS):
            while not holds():
                await self._receiver.changed.wait()

    async def wait_finished(self) -> None:
        """Wait until every entry has been played."""
        await self.wait_for(lambda: self.player.finished)

    async def wait_for_message(self, method: str) -> JsonObject:
        """Wait until the client has sent a message with a method; return the last message."""
        await self.wait_for(lambda: self.player.newest(method) is not None)
        message = self.player.newest(method)
        assert message is not None
        return message


class _Receiver:
    """Receives at the server's end: feeds the player, and carries out the outputs."""

    def __init__(self, server: ScriptedAppServer, link: MemoryLink) -> None:
        self.changed = asyncio.Event()
        """Set at the next change of the player; then replaced by a new event."""
        self._server = server
        self._player = server.player
        self._link = link
        self._framer = LineFramer()
        self._inbox: deque[JsonObject] = deque()
        self._outputs: deque[Output] = deque()
        self._writing_paused = False
        """Whether the client is slow, as the link reports."""
        self._in_pause = False
        """Whether a `Pause` entry is being played."""
        self._output_open = True

    def data_received(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            with suppress(ValueError):  # a line that is no JSON is ignored
                message = None if isinstance(line, TooLong) else json.loads(line)
                if isinstance(message, dict):
                    self._inbox.append(message)
        self._pump()

    def link_closed(self, error: TransportError | None) -> None:
        del error
        self._output_open = False
        self._notify()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._pump()

    def run(self, outputs: list[Output]) -> None:
        """Carry out ``outputs`` after the outputs that wait."""
        self._outputs.extend(outputs)
        self._pump()

    def _pump(self) -> None:
        """Carry out all outputs of one message, then feed the next message."""
        while not (self._writing_paused or self._in_pause) and self._server.exit_status is None:
            if self._outputs:
                self._carry_out(self._outputs.popleft())
            elif self._inbox:
                self._outputs.extend(self._player.feed(self._inbox.popleft()))
            else:
                break
        self._notify()

    def _carry_out(self, output: Output) -> None:
        match output:
            case entries.Send():
                data = json.dumps(output.message, separators=(",", ":")).encode() + b"\n"
                self._write(data)
            case entries.RawLine():
                self._write(output.raw.encode() + (b"\n" if output.newline else b""))
            case entries.StderrText():
                self._server.stderr_lines.append(output.stderr)
            case entries.Pause():
                self._in_pause = True
                asyncio.get_running_loop().call_later(output.pause, self._end_pause)
            case entries.CloseOutput():
                self._output_open = False
                self._link.end_writing()
            case entries.Exit():
                self._server.exit_status = output.exit
                self._output_open = False
                self._link.end_writing()
            case _:
                assert_never(output)

    def _end_pause(self) -> None:
        self._in_pause = False
        self._pump()

    def _write(self, data: bytes) -> None:
        if self._output_open:
            self._link.write(data)

    def _notify(self) -> None:
        """Set `changed`, and replace it for the next change."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
