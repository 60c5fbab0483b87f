"""The real command with the real Codex and a scripted model, as an ACP client sees them.

Every message that the adapter sends is held against the ACP schema, and every update has to come
while a prompt of its session runs: both are checked when a bench is left.
"""

from __future__ import annotations

import sysconfig
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
from anyio import to_thread

from codex_acp.acp import ClientSide, acp_connection
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    CancelNotification,
    InitializeRequest,
    NewSessionRequest,
    PromptRequest,
    SessionNotification,
    TextContentBlock,
)
from codex_acp.testing import CodexHome, ScriptedModel
from codex_acp.transport.child import ChildProcess, spawn
from tests.acp.tables import client_notifications, client_requests
from tests.support.acp_schema import SchemaTap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from codex_acp.acp.types import McpServer, PromptResponse
    from codex_acp.testing import ModelResponse, Step
    from codex_acp.testing.codex_home import SandboxMode

__all__ = ["COMMAND", "AdapterBench", "agent_tap", "updates_outside_prompts"]

COMMAND = str(Path(sysconfig.get_path("scripts")) / "codex-acp-sdk")
"""The command as it is installed."""

WAIT = 30.0
"""Seconds; a turn takes a tenth of one, on a busy machine a few."""


def agent_tap(tap: SchemaTap, direction: Literal["received", "sent"], line: bytes) -> None:
    """Feed ``tap`` with a line of the client's connection, so that it watches the agent."""
    if direction == "received":
        tap.on("agent")("sent", line + b"\n")
        tap.on("client")("received", line)
    else:
        tap.on("agent")("received", line)
        tap.on("client")("sent", line)


def updates_outside_prompts(tap: SchemaTap) -> list[dict[str, Any]]:
    """The updates that came before a prompt of their session was sent or after its answer."""
    running: dict[object, str] = {}
    outside = []
    for by, message in tap.messages:
        if by == "client" and message.get("method") == "session/prompt":
            running[message["id"]] = message["params"]["sessionId"]
        elif by == "agent" and message.get("method") == "session/update":
            if message["params"]["sessionId"] not in running.values():
                outside.append(message)
        elif by == "agent" and "method" not in message:
            running.pop(message["id"], None)
    return outside


class AdapterBench:
    """``async with AdapterBench(script) as bench:`` has an adapter that is initialized.

    ``script`` is what the model says. ``bench.updates`` are all updates in order.
    """

    def __init__(
        self,
        script: Iterable[ModelResponse | Iterable[Step]] = (),
        *,
        sandbox_mode: SandboxMode = "read-only",
        env: dict[str, str] | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self.model = ScriptedModel(script)
        self._sandbox_mode: SandboxMode = sandbox_mode
        self._more_env = env or {}
        self._args = args
        self._stack = ExitStack()
        self.tap = SchemaTap()
        self.updates: list[SessionNotification] = []
        self._news = anyio.Event()

    async def __aenter__(self) -> Self:
        """Start everything and initialize."""
        try:
            await self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    async def _start(self) -> None:
        self._stack.enter_context(self.model)
        self.home = self._stack.enter_context(
            CodexHome(self.model.base_url, sandbox_mode=self._sandbox_mode)
        )
        self.child: ChildProcess = spawn(
            [COMMAND, *self._args], {**self.home.env, **self._more_env}, self.home.root
        )
        connection = acp_connection(
            self.child,
            name="the adapter",
            on_line=lambda direction, line: agent_tap(self.tap, direction, line),
        )
        notifications = client_notifications()
        notifications["session/update"] = self._take
        self.client = ClientSide(connection, client_requests(), notifications)
        await self.client.__aenter__()
        try:
            with anyio.fail_after(WAIT):
                await self.client.initialize(InitializeRequest(protocol_version=1))
        except BaseException as error:
            await self.client.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close everything; then the checks, unless the test has failed already."""
        with self._stack:
            await self.client.__aexit__(kind, error, trace)
        if error is None:
            self.tap.check()
            assert updates_outside_prompts(self.tap) == []
            assert "Traceback" not in self.child.stderr_tail, self.child.stderr_tail

    def _take(self, update: SessionNotification) -> None:
        self.updates.append(update)
        self._news.set()
        self._news = anyio.Event()

    async def new_session(self, servers: Sequence[McpServer] = ()) -> str:
        """A session in the workspace."""
        request = NewSessionRequest(cwd=str(self.home.workspace), mcp_servers=list(servers))
        with anyio.fail_after(WAIT):
            return (await self.client.session_new(request)).session_id

    async def prompt(self, session_id: str, text: str = "Go.") -> PromptResponse:
        """Run one prompt to its end."""
        request = PromptRequest(session_id=session_id, prompt=[TextContentBlock(text=text)])
        with anyio.fail_after(WAIT):
            return await self.client.session_prompt(request)

    def cancel(self, session_id: str) -> None:
        """Send ``session/cancel``."""
        self.client.session_cancel(CancelNotification(session_id=session_id))

    def messages(self, session_id: str) -> dict[str, str]:
        """Message id → the joined text of its chunks, in the order of the first chunks."""
        found: dict[str, str] = {}
        for notification in self.updates:
            update = notification.update
            if notification.session_id != session_id:
                continue
            if not isinstance(update, AgentMessageChunkSessionUpdate):
                continue
            assert isinstance(update.content, TextContentBlock), update
            assert update.message_id is not None
            found[update.message_id] = found.get(update.message_id, "") + update.content.text
        return found

    def text(self, session_id: str) -> str:
        """All that the agent said in a session."""
        return "".join(self.messages(session_id).values())

    async def wait_for_text(self, session_id: str, text: str) -> None:
        """Wait until the agent has said ``text`` in a session."""
        with anyio.fail_after(WAIT):
            while text not in self.text(session_id):
                await self._news.wait()

    async def wait_for_gate(self, name: str) -> None:
        """Wait until the model stands at a gate."""
        await to_thread.run_sync(self.model.wait_for_gate, name, WAIT)

    async def wait_for_file(self, path: Path) -> None:
        """Wait until a command has written to the FIFO ``path``, made by ``os.mkfifo``."""
        import os

        fifo = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with anyio.fail_after(WAIT):
                await anyio.wait_readable(fifo)
        finally:
            os.close(fifo)
