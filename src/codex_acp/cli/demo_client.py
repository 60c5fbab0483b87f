"""The ACP client of ``codex-acp-sdk demo``: one session, one prompt, and what was received.

Everything it shows came over the wire: from the agent, or, where it says so, from Codex to the
scripted model. Must not know what the script says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp._version import __version__
from codex_acp.acp import PROTOCOL_VERSION, ClientSide, acp_connection
from codex_acp.acp.types import (
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    NewSessionRequest,
    PromptRequest,
    TextContentBlock,
)
from codex_acp.cli.demo_script import PROMPT

if TYPE_CHECKING:
    from codex_acp.acp import ClientNotificationHandlers, ClientRequestHandlers
    from codex_acp.acp.types import SessionNotification, SessionUpdate
    from codex_acp.cli.demo_screen import Screen
    from codex_acp.testing import ScriptedModel
    from codex_acp.transport.child import ChildProcess

__all__ = ["DemoClient", "DemoResult"]

LINE: Final = 70
"""Characters of a thought that are shown."""

LIMIT_SECONDS: Final = 120.0
"""For all of it: it takes about five, but a first start reads a binary of 300 MB."""

REQUESTS: Final[ClientRequestHandlers] = {
    "fs/write_text_file": None,
    "fs/read_text_file": None,
    "session/request_permission": None,
    "terminal/create": None,
    "terminal/output": None,
    "terminal/release": None,
    "terminal/wait_for_exit": None,
    "terminal/kill": None,
    "elicitation/create": None,
}
"""Offers nothing: a command inside the sandbox needs no permission."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How the prompt ended and the text of each message that was received, in order."""

    stop_reason: str
    messages: tuple[str, ...]
    times: str


@dataclass(slots=True)
class _Received:
    """The text so far, and when it came (``time.monotonic``)."""

    texts: list[str] = field(default_factory=list)
    message_id: str | None = None
    updates: int = 0
    first_at: float | None = None
    outputs_shown: set[str] = field(default_factory=set)


class DemoClient:
    """Speaks with the agent in ``child``, to be made as soon as that was spawned.

    ``model`` is asked what Codex told it.
    """

    def __init__(self, screen: Screen, child: ChildProcess, model: ScriptedModel) -> None:
        self._screen = screen
        self._child = child
        self._model = model
        self._received = _Received()
        self._stop_reason = ""
        self._took: dict[str, float] = {}
        self._mark = time.monotonic()

    async def talk(self, cwd: str) -> DemoResult:
        """The whole conversation in ``cwd``, until the agent has ended.

        Raises the errors of `codex_acp.errors` as a call does, and TimeoutError.
        """
        try:
            with anyio.fail_after(LIMIT_SECONDS) as scope:
                self._screen.on_lost = scope.cancel
                self._stop_reason = await self._converse(cwd)
        except TimeoutError as error:
            message = f"nothing more happened within {LIMIT_SECONDS:g} seconds"
            raise TimeoutError(message) from error
        finally:
            await self._child.aclose()
        self._took["clean-up"] = time.monotonic() - self._mark
        if self._screen.lost:
            raise BrokenPipeError
        self._screen.stage("clean-up", f"the adapter has ended {_how(self._child.returncode)}")
        times = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self._took.items())
        return DemoResult(self._stop_reason, tuple(self._received.texts), times)

    async def _converse(self, cwd: str) -> str:
        connection = acp_connection(self._child, name="the adapter", on_line=self._screen.wire)
        async with ClientSide(connection, REQUESTS, self._notifications()) as agent:
            await self._initialize(agent)
            self._lap("spawn to initialize")
            session = await agent.session_new(NewSessionRequest(cwd=cwd, mcp_servers=[]))
            self._lap("session/new")
            self._screen.stage("session", session.session_id)
            self._screen.stage("prompt", PROMPT)
            params = PromptRequest(
                session_id=session.session_id, prompt=[TextContentBlock(text=PROMPT)]
            )
            stop_reason = str((await agent.session_prompt(params)).stop_reason)
            self._show_outputs()
            if self._received.first_at is not None:
                self._took["first text"] = self._received.first_at - self._mark
            self._lap("prompt")
            count = self._received.updates
            self._screen.stage("end", f"stop reason {stop_reason}, after {count} updates")
        # Leaving the block closed stdin and waited, boundedly, for the adapter and Codex to end.
        return stop_reason

    def _lap(self, name: str) -> None:
        """Note what the step took since the one before."""
        now = time.monotonic()
        self._took[name], self._mark = now - self._mark, now

    async def _initialize(self, agent: ClientSide) -> None:
        client = Implementation(name="codex-acp-sdk-demo", version=__version__)
        answer = await agent.initialize(
            InitializeRequest(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=client,
            )
        )
        info = answer.agent_info
        who = f"{info.name} {info.version}" if info is not None else "an agent without a name"
        self._screen.stage("initialize", f"answered by {who}, ACP v{answer.protocol_version}")

    def _notifications(self) -> ClientNotificationHandlers:
        return {
            "session/update": self._on_update,
            "elicitation/complete": None,
            "$/cancel_request": None,
        }

    def _on_update(self, notification: SessionNotification) -> None:
        from codex_acp.acp.types import AgentMessageChunkSessionUpdate

        received, update = self._received, notification.update
        received.updates += 1
        if not isinstance(update, AgentMessageChunkSessionUpdate):
            self._show_other(update)
            return
        if received.first_at is None:
            received.first_at = time.monotonic()
        if not received.texts or update.message_id != received.message_id:
            received.message_id = update.message_id
            received.texts.append("")
            self._show_outputs()
            self._screen.stage("message", "streamed:")
        if isinstance(update.content, TextContentBlock):
            received.texts[-1] += update.content.text
            self._screen.stream(update.content.text)

    def _show_other(self, update: SessionUpdate) -> None:
        """What is no text of the agent: its beginning, on one line."""
        from codex_acp.acp.types import (
            AgentThoughtChunkSessionUpdate,
            ToolCallSessionUpdate,
            ToolCallUpdateSessionUpdate,
        )

        if isinstance(update, ToolCallSessionUpdate):
            self._screen.stage("tool-call", update.title)
        elif isinstance(update, ToolCallUpdateSessionUpdate):
            if update.status is not None:
                self._screen.stage("tool-call", f"is {update.status}")
        elif isinstance(update, AgentThoughtChunkSessionUpdate) and isinstance(
            update.content, TextContentBlock
        ):
            line = " ".join(update.content.text.split())
            self._screen.stage("thought", line[:LINE] + "…" * (len(line) > LINE))

    def _show_outputs(self) -> None:
        """What Codex told the model of the commands that it ran."""
        for request in self._model.requests:
            for call_id, output in request.tool_outputs.items():
                if call_id not in self._received.outputs_shown:
                    self._received.outputs_shown.add(call_id)
                    self._screen.stage("command", "run by Codex, which told the model:")
                    self._screen.quote(output)


def _how(returncode: int | None) -> str:
    """Closing its stdin is enough, but on a busy machine `ChildProcess.aclose` has to press."""
    if returncode is not None and returncode < 0:
        return f"after signal {-returncode}"
    return f"by itself, status {returncode}"
