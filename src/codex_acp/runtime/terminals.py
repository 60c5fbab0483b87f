"""Run an agent's commands in the terminals of one session (``terminal/*``), within limits.

Owns the terminals of a session, their processes and output.
Source: https://agentclientprotocol.com/protocol/v1/terminals
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from codecs import getincrementaldecoder
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.errors import (
    RpcError,
    environment,
    must_be_count,
    refuse_unless,
    signal_name,
)
from codex_acp.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND
from codex_acp.transport.descriptors import DescriptorReader
from codex_acp.transport.process_table import ExitWatch
from codex_acp.transport.process_tree import ProcessTree, new_mark, with_mark
from codex_acp.transport.shielding import awaited, finish, shielded
from codex_acp.transport.shutdown import nothing_lives, terminate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

logger = logging.getLogger(__name__)

OUTPUT_LIMIT: Final = 1024 * 1024
"""Bytes of a terminal's output that are kept, more than a model can read."""
MAX_TERMINALS: Final = 16
"""Terminals of one session that are not released; more are a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class TerminalAccess:
    """Rights of an agent to terminals, in which it runs commands as this user."""

    output_limit: int = OUTPUT_LIMIT
    """Bytes of each terminal's output that are kept; the agent may request fewer."""
    max_terminals: int = MAX_TERMINALS
    """Terminals of one session at a time, until the agent releases them."""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """The commands' environment, plus the agent's variables; None for this process's."""
    approve: Callable[[types.CreateTerminalRequest], bool | Awaitable[bool]] | None = None
    """Returns whether a command may run; an exception means no. None allows every command."""

    def __post_init__(self) -> None:
        must_be_count("output_limit", self.output_limit)
        must_be_count("max_terminals", self.max_terminals)
        environment(self.env)  # raises for a wrong one
        is_function = self.approve is None or callable(self.approve)
        refuse_unless(is_function, "approve is a function", self.approve)


class Terminals:
    """The terminals of one session."""

    def __init__(self, access: TerminalAccess, cwd: str) -> None:
        self._access = access
        self._cwd = cwd
        self._open: dict[str, TerminalProcess] = {}
        self._awaiting_approval = 0
        """Number of commands that `TerminalAccess.approve` has not answered."""
        self._last_number = 0
        self._closed = False

    async def create(self, request: types.CreateTerminalRequest) -> types.CreateTerminalResponse:
        """Start a command. Raises RpcError if that is not allowed or fails."""
        most = self._access.max_terminals
        if len(self._open) + self._awaiting_approval >= most:
            raise RpcError(INVALID_PARAMS, f"{most} terminals are open; release one first")
        cwd = self._cwd if request.cwd is None else request.cwd
        if not Path(cwd).is_absolute():
            raise RpcError(INVALID_PARAMS, f"the cwd {cwd!r} is not an absolute path")
        self._awaiting_approval += 1
        approve, approved = self._access.approve, False
        try:
            approved = (approve is None or await awaited(approve(request))) is True
        except Exception:
            logger.exception("the approval of a terminal failed; its command is not run")
        finally:
            self._awaiting_approval -= 1
        if not approved:
            raise RpcError(INVALID_PARAMS, f"the command {request.command} was not permitted")
        if self._closed:  # while the approval was awaited
            raise RpcError(INVALID_PARAMS, "the session is closed")
        base = os.environ if self._access.env is None else self._access.env
        env = {**base, **{variable.name: variable.value for variable in request.env}}
        limit = self._access.output_limit
        if request.output_byte_limit is not None:
            limit = min(limit, request.output_byte_limit)
        try:
            process = TerminalProcess([request.command, *request.args], env, cwd, limit)
        except (OSError, ValueError) as error:
            message = f"{request.command} cannot be run in {cwd}: {error}"
            raise RpcError(INVALID_PARAMS, message) from None
        self._last_number += 1
        terminal_id = f"terminal-{self._last_number}"
        self._open[terminal_id] = process
        return types.CreateTerminalResponse(terminal_id=terminal_id)

    def output(self, terminal_id: str) -> types.TerminalOutputResponse:
        """Return the output so far, and the exit status if the command has ended."""
        process = self._find(terminal_id)
        text, truncated = process.output()
        response = types.TerminalOutputResponse(output=text, truncated=truncated)
        if process.exited:
            code, signal = process.exit
            response.exit_status = types.TerminalExitStatus(exit_code=code, signal=signal)
        return response

    async def wait_for_exit(self, terminal_id: str) -> types.WaitForTerminalExitResponse:
        process = self._find(terminal_id)
        await process.wait()
        code, signal = process.exit
        return types.WaitForTerminalExitResponse(exit_code=code, signal=signal)

    async def kill(self, terminal_id: str) -> types.KillTerminalResponse:
        """End the command; the terminal and its output stay until `release`."""
        await self._find(terminal_id).kill()
        return types.KillTerminalResponse()

    async def release(self, terminal_id: str) -> types.ReleaseTerminalResponse:
        """End the command, and remove the terminal."""
        process = self._find(terminal_id)
        del self._open[terminal_id]
        await process.aclose()
        return types.ReleaseTerminalResponse()

    async def aclose(self) -> None:
        self._closed = True
        processes = tuple(self._open.values())
        self._open.clear()
        await asyncio.gather(*[process.aclose() for process in processes])

    def _find(self, terminal_id: str) -> TerminalProcess:
        process = self._open.get(terminal_id)
        if process is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no terminal {terminal_id!r}")
        return process


