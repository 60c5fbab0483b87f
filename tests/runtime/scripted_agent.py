"""An ACP agent whose handlers are the test's own functions, at the other end of a memory link."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from codex_acp.acp import AgentSide, acp_connection
from codex_acp.acp.types import (
    AgentCapabilities,
    AgentMessageChunkSessionUpdate,
    AuthenticateRequest,
    AuthenticateResponse,
    CancelNotification,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    ForkSessionRequest,
    ForkSessionResponse,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionNotification,
    SessionUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
    TextContentBlock,
)
from codex_acp.runtime import AgentSpec
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.acp.tables import agent_notifications, agent_requests


def chunk(text: str, message_id: str | None = None) -> AgentMessageChunkSessionUpdate:
    update = AgentMessageChunkSessionUpdate(content=TextContentBlock(text=text))
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
        self.capabilities = AgentCapabilities(
            load_session=load,
            session_capabilities=SessionCapabilities.model_validate(session or {}),
            **capabilities,
        )
        self.calls: list[str] = []
        self.starts = 0
        self.initialized_with: list[InitializeRequest] = []
        self.prompts: list[PromptRequest] = []
        self.cancelled = asyncio.Event()
        self.side: AgentSide
        self.links: list[MemoryLink] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.can_fork = "fork" in (session or {})
        self.forks: list[ForkSessionRequest] = []
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
        requests, notifications = agent_requests(), agent_notifications()
        requests["initialize"] = self._initialize
        requests["authenticate"] = self._noted("authenticate", "on_authenticate")
        requests["session/new"] = self._noted("session/new", "on_new")
        requests["session/load"] = self._noted("session/load", "on_load")
        requests["session/resume"] = self._noted("session/resume", "on_resume")
        requests["session/list"] = self._noted("session/list", "on_list")
        requests["session/close"] = self._noted("session/close", "on_close")
        requests["session/delete"] = self._noted("session/delete", "on_delete")
        requests["session/prompt"] = self._noted("session/prompt", "on_prompt")
        requests["session/set_mode"] = self._noted("session/set_mode", "on_mode")
        set_option = self._noted("session/set_config_option", "on_option")
        requests["session/set_config_option"] = set_option
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

    def say(self, session_id: str, *updates: SessionUpdate | str) -> None:
        for update in updates:
            body = chunk(update) if isinstance(update, str) else update
            self.side.session_update(SessionNotification(session_id=session_id, update=body))

    async def on_initialize(self) -> None:
        """Before it is answered."""

    async def on_authenticate(self, request: AuthenticateRequest) -> AuthenticateResponse:
        del request
        return AuthenticateResponse()

    async def on_new(self, request: NewSessionRequest) -> NewSessionResponse:
        del request
        self._sessions += 1
        return NewSessionResponse(session_id=f"s{self._sessions}")

    async def on_load(self, request: LoadSessionRequest) -> LoadSessionResponse:
        del request
        return LoadSessionResponse()

    async def on_resume(self, request: ResumeSessionRequest) -> ResumeSessionResponse:
        del request
        return ResumeSessionResponse()

    async def on_list(self, request: ListSessionsRequest) -> ListSessionsResponse:
        del request
        return ListSessionsResponse(sessions=[])

    async def on_close(self, request: CloseSessionRequest) -> CloseSessionResponse:
        del request
        return CloseSessionResponse()

    async def on_delete(self, request: DeleteSessionRequest) -> DeleteSessionResponse:
        del request
        return DeleteSessionResponse()

    async def on_prompt(self, request: PromptRequest) -> PromptResponse:
        self.say(request.session_id, "Hello.")
        return PromptResponse(stop_reason="end_turn")

    async def on_mode(self, request: SetSessionModeRequest) -> SetSessionModeResponse:
        del request
        return SetSessionModeResponse()

    async def on_option(
        self, request: SetSessionConfigOptionRequest
    ) -> SetSessionConfigOptionResponse:
        del request
        return SetSessionConfigOptionResponse(config_options=[])

    def on_cancel(self, notification: CancelNotification) -> None:
        self.calls.append(f"session/cancel {notification.session_id}")
        self.cancelled.set()

    async def until_cancelled(self) -> PromptResponse:
        await self.cancelled.wait()
        self.cancelled.clear()
        return PromptResponse(stop_reason="cancelled")

    async def _initialize(self, request: InitializeRequest) -> InitializeResponse:
        self.calls.append("initialize")
        self.initialized_with.append(request)
        await self.on_initialize()
        return InitializeResponse(protocol_version=1, agent_capabilities=self.capabilities)

    async def _fork(self, request: ForkSessionRequest) -> ForkSessionResponse:
        self.forks.append(request)
        return ForkSessionResponse(session_id=f"fork-of-{request.session_id}")

    def _noted(self, method: str, name: str) -> Callable[[Any], Awaitable[Any]]:
        async def run(request: Any) -> object:
            self.calls.append(method)
            if method == "session/prompt":
                self.prompts.append(request)
            return await getattr(self, name)(request)

        return run
