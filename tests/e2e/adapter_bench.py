"""The real command with the real Codex and a scripted model, as an ACP client sees them.

Every message that the adapter sends is held against the ACP schema, what the client can do and the
rules of the stream, and every update of a turn has to come while a prompt of its session runs: all
of it is checked when a bench is left.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self, cast

import anyio
from anyio import to_thread

from codex_acp.acp import ClientSide, acp_connection, types
from codex_acp.acp._generated.v1.handlers import ClientRequestHandlers
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Step
from codex_acp.testing.codex_home import SandboxMode
from codex_acp.transport.child import ChildProcess, spawn
from tests.acp.tables import client_notifications, client_requests
from tests.support.adapter_tap import AdapterTap

COMMAND = str(Path(sysconfig.get_path("scripts")) / "codex-acp-sdk")
"""The command as it is installed."""

WAIT = 120.0
"""Seconds; a turn takes a tenth of one, on a busy machine a few."""


def agent_tap(tap: AdapterTap, direction: Literal["received", "sent"], line: bytes) -> None:
    """Feed ``tap`` with a line of the client's connection, so that it watches the agent."""
    if direction == "received":
        tap.on("agent")("sent", line + b"\n")
        tap.on("client")("received", line)
    else:
        tap.on("agent")("received", line)
        tap.on("client")("sent", line)


OF_THE_SESSION = {
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "notice",
    "session_info_update",
    "usage_update",
}
"""Kinds of updates that are about the session and not about a turn: they come when they come."""


def updates_outside_prompts(tap: AdapterTap) -> list[dict[str, Any]]:
    """The updates of a turn that came outside of its prompt, and of the load that replays it."""
    running: dict[object, str] = {}
    outside = []
    for by, message in tap.messages:
        if by == "client" and message.get("method") in ("session/prompt", "session/load"):
            running[message["id"]] = message["params"]["sessionId"]
        elif by == "agent" and message.get("method") == "session/update":
            inside = message["params"]["sessionId"] in running.values()
            if not inside and not _may_come_any_time(message["params"]["update"]):
                outside.append(message)
        elif by == "agent" and "method" not in message:
            running.pop(message["id"], None)
    return outside


def _may_come_any_time(update: dict[str, Any]) -> bool:
    """Of the session, or a line that a client with notices would get as one."""
    kind = update["sessionUpdate"]
    is_line = kind == "agent_thought_chunk" and "messageId" not in update
    return kind in OF_THE_SESSION or is_line


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
        capabilities: types.ClientCapabilities | None = None,
        requests: dict[str, Any] | None = None,
    ) -> None:
        self.model = ScriptedModel(script)
        self._sandbox_mode: SandboxMode = sandbox_mode
        self._more_env = env or {}
        self._args = args
        self._capabilities = capabilities
        self._requests = requests or {}
        self._stack = ExitStack()
        self.tap = AdapterTap()
        self.updates: list[types.SessionNotification] = []
        self._news = anyio.Event()
        self._heard = anyio.Event()

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
        connection = acp_connection(self.child, name="the adapter", on_line=self._on_line)
        notifications = client_notifications()
        notifications["session/update"] = self._take
        requests = cast("ClientRequestHandlers", client_requests() | self._requests)
        self.client = ClientSide(connection, requests, notifications)
        await self.client.__aenter__()
        try:
            with anyio.fail_after(WAIT):
                self.agent = await self.client.initialize(self._introduction())
        except BaseException as error:
            await self.client.__aexit__(type(error), error, None)
            raise

    def _introduction(self) -> types.InitializeRequest:
        request = types.InitializeRequest(protocol_version=1)
        if self._capabilities is not None:
            request.client_capabilities = self._capabilities
        return request

    async def __aexit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        """Close everything; then the checks, unless the test has failed already."""
        with self._stack:
            if kind is None:
                await self._all_answered()
            await self.client.__aexit__(kind, *rest)
        if kind is None:
            self.tap.check()
            assert self.tap.left_open() == []
            assert updates_outside_prompts(self.tap) == []
            assert "Traceback" not in self.child.stderr_tail, self.child.stderr_tail

    def _on_line(self, direction: Literal["received", "sent"], line: bytes) -> None:
        agent_tap(self.tap, direction, line)
        self._heard.set()
        self._heard = anyio.Event()

    async def _all_answered(self) -> None:
        """Requests that a test gave up are answered, too, a little later."""
        with anyio.move_on_after(WAIT):
            while self.tap.left_open() and not self.client.closed:
                await self._heard.wait()

    def _take(self, update: types.SessionNotification) -> None:
        self.updates.append(update)
        self._news.set()
        self._news = anyio.Event()

    async def new_session(self, servers: Sequence[types.McpServer] = ()) -> str:
        """A session in the workspace."""
        request = types.NewSessionRequest(cwd=str(self.home.workspace), mcp_servers=list(servers))
        with anyio.fail_after(WAIT):
            return (await self.client.session_new(request)).session_id

    async def prompt(self, session_id: str, text: str = "Go.") -> types.PromptResponse:
        """Run one prompt to its end."""
        request = types.PromptRequest(
            session_id=session_id, prompt=[types.TextContentBlock(text=text)]
        )
        with anyio.fail_after(WAIT):
            return await self.client.session_prompt(request)

    def cancel(self, session_id: str) -> None:
        """Send ``session/cancel``."""
        self.client.session_cancel(types.CancelNotification(session_id=session_id))

    def messages(self, session_id: str) -> dict[str, str]:
        """Message id → the joined text of its chunks, in the order of the first chunks."""
        found: dict[str, str] = {}
        for notification in self.updates:
            update = notification.update
            if notification.session_id != session_id:
                continue
            if not isinstance(update, types.AgentMessageChunkSessionUpdate):
                continue
            assert isinstance(update.content, types.TextContentBlock), update
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

    async def news(self) -> None:
        """Wait for the next update."""
        await self._news.wait()

    async def wait_for_update(self, wanted: Callable[[types.SessionNotification], bool]) -> None:
        """Wait until an update came that is ``wanted``."""
        with anyio.fail_after(WAIT):
            while not any(map(wanted, self.updates)):
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
