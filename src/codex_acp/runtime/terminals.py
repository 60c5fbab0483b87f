"""``terminal/*``: the commands that the agent runs in one session, and their limits.

Owns the terminals' ids and their number. Must not know how a process is run.
Source: https://agentclientprotocol.com/protocol/v1/terminals
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.errors import RpcError, signal_name
from codex_acp.jsonrpc.message import INVALID_PARAMS, RESOURCE_NOT_FOUND
from codex_acp.transport.descriptors import DescriptorReader
from codex_acp.transport.process_table import ExitWatch
from codex_acp.transport.process_tree import ProcessTree, new_mark, with_mark
from codex_acp.transport.shielding import finish, shielded
from codex_acp.transport.shutdown import nothing_lives, terminate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

logger = logging.getLogger(__name__)

OUTPUT_LIMIT: Final = 1024 * 1024
"""Bytes of output kept of a terminal: what a model can read is a small part of it."""
MAX_TERMINALS: Final = 16
"""Terminals of one session that were not released; more are a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class TerminalAccess:
    """Rights of an agent to terminals. It runs commands as this user, unasked.

    ``approve`` is asked before each command; without it every command runs.
    """

    output_limit: int = OUTPUT_LIMIT
    """Bytes of output kept of each; the agent may ask for less."""
    max_terminals: int = MAX_TERMINALS
    """How many may be there at a time in one session, until they are released."""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """The commands' environment, over which the agent's is set; None: this process's own."""
    approve: Callable[[types.CreateTerminalRequest], bool | Awaitable[bool]] | None = None
    """Whether the command may run; if it raises, it may not."""


class Terminals:
    """The terminals of one session."""

    def __init__(self, access: TerminalAccess, cwd: str) -> None:
        self._access = access
        self._cwd = cwd
        self._open: dict[str, TerminalProcess] = {}
        self._starting = 0
        self._count = 0
        self._closed = False

    async def create(self, request: types.CreateTerminalRequest) -> types.CreateTerminalResponse:
        """Start the command. Raises RpcError if it may not or cannot be started."""
        limit = self._access.max_terminals
        if len(self._open) + self._starting >= limit:
            raise RpcError(INVALID_PARAMS, f"{limit} terminals are open; release one first")
        cwd = self._cwd if request.cwd is None else request.cwd
        if not Path(cwd).is_absolute():
            raise RpcError(INVALID_PARAMS, f"the cwd {cwd!r} is not an absolute path")
        self._starting += 1
        approved: object = self._access.approve is None
        try:
            if self._access.approve is not None:
                answer = self._access.approve(request)
                approved = await answer if inspect.isawaitable(answer) else answer
        except Exception:
            logger.exception("the approval of a terminal failed; its command is not run")
        finally:
            self._starting -= 1
        if approved is not True:
            raise RpcError(INVALID_PARAMS, f"the command {request.command} was not permitted")
        if self._closed:
            raise RpcError(INVALID_PARAMS, "the session is closed")
        base = os.environ if self._access.env is None else self._access.env
        env = {**base, **{variable.name: variable.value for variable in request.env}}
        kept = self._access.output_limit
        if request.output_byte_limit is not None:
            kept = min(kept, request.output_byte_limit)
        try:
            process = TerminalProcess([request.command, *request.args], env, cwd, kept)
        except (OSError, ValueError) as error:
            message = f"{request.command} cannot be run in {cwd}: {error}"
            raise RpcError(INVALID_PARAMS, message) from None
        self._count += 1
        terminal_id = f"terminal-{self._count}"
        self._open[terminal_id] = process
        return types.CreateTerminalResponse(terminal_id=terminal_id)

    def output(self, terminal_id: str) -> types.TerminalOutputResponse:
        """Return its output so far, and how it ended if it has."""
        process = self._find(terminal_id)
        text, truncated = process.output()
        response = types.TerminalOutputResponse(output=text, truncated=truncated)
        if process.exited:
            status = types.TerminalExitStatus(exit_code=process.exit_code, signal=process.signal)
            response.exit_status = status
        return response

    async def wait_for_exit(self, terminal_id: str) -> types.WaitForTerminalExitResponse:
        """Wait until it has ended."""
        process = self._find(terminal_id)
        await process.wait()
        return types.WaitForTerminalExitResponse(exit_code=process.exit_code, signal=process.signal)

    async def kill(self, terminal_id: str) -> types.KillTerminalResponse:
        """End its command; it stays, with its output, until it is released."""
        await self._find(terminal_id).kill()
        return types.KillTerminalResponse()

    async def release(self, terminal_id: str) -> types.ReleaseTerminalResponse:
        """End its command and forget it."""
        process = self._find(terminal_id)
        del self._open[terminal_id]
        await process.aclose()
        return types.ReleaseTerminalResponse()

    async def aclose(self) -> None:
        """Release them all."""
        self._closed = True
        processes = tuple(self._open.values())
        self._open.clear()
        await asyncio.gather(*[process.aclose() for process in processes])

    def _find(self, terminal_id: str) -> TerminalProcess:
        process = self._open.get(terminal_id)
        if process is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no terminal {terminal_id!r}")
        return process


