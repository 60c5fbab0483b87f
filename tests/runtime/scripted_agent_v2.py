"""An agent of version 2 whose prompts are the test's own functions, on a memory link."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from codex_acp.acp import AgentSide, acp_connection, v2
from codex_acp.runtime import AgentSpec
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.acp.tables_v2 import ME, agent_notifications, agent_requests

Json = dict[str, Any]

OPTIONS: list[Json] = [
    {
        "type": "select", "configId": "model", "name": "Model", "category": "model",
        "currentValue": "m1",
        "options": [
            {"groupId": "g", "name": "Some", "options": [{"value": "m1", "name": "One"}]},
            {"groupId": "h", "name": "More", "options": [{"value": "m2", "name": "Two"}]},
        ],
    },
    {"type": "boolean", "configId": "fast", "name": "Fast", "currentValue": False},
    {"type": "_dial", "configId": "dial", "name": "Dial", "currentValue": 11},
]  # fmt: skip
COMMANDS: list[Json] = [
    {
        "type": "command",
        "name": "plan",
        "description": "Plan",
        "input": {"type": "text", "hint": "what"},
    },
    {"type": "_macro", "name": "m", "description": "Macro"},
]  # fmt: skip


def chunk(text: str) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": content}


class ScriptedAgentV2:
    """``spec()`` connects to it. ``on_prompt`` is what a prompt does once it was inserted."""

    def __init__(self) -> None:
        self.asked: list[v2.WireModel] = []
        self.cancelled = asyncio.Event()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.on_prompt: Callable[[str], Awaitable[None]] = self.nothing
        self.on_resume: Callable[[], None] = lambda: None
        self.early: Callable[[str], None] = lambda _: None
        """What is said before the prompt is answered."""
        self.side: AgentSide
        self._prompts = 0

    def spec(self, **options: Any) -> AgentSpec:
        return AgentSpec(name="scripted", link=self.connect, **options)

    def connect(self) -> MemoryLink:
        near, far = memory_pair()
        requests, notifications = agent_requests(), agent_notifications()
        requests["initialize"] = self._initialize
        requests["auth/login"] = self._login
        requests["session/new"] = self._new
        requests["session/resume"] = self._resume
        requests["session/list"] = self._list
        requests["session/close"] = self._close
        requests["session/delete"] = self._delete
        requests["session/prompt"] = self._prompt
        requests["session/set_config_option"] = self._option
        notifications["session/cancel"] = self._cancel
        self.side = AgentSide(
            acp_connection(far, name="the client"),
            None,
            None,
            v2=v2.AgentHandlers(requests, notifications),
        )
        self.start(self.side.run())
        return near

    def start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def say(self, *updates: Json | str) -> None:
        """Updates as they are on the wire; a text is a chunk of the agent's message."""
        for update in updates:
            body = chunk(update) if isinstance(update, str) else update
            self.side.v2.session_update(
                v2.UpdateSessionNotification.model_validate({"sessionId": "s1", "update": body})
            )

    def state(self, state: str, **more: Any) -> None:
        self.say({"sessionUpdate": "state_update", "state": state, **more})

    def echo(self, message_id: str) -> None:
        self.say({"sessionUpdate": "user_message", "messageId": message_id, "content": []})

    async def nothing(self, message_id: str) -> None:
        self.echo(message_id)
        self.state("running")
        self.state("idle", stopReason="end_turn")

    async def _initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        self.asked.append(request)
        said = {
            "protocolVersion": 2,
            "info": {"name": ME.name, "version": ME.version},
            "capabilities": {"session": {"delete": {}, "prompt": {"image": {}}}},
            "authMethods": [
                {"type": "agent", "methodId": "web", "name": "Web"},
                {"type": "_card", "methodId": "card", "name": "Card"},
            ],
        }
        return v2.InitializeResponse.model_validate(said)

    async def _login(self, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        self.asked.append(request)
        return v2.LoginAuthResponse()

    async def _new(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        self.asked.append(request)
        said = {"sessionId": "s1", "configOptions": OPTIONS, "availableCommands": COMMANDS}
        return v2.NewSessionResponse.model_validate(said)

    async def _resume(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        self.asked.append(request)
        self.on_resume()
        said = {"configOptions": OPTIONS, "availableCommands": COMMANDS}
        return v2.ResumeSessionResponse.model_validate(said)

    async def _list(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        self.asked.append(request)
        return v2.ListSessionsResponse(sessions=[v2.SessionInfo(session_id="s1", cwd="/w")])

    async def _close(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        self.asked.append(request)
        return v2.CloseSessionResponse()

    async def _delete(self, request: v2.DeleteSessionRequest) -> v2.DeleteSessionResponse:
        self.asked.append(request)
        return v2.DeleteSessionResponse()

    async def _option(
        self, request: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        assert not isinstance(request, v2.UnknownVariant)
        self.asked.append(request)
        options = [
            {**option, "currentValue": request.value}
            if option["configId"] == request.config_id
            else option
            for option in OPTIONS
        ]
        return v2.SetSessionConfigOptionResponse.model_validate({"configOptions": options})

    async def _prompt(self, request: v2.PromptRequest) -> v2.PromptResponse:
        self.asked.append(request)
        self._prompts += 1
        message_id = f"u{self._prompts}"
        self.early(message_id)
        self.start(self.on_prompt(message_id))
        return v2.PromptResponse(message_id=message_id)

    def _cancel(self, notification: v2.CancelSessionNotification) -> None:
        self.asked.append(notification)
        self.cancelled.set()
