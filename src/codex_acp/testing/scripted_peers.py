"""Play a scripted ACP agent or a scripted ACP client, to test the other side of ACP.

`codex_acp.acp.run_agent` and `codex_acp.acp.connect_agent` implement the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from codex_acp.acp import connect_agent, run_agent, types
from codex_acp.acp.client_side import outcome_of
from codex_acp.errors import TransportError
from codex_acp.transport.link import memory_pair
from codex_acp.transport.shielding import running_loop

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Self

    from codex_acp.acp import ConnectedAgent, PromptTurn
    from codex_acp.acp.types import (
        AgentCapabilities,
        CreateElicitationRequest,
        CreateElicitationResponse,
        PermissionOption,
        PermissionOptionKind,
        PromptRequest,
        RequestPermissionRequest,
        SessionNotification,
        SessionUpdate,
        StopReason,
        ToolKind,
    )
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.transport.link import Link


@dataclass(frozen=True)
class AskPermission:
    """A tool call that asks for a permission; `ScriptedAgent.allowed` gets the answer."""

    title: str
    kind: ToolKind = "execute"
    then: str = ""
    """Content of the tool call if it is allowed."""
    options: Sequence[PermissionOption] = ()
    """Options of the request; without any, "allow once" and "reject once"."""


@dataclass(frozen=True)
class UntilCancelled:
    """A wait until the client cancels the prompt."""


AgentStep: TypeAlias = "str | AskPermission | UntilCancelled | SessionUpdate"
"""One step of the agent; a text is a piece of its message."""


@dataclass
class ScriptedAgent:
    """An agent that plays a script: ``turns`` has the steps of each prompt, in order.

    ::

        agent = ScriptedAgent([["Hello ", "there."], [AskPermission("Run ls"), "Done."]])
        spec = AgentSpec(name="scripted", link=agent.link)      # for codex_acp.runtime
        async with connect_agent(agent.link(), name="me"): ...   # for the protocol itself

    A prompt without a turn in the script is answered at once. The agent runs on the test's event
    loop. Each call of `link` starts the agent again, with the rest of the script. ``stop_reason``
    ends every turn.
    """

    turns: Sequence[Sequence[AgentStep]] = ()
    name: str = "scripted"
    stop_reason: StopReason = "end_turn"
    capabilities: AgentCapabilities | None = None
    prompts: list[PromptRequest] = field(default_factory=list)
    """The prompts so far, in order."""
    allowed: list[bool] = field(default_factory=list)
    """The answers to `AskPermission`, in order."""
    cancelled: int = 0
    """Number of prompts that the client cancelled."""

    def __post_init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.waiting: asyncio.Event = asyncio.Event()
        """Set when a turn has reached `UntilCancelled`."""

    def link(self) -> Link:
        """Start the agent; return the client's end of a link to it."""
        near, far = memory_pair()
        task = running_loop().create_task(self._serve(far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return near

    async def _serve(self, link: Link) -> None:
        with contextlib.suppress(TransportError):
            await run_agent(self._answer, name=self.name, capabilities=self.capabilities, link=link)

    async def _answer(self, turn: PromptTurn) -> StopReason:
        number = len(self.prompts)
        self.prompts.append(turn.request)
        try:
            for step in self.turns[number] if number < len(self.turns) else ():
                await self._play_step(turn, step)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.stop_reason

    async def _play_step(self, turn: PromptTurn, step: AgentStep) -> None:
        if isinstance(step, str):
            turn.say(step)
        elif isinstance(step, AskPermission):
            await self._ask_permission(turn, step)
        elif isinstance(step, UntilCancelled):
            self.waiting.set()
            await anyio.sleep_forever()
        else:
            turn.update(step)

    async def _ask_permission(self, turn: PromptTurn, step: AskPermission) -> None:
        async with turn.tool_call(step.title, kind=step.kind) as call:
            answer = await (call.is_allowed(step.options) if step.options else call.is_allowed())
            self.allowed.append(answer)
            if answer and step.then:
                call.show(step.then)


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
            if isinstance(update, types.AgentMessageChunkSessionUpdate)
            and isinstance(update.content, types.TextContentBlock)
        )


@dataclass
class ScriptedClient:
    """A client with scripted answers. The start of its ``async with`` block opens a session.

    ::

        async with ScriptedClient(["my-agent"], permissions=["allow_once"]) as client:
            turn = await client.prompt("Delete notes.txt")
            assert turn.text == "It is gone."

    ``agent`` is a command or a link. ``permissions`` has the answers to permission requests, in
    order: the kind of option to choose, or None to cancel; further requests are rejected. ``forms``
    has the answers to elicitations, in order: the content, or None to decline.
    """

    agent: Sequence[str] | Link
    permissions: Sequence[PermissionOptionKind | None] = ()
    forms: Sequence[Mapping[str, JsonValue] | None] = ()
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    asked: list[RequestPermissionRequest] = field(default_factory=list)
    """The permission requests so far, in order."""
    elicited: list[CreateElicitationRequest] = field(default_factory=list)
    """The elicitations so far, in order."""
    updates: list[SessionNotification] = field(default_factory=list)
    """The updates of all sessions, in order."""

    connected: ConnectedAgent = field(init=False, repr=False)
    """The connection; ``client.connected.side`` has the methods of the protocol."""
    session_id: str = field(init=False, repr=False)
    """Id of the first session."""

    def __post_init__(self) -> None:
        self._stack = AsyncExitStack()
        self._directory = str(Path(self.cwd or ".").absolute())

    async def __aenter__(self) -> Self:
        both = types.ElicitationCapabilities(
            form=types.ElicitationFormCapabilities(), url=types.ElicitationUrlCapabilities()
        )
        connecting = connect_agent(
            self.agent,
            name="scripted-client",
            requests={
                "session/request_permission": self._answer_permission,
                "elicitation/create": self._answer_elicitation,
            },
            notifications={"session/update": self.updates.append},
            capabilities=types.ClientCapabilities(elicitation=both),
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
        """Open another session; return its id. ``async with`` opens the first session."""
        request = types.NewSessionRequest(cwd=self._directory, mcp_servers=[])
        return (await self.connected.side.session_new(request)).session_id

    async def prompt(self, text: str, session_id: str | None = None) -> ClientTurn:
        """Send a prompt, and wait for its end. Raises ErrorReply."""
        session_id = self.session_id if session_id is None else session_id
        before = len(self.updates)
        request = types.PromptRequest(
            session_id=session_id, prompt=[types.TextContentBlock(text=text)]
        )
        response = await self.connected.side.session_prompt(request)
        updates = [each.update for each in self.updates[before:] if each.session_id == session_id]
        return ClientTurn(response.stop_reason, updates)

    def cancel(self, session_id: str | None = None) -> None:
        """Cancel the running prompt."""
        session_id = self.session_id if session_id is None else session_id
        self.connected.side.session_cancel(types.CancelNotification(session_id=session_id))

    async def _answer_permission(
        self, request: RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        number = len(self.asked)
        self.asked.append(request)
        kind = self.permissions[number] if number < len(self.permissions) else "reject_once"
        return types.RequestPermissionResponse(outcome=outcome_of(request.options, kind))

    async def _answer_elicitation(
        self, request: CreateElicitationRequest
    ) -> CreateElicitationResponse:
        number = len(self.elicited)
        self.elicited.append(request)
        content = self.forms[number] if number < len(self.forms) else None
        if content is None:
            return types.DeclineCreateElicitationResponse()
        return types.AcceptCreateElicitationResponse(content=dict(content))