# One command of a terminal: its process, and the end of its output.

FINAL_READ_LIMIT: Final = 1024 * 1024
"""Bytes read when the command has ended: the largest pipe, so that nothing it wrote is missed."""
TERMINATE_SECONDS: Final = 0.3
"""For a command to clean up after SIGTERM, which is all that it is told."""
COLLECT_SECONDS: Final = 1.0
"""For the kernel to give the status of a process that was killed."""
_CONTINUATION: Final = range(0x80, 0xC0)
"""The bytes of UTF-8 that go on with a character."""
_LONGEST_CHARACTER: Final = 4


class OutputTail:
    """The last ``limit`` bytes of an output, cut from its start at a character's boundary."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated: bool = False
        """Whether anything was cut."""

    def feed(self, data: bytes) -> None:
        """Take what was written."""
        self._data += data
        excess = len(self._data) - self._limit
        if excess <= 0:
            return
        self.truncated = True
        del self._data[:excess]

    def text(self, *, complete: bool) -> str:
        """The text; a character whose end has not come is left out until it is ``complete``."""
        start, data = 0, bytes(self._data)
        if self.truncated:
            while start < min(_LONGEST_CHARACTER - 1, len(data)) and data[start] in _CONTINUATION:
                start += 1
        return data[start : len(data) if complete else _whole(data)].decode(errors="replace")


def _whole(data: bytes) -> int:
    """How much of it is not the beginning of an unfinished character."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte in _CONTINUATION:
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return len(data) - back if length > back else len(data)
    return len(data)


class TerminalProcess:
    """A running command, in a session and process group of its own, with no stdin.

    Raises OSError if it cannot be started. `aclose` must be called, also after its end.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str, output_limit: int
    ) -> None:
        self._output = OutputTail(output_limit)
        tree = new_mark()
        self._process = subprocess.Popen(
            argv,
            env=with_mark(env, tree),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        loop = asyncio.get_running_loop()
        self._tree = ProcessTree(self._process.pid, tree)
        self._exited: asyncio.Future[None] = loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._reader = DescriptorReader(
            loop, self._stdout.fileno(), self._output.feed, lambda _error: None
        )
        self._watch = ExitWatch(loop, self._process, self._process_exited)
        self._reader.resume()
        self._watch.start()

    @property
    def pid(self) -> int:
        """The process id; the same as the id of its group."""
        return self._process.pid

    @property
    def exited(self) -> bool:
        """Whether the command has ended."""
        return self._exited.done()

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs and after a signal."""
        code = self._watch.returncode
        return code if code is not None and code >= 0 else None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, as SIGTERM; None if none has."""
        code = self._watch.returncode
        return None if code is None or code >= 0 else signal_name(-code)

    def output(self) -> tuple[str, bool]:
        """The end of what it wrote to stdout and stderr, and whether its start was cut."""
        return self._output.text(complete=self.exited), self._output.truncated

    async def wait(self) -> None:
        """Wait until the command has ended, and what it wrote is here."""
        await shielded(self._exited)

    async def kill(self) -> None:
        """End the command and all it started: SIGTERM, a moment, SIGKILL. The output stays."""
        await terminate(self._tree, self._exited, TERMINATE_SECONDS)

    async def aclose(self) -> None:
        """End what still runs of it, also in the background; not interrupted by cancellation."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await finish(self._closing)

    async def _close(self) -> None:
        try:
            if not (self.exited and nothing_lives(self._tree)):
                await self.kill()
        finally:
            self._reader.stop()
            self._watch.stop()
            self._stdout.close()
            if not self._exited.done():
                self._exited.set_result(None)
            try:
                self._process.wait(COLLECT_SECONDS)
            except subprocess.TimeoutExpired:
                pass  # even SIGKILL waits for a process that hangs in the kernel
            else:
                self._tree.root_collected()

    def _process_exited(self, collected: bool) -> None:
        # Who is left of its group is noted while its id is still its own.
        self._tree.refresh()
        if collected:
            self._tree.root_collected()
        self._reader.drain(FINAL_READ_LIMIT)
        if not self._exited.done():
            self._exited.set_result(None)
