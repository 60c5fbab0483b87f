"""An ACP agent whose handlers are the test's own functions, at the other end of a memory link."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from codex_acp.acp import AgentSide, acp_connection, types
from codex_acp.runtime import AgentSpec
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.acp.tables import agent_notifications, agent_requests

METHODS: dict[str, tuple[str, Any]] = {
    "authenticate": ("authenticate", types.AuthenticateResponse()),
    "new": ("session/new", None),
    "load": ("session/load", types.LoadSessionResponse()),
    "resume": ("session/resume", types.ResumeSessionResponse()),
    "list": ("session/list", types.ListSessionsResponse(sessions=[])),
    "close": ("session/close", types.CloseSessionResponse()),
    "delete": ("session/delete", types.DeleteSessionResponse()),
    "prompt": ("session/prompt", None),
    "mode": ("session/set_mode", types.SetSessionModeResponse()),
    "option": (
        "session/set_config_option", types.SetSessionConfigOptionResponse(config_options=[])
    ),
}  # fmt: skip
"""Name in `ScriptedAgent.on` → the method, and its answer without a handler ``on_NAME``."""


def chunk(text: str, message_id: str | None = None) -> types.AgentMessageChunkSessionUpdate:
    update = types.AgentMessageChunkSessionUpdate(content=types.TextContentBlock(text=text))
    if message_id is not None:
        update.message_id = message_id
    return update


class ScriptedAgent:
    """``spec()`` connects to it; each connection is one start. `on` replaces handlers.

    ``calls`` are the methods that were called, in order. ``side`` is the last connection.
    """

    def __init__(
        self, *, load: bool = False, session: dict[str, Any] | None = None, **capabilities: Any
    ) -> None:
        self.capabilities = types.AgentCapabilities(
            load_session=load,
            session_capabilities=types.SessionCapabilities.model_validate(session or {}),
            **capabilities,
        )
        self.calls: list[str] = []
        self.starts = 0
        self.initialized_with: list[types.InitializeRequest] = []
        self.prompts: list[types.PromptRequest] = []
        self.cancelled = asyncio.Event()
        self.side: AgentSide
        self.links: list[MemoryLink] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.can_fork = "fork" in (session or {})
        self.forks: list[types.ForkSessionRequest] = []
        self._sessions = 0

    def on(self, **handlers: Callable[..., Any]) -> None:
        """Replace handlers: ``on(prompt=f)`` makes ``f`` the agent's ``on_prompt``."""
        vars(self).update({f"on_{name}": handler for name, handler in handlers.items()})

    def spec(self, **options: Any) -> AgentSpec:
        return AgentSpec(name="scripted", link=self.connect, **options)

    def connect(self) -> MemoryLink:
        near, far = memory_pair()
        self.starts += 1
        self.links.append(far)
        requests: Any = agent_requests()
        notifications = agent_notifications()
        requests["initialize"] = self._initialize
        for name, (method, answer) in METHODS.items():
            requests[method] = self._noted(method, f"on_{name}", answer)
        notifications["session/cancel"] = self.on_cancel
        self.side = AgentSide(
            acp_connection(far, name="the client"),
            requests,
            notifications,
            unstable={"session/fork": self._fork} if self.can_fork else None,
        )
        task = asyncio.get_running_loop().create_task(self.side.run())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return near

    def say(self, session_id: str, *updates: types.SessionUpdate | str) -> None:
        for update in updates:
            body = chunk(update) if isinstance(update, str) else update
            self.side.session_update(types.SessionNotification(session_id=session_id, update=body))

    async def on_initialize(self) -> None:
        """Before it is answered."""

    async def on_new(self, request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        self._sessions += 1
        return types.NewSessionResponse(session_id=f"s{self._sessions}")

    async def on_prompt(self, request: types.PromptRequest) -> types.PromptResponse:
        self.say(request.session_id, "Hello.")
        return types.PromptResponse(stop_reason="end_turn")

    def on_cancel(self, notification: types.CancelNotification) -> None:
        self.calls.append(f"session/cancel {notification.session_id}")
        self.cancelled.set()

    async def until_cancelled(self) -> types.PromptResponse:
        await self.cancelled.wait()
        self.cancelled.clear()
        return types.PromptResponse(stop_reason="cancelled")

    async def _initialize(self, request: types.InitializeRequest) -> types.InitializeResponse:
        self.calls.append("initialize")
        self.initialized_with.append(request)
        await self.on_initialize()
        return types.InitializeResponse(protocol_version=1, agent_capabilities=self.capabilities)

    async def _fork(self, request: types.ForkSessionRequest) -> types.ForkSessionResponse:
        self.forks.append(request)
        return types.ForkSessionResponse(session_id=f"fork-of-{request.session_id}")

    def _noted(self, method: str, name: str, answer: Any) -> Callable[[Any], Awaitable[Any]]:
        async def run(request: Any) -> object:
            self.calls.append(method)
            if method == "session/prompt":
                self.prompts.append(request)
            handler = getattr(self, name, None)
            return answer if handler is None else await handler(request)

        return run
