"""An ACP client that answers as a script says, and keeps what it receives: to test an agent.

Owns the scripted answers. Starting the agent and the handshake are `codex_acp.acp.connect_agent`'s.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_acp.acp import connect_agent
from codex_acp.acp.client_side import outcome_of
from codex_acp.acp.types import (
    AcceptCreateElicitationResponse,
    AgentMessageChunkSessionUpdate,
    CancelNotification,
    ClientCapabilities,
    DeclineCreateElicitationResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    NewSessionRequest,
    PromptRequest,
    RequestPermissionResponse,
    TextContentBlock,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Self

    from codex_acp.acp import ConnectedAgent
    from codex_acp.acp.types import (
        CreateElicitationRequest,
        CreateElicitationResponse,
        PermissionOptionKind,
        RequestPermissionRequest,
        SessionNotification,
        SessionUpdate,
        StopReason,
    )
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.transport.link import Link


@dataclass
class ClientTurn:
    """Result of one prompt."""

    stop_reason: StopReason
    updates: list[SessionUpdate]
    """All updates of the session since the prompt was sent."""

    @property
    def text(self) -> str:
        """Return the text of the agent's messages."""
        return "".join(
            update.content.text
            for update in self.updates
            if isinstance(update, AgentMessageChunkSessionUpdate)
            and isinstance(update.content, TextContentBlock)
        )


@dataclass
class ScriptedClient:
    """``async with ScriptedClient(agent, ...) as client:`` has a session with the agent.

    ::

        async with ScriptedClient(["my-agent"], permissions=["allow_once"]) as client:
            turn = await client.prompt("Delete notes.txt")
            assert turn.text == "It is gone."

    ``agent`` is a command or a link. ``permissions`` are the answers to permission requests in
    order, each the kind of option to choose, or None to dismiss it; one that is not scripted is
    rejected. ``forms`` are the answers to elicitations: the content, or None to decline.
    """

    agent: Sequence[str] | Link
    permissions: Sequence[PermissionOptionKind | None] = ()
    forms: Sequence[Mapping[str, JsonValue] | None] = ()
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    asked: list[RequestPermissionRequest] = field(default_factory=list)
    """The permission requests that came, in order."""
    elicited: list[CreateElicitationRequest] = field(default_factory=list)
    """The elicitations that came, in order."""
    updates: list[SessionNotification] = field(default_factory=list)
    """Everything that the agent told, of all sessions."""

    connected: ConnectedAgent = field(init=False, repr=False)
    """The protocol itself: ``client.connected.side``."""
    session_id: str = field(init=False, repr=False)
    """Id of the first session."""

    def __post_init__(self) -> None:
        self._stack = AsyncExitStack()
        self._directory = str(Path(self.cwd or ".").absolute())

    async def __aenter__(self) -> Self:
        both = ElicitationCapabilities(
            form=ElicitationFormCapabilities(), url=ElicitationUrlCapabilities()
        )
        connecting = connect_agent(
            self.agent,
            name="scripted-client",
            requests={
                "session/request_permission": self._permission,
                "elicitation/create": self._elicitation,
            },
            notifications={"session/update": self.updates.append},
            capabilities=ClientCapabilities(elicitation=both),
            env=self.env,
            cwd=self.cwd,
        )
        async with AsyncExitStack() as stack:
            self.connected = await stack.enter_async_context(connecting)
            self.session_id = await self.new_session()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._stack.__aexit__(*exc)

    async def new_session(self) -> str:
        """Open another session and return its id. ``async with`` opens the first one."""
        request = NewSessionRequest(cwd=self._directory, mcp_servers=[])
        return (await self.connected.side.session_new(request)).session_id

    async def prompt(self, text: str, session_id: str | None = None) -> ClientTurn:
        """Send a prompt and wait for its end. Raises as the agent answers: ErrorReply."""
        session_id = self.session_id if session_id is None else session_id
        before = len(self.updates)
        request = PromptRequest(session_id=session_id, prompt=[TextContentBlock(text=text)])
        response = await self.connected.side.session_prompt(request)
        heard = [told.update for told in self.updates[before:] if told.session_id == session_id]
        return ClientTurn(response.stop_reason, heard)

    def cancel(self, session_id: str | None = None) -> None:
        """Cancel the prompt that runs."""
        session_id = self.session_id if session_id is None else session_id
        self.connected.side.session_cancel(CancelNotification(session_id=session_id))

    async def _permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        number = len(self.asked)
        self.asked.append(request)
        wanted = self.permissions[number] if number < len(self.permissions) else "reject_once"
        return RequestPermissionResponse(outcome=outcome_of(request.options, wanted))

    async def _elicitation(self, request: CreateElicitationRequest) -> CreateElicitationResponse:
        number = len(self.elicited)
        self.elicited.append(request)
        content = self.forms[number] if number < len(self.forms) else None
        if content is None:
            return DeclineCreateElicitationResponse()
        return AcceptCreateElicitationResponse(content=dict(content))