# The process of a terminal's command, and the end of its output.

FINAL_READ_LIMIT: Final = 1024 * 1024
"""Bytes that are read after the command's end: as many as the largest pipe can have."""
TERMINATE_SECONDS: Final = 0.3
"""Seconds for a command to clean up after SIGTERM; then SIGKILL follows."""
COLLECT_SECONDS: Final = 1.0
"""Seconds for the kernel to report the status of a killed process."""
_CONTINUATION: Final = range(0x80, 0xC0)
"""Bytes of a character in UTF-8 after its first byte."""
_MOST_CONTINUATIONS: Final = 3
"""Continuation bytes of the longest character."""


class OutputTail:
    """Keeps the last ``limit`` bytes of an output; the text begins at a whole character."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated: bool = False
        """Whether the beginning of the output was cut."""

    def feed(self, data: bytes) -> None:
        self._data += data
        excess = len(self._data) - self._limit
        if excess > 0:
            self.truncated = True
            del self._data[:excess]

    def text(self, *, complete: bool) -> str:
        """Return the text. Unless ``complete``, leave out an unfinished character at the end."""
        start, data = 0, bytes(self._data)
        if self.truncated:
            while start < min(_MOST_CONTINUATIONS, len(data)) and data[start] in _CONTINUATION:
                start += 1
        return getincrementaldecoder("utf-8")("replace").decode(data[start:], final=complete)


class TerminalProcess:
    """A running command without stdin, in a process group of its own. Raises OSError if it cannot
    be started. `aclose` must be called, even after the command's end."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str, output_limit: int
    ) -> None:
        self._output = OutputTail(output_limit)
        mark = new_mark()  # in the environment: by it `ProcessTree` finds child processes
        self._process = subprocess.Popen(
            argv,
            env=with_mark(env, mark),
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
        self._tree = ProcessTree(self._process.pid, mark)
        self._exited: asyncio.Future[None] = loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._reader = DescriptorReader(
            loop, self._stdout.fileno(), self._output.feed, on_end=lambda _error: None
        )
        self._watch = ExitWatch(loop, self._process, self._note_exit)
        self._reader.resume()
        self._watch.start()

    @property
    def exited(self) -> bool:
        return self._exited.done()

    @property
    def exit(self) -> tuple[int | None, str | None]:
        """The exit code, or the name of the signal that ended the command; else None and None."""
        code = self._watch.returncode
        return (code, None) if code is None or code >= 0 else (None, signal_name(-code))

    def output(self) -> tuple[str, bool]:
        """Return the end of the output on stdout and stderr, and whether its beginning was cut."""
        return self._output.text(complete=self.exited), self._output.truncated

    async def wait(self) -> None:
        """Wait until the command has ended and its output was read."""
        await shielded(self._exited)

    async def kill(self) -> None:
        """End the command and its child processes by SIGTERM, then SIGKILL. The output stays."""
        await terminate(self._tree, self._exited, TERMINATE_SECONDS)

    async def aclose(self) -> None:
        """End the command and its child processes, even if this call is cancelled."""
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
                # Blocks the loop, but a killed process usually has a status at once.
                self._process.wait(COLLECT_SECONDS)
            except subprocess.TimeoutExpired:
                pass  # a process that hangs in the kernel does not end even by SIGKILL
            else:
                self._tree.root_collected()

    def _note_exit(self, collected: bool) -> None:
        """Note the end. ``collected``: the status was read, so the process id may be reused."""
        # Find the remaining child processes before the tree learns of that.
        self._tree.refresh()
        if collected:
            self._tree.root_collected()
        self._reader.drain(FINAL_READ_LIMIT)
        if not self._exited.done():
            self._exited.set_result(None)
