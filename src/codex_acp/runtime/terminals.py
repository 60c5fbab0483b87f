"""``terminal/*``: the commands that the agent runs in one session, and their limits.

Owns the terminals' ids and their number. Must not know how a process is run.
Source: https://agentclientprotocol.com/protocol/v1/terminals
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, RESOURCE_NOT_FOUND
from codex_acp.runtime.terminal_process import TerminalProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

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
        try:
            await self._must_be_approved(request)
        finally:
            self._starting -= 1
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

    async def kill(self, terminal_id: str) -> None:
        """End its command; it stays, with its output, until it is released."""
        await self._find(terminal_id).kill()

    async def release(self, terminal_id: str) -> None:
        """End its command and forget it."""
        process = self._find(terminal_id)
        del self._open[terminal_id]
        await process.aclose()

    async def aclose(self) -> None:
        """Release them all."""
        self._closed = True
        processes = tuple(self._open.values())
        self._open.clear()
        await asyncio.gather(*[process.aclose() for process in processes])

    async def _must_be_approved(self, request: types.CreateTerminalRequest) -> None:
        if self._access.approve is None:
            return
        approved: object = False
        try:
            answer = self._access.approve(request)
            approved = await answer if inspect.isawaitable(answer) else answer
        except Exception:
            logger.exception("the approval of a terminal failed; its command is not run")
        if approved is not True:
            raise RpcError(INVALID_PARAMS, f"the command {request.command} was not permitted")

    def _find(self, terminal_id: str) -> TerminalProcess:
        process = self._open.get(terminal_id)
        if process is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no terminal {terminal_id!r}")
        return process
