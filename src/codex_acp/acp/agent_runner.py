"""Run an agent in a few lines: one function that answers prompts, a row for each further method.

Owns the handshake, the sessions' ids, that a cancelled prompt turn ends as ACP wants it, the shape
of the usual updates, and which calls of the agent go another way where version 2 is spoken; what
the client asks there, `serve_v2_client` answers. Nothing of version 2 is loaded for a client of
version 1.
Source: ACP pages "Prompt Turn" and "Tool Calls".
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

import anyio

from codex_acp.acp import types
from codex_acp.acp._generated.v1.methods import (
    AGENT_NOTIFICATIONS,
    AGENT_REQUESTS,
    PROTOCOL_NOTIFICATIONS,
)
from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.capabilities import negotiated_version
from codex_acp.acp.dialects import check_known, methods_of
from codex_acp.acp.side import acp_connection, stdio
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
    from types import TracebackType

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        SomeAgentNotificationHandlers,
        SomeAgentRequestHandlers,
    )
    from codex_acp.acp.dialects import AgentHandlers
    from codex_acp.acp.serve_v2_client import AgentInVersion2
    from codex_acp.errors import TransportError
    from codex_acp.transport.connection import Connection
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

    Answer = Callable[["PromptTurn"], Awaitable[types.StopReason | None]]


ALLOW: Final = types.PermissionOption(option_id="allow", name="Allow", kind="allow_once")


REJECT: Final = types.PermissionOption(option_id="reject", name="Reject", kind="reject_once")


class PromptTurn:
    """A prompt that is being answered. What is sent here reaches the client before its answer."""

    def __init__(self, side: AgentSide, request: types.PromptRequest) -> None:
        self.side = side
        """The client, for everything that has no shorter form here."""
        self.request = request
        self.session_id: str = request.session_id

    def __repr__(self) -> str:
        return f"PromptTurn({self.session_id!r})"

    @property
    def text(self) -> str:
        """The texts of the prompt, joined; other content is in ``request.prompt``."""
        parts = self.request.prompt
        return "".join(part.text for part in parts if isinstance(part, types.TextContentBlock))

    def say(self, text: str) -> None:
        """A piece of the agent's message."""
        self.update(types.AgentMessageChunkSessionUpdate(content=types.TextContentBlock(text=text)))

    def think(self, text: str) -> None:
        """A piece of the agent's reasoning."""
        self.update(types.AgentThoughtChunkSessionUpdate(content=types.TextContentBlock(text=text)))

    def plan(self, steps: Mapping[str, types.PlanEntryStatus]) -> None:
        """The whole plan: what is to be done → where it stands."""
        entries = [
            types.PlanEntry(content=content, status=status, priority="medium")
            for content, status in steps.items()
        ]
        self.update(types.PlanSessionUpdate(entries=entries))

    def tool_call(
        self, title: str, *, kind: types.ToolKind = "other", raw_input: object = None
    ) -> TurnToolCall:
        """Announce a tool call. ``async with`` says how it ended; see `TurnToolCall`."""
        return TurnToolCall(self, title, kind, raw_input)

    def update(self, update: types.SessionUpdate) -> None:
        """Any ``session/update``."""
        self.side.session_update(
            types.SessionNotification(session_id=self.session_id, update=update)
        )


class TurnToolCall:
    """A tool call of the turn; as a context manager it ends completed, or failed by an exception.

    ::

        async with turn.tool_call("Delete notes.txt", kind="delete") as call:
            if await call.is_allowed():
                ...
                call.show("deleted")
    """

    def __init__(
        self, turn: PromptTurn, title: str, kind: types.ToolKind, raw_input: object
    ) -> None:
        self.id: str = f"call-{secrets.token_hex(8)}"
        self._turn = turn
        self._title = title
        self._ended = False
        announced = types.ToolCallSessionUpdate(
            tool_call_id=self.id, title=title, kind=kind, status="pending"
        )
        if raw_input is not None:
            announced.raw_input = raw_input
        turn.update(announced)

    def __repr__(self) -> str:
        return f"TurnToolCall({self._title!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended:
            self.end("completed" if error is None else "failed")

    async def is_allowed(self, options: Sequence[types.PermissionOption] = (ALLOW, REJECT)) -> bool:
        """Ask the person. True only for an option of ``options`` that allows; the tool call is
        failed otherwise. Raises ErrorReply or TransportError if the client cannot be asked.
        """
        request = types.RequestPermissionRequest(
            session_id=self._turn.session_id,
            tool_call=types.ToolCallUpdate(tool_call_id=self.id, title=self._title),
            options=list(options),
        )
        outcome = (await self._turn.side.session_request_permission(request)).outcome
        kinds = ("allow_once", "allow_always")
        allowing = {option.option_id for option in options if option.kind in kinds}
        match outcome:
            case types.SelectedRequestPermissionOutcome(option_id=chosen) if chosen in allowing:
                self._send(status="in_progress")
                return True
        self.end("failed")
        return False

    def show(self, *content: str | types.ToolCallContent) -> None:
        """Replace what it shows: texts, diffs, terminals."""
        self._send(
            content=[
                types.ContentToolCallContent(content=types.TextContentBlock(text=part))
                if isinstance(part, str)
                else part
                for part in content
            ]
        )

    def end(self, status: types.ToolCallStatus) -> None:
        """Say how it ended, where the context manager's own word is not right."""
        self._ended = True
        self._send(status=status)

    def _send(
        self,
        *,
        status: types.ToolCallStatus | None = None,
        content: list[types.ToolCallContent] | None = None,
    ) -> None:
        update = types.ToolCallUpdateSessionUpdate(tool_call_id=self.id)
        if status is not None:
            update.status = status
        if content is not None:
            update.content = content
        self._turn.update(update)


_ASKED: Final = methods_of(AGENT_REQUESTS, unstable=False)
_HEARD: Final = methods_of({**AGENT_NOTIFICATIONS, **PROTOCOL_NOTIFICATIONS}, unstable=False)

_SESSION_METHODS: Final = ("list", "delete", "resume", "close")
"""Methods that are advertised by an object of their own in ``sessionCapabilities``."""


BY_HAND: Final = (
    "an ACP agent, which a client starts; try it: codex-acp-sdk run --command '...' Hello"
)
"""For somebody who starts it in a terminal and would see nothing at all."""


async def run_agent(
    answer: Answer,
    *,
    name: str,
    version: str = "0",
    requests: SomeAgentRequestHandlers | None = None,
    notifications: SomeAgentNotificationHandlers | None = None,
    capabilities: types.AgentCapabilities | None = None,
    auth_methods: Sequence[types.AuthMethod] = (),
    link: Link | None = None,
    protocol_version: Literal[1, 2] | None = None,
) -> None:
    """Serve one client until it disconnects: on stdin and stdout, or on ``link``.

    ``answer`` gets each prompt as a `PromptTurn` and returns its stop reason; None is
    ``end_turn``. It is cancelled when the client cancels the prompt. ``requests`` and
    ``notifications`` have the handlers of further methods, see `AgentSide`; a method without one is
    answered -32601 and not advertised. ``capabilities`` says what cannot be seen from them: the
    content of prompts, MCP transports. What is printed goes to stderr: stdout is the protocol's.

    The highest version of ACP that the client has is spoken, or ``protocol_version`` alone; what
    the agent is written with, `PromptTurn`, handlers and models, is version 1 either way. A client
    of version 2 has no files or terminals to lend (such a call raises ErrorReply -32601), is told
    of no modes, and may send a second prompt while one runs: it waits for its place.

    Raises MisuseError for a method that ACP does not have, TransportError if the connection broke.
    """
    if link is None and os.isatty(0) and sys.stderr is not None:
        sys.stderr.write(f"{name}: {BY_HAND}\n")
    agent = _Agent(answer, requests or {}, capabilities or types.AgentCapabilities())
    agent.info = types.Implementation(name=name, version=version)
    agent.auth_methods = list(auth_methods)
    table: dict[str, object] = {**dict.fromkeys(_ASKED), **agent.requests}
    heard: dict[str, object] = {
        **dict.fromkeys(_HEARD),
        **(notifications or {}),
        "session/cancel": agent.cancel,
    }
    check_known("notification", heard, _HEARD)
    side = agent.side = AgentOfBothVersions(
        acp_connection(stdio() if link is None else link, name="the client"),
        cast("AgentRequestHandlers", table),
        cast("AgentNotificationHandlers", heard),
        (1, 2) if protocol_version is None else (protocol_version,),
    )
    await side.run()


class AgentOfBothVersions(AgentSide):
    """``requests`` and ``notifications`` are those of version 1; ``versions`` may be spoken."""

    def __init__(
        self,
        connection: Connection,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
        versions: Collection[int],
    ) -> None:
        self._rows = (requests, notifications)
        self._in_v2: AgentInVersion2 | None = None
        super().__init__(
            connection,
            requests if 1 in versions else None,
            notifications if 1 in versions else None,
            v2=self._handlers if 2 in versions else None,
        )

    def _handlers(self) -> AgentHandlers:
        from codex_acp.acp.serve_v2_client import AgentInVersion2

        self._in_v2 = AgentInVersion2(self, self._spawn, *self._rows)
        return self._in_v2.handlers()

    def _spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start what outlives a request; it ends with the connection."""
        assert self._tasks is not None
        self._tasks.create_task(work())

    def on_closed(self, error: TransportError | None) -> None:
        """End the prompts of version 2, which are no open requests, and all else as `Side`."""
        super().on_closed(error)
        if self._in_v2 is not None:
            self._in_v2.leave()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        if self._in_v2 is None or self.version != 2:
            return await super()._call(method, params)
        return await self._in_v2.ask_client(method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        if self._in_v2 is None or self.version != 2:
            super()._notify(method, params)
        else:
            self._in_v2.tell_client(method, params)


class _Agent:
    side: AgentSide
    info: types.Implementation
    auth_methods: list[types.AuthMethod]

    def __init__(
        self,
        answer: Answer,
        requests: SomeAgentRequestHandlers,
        capabilities: types.AgentCapabilities,
    ) -> None:
        check_known("request", requests, _ASKED)
        self._answer = answer
        self._capabilities = capabilities
        self._turns: dict[str, anyio.CancelScope | None] = {}
        """Session id → its running turn."""
        mine = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/prompt": self._prompt,
        }
        self.requests: dict[str, Any] = {**mine, **requests}
        for method in ("session/new", "session/load", "session/resume"):
            if method in requests:
                self.requests[method] = self._noting(self.requests[method])
        for method in ("session/close", "session/delete"):
            if method in requests:
                self.requests[method] = self._ending(self.requests[method])

    async def _initialize(self, request: types.InitializeRequest) -> types.InitializeResponse:
        found = self._capabilities.model_copy()
        found.load_session = "session/load" in self.requests
        offered: dict[str, object] = {
            name: {} for name in _SESSION_METHODS if f"session/{name}" in self.requests
        }
        given = found.session_capabilities
        known = {} if given is None else given.model_dump(exclude_unset=True)
        found.session_capabilities = types.SessionCapabilities.model_validate({**known, **offered})
        return types.InitializeResponse(
            protocol_version=negotiated_version(request.protocol_version),
            agent_capabilities=found,
            agent_info=self.info,
            auth_methods=self.auth_methods,
        )

    async def _new_session(self, request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        session_id = secrets.token_urlsafe(12)
        self._turns[session_id] = None
        return types.NewSessionResponse(session_id=session_id)

    def _noting(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """A handler of the author's that opens a session, whose id is in its answer or request."""

        async def run(request: Any) -> Any:
            response = await handler(request)
            opened = response if hasattr(response, "session_id") else request
            self._turns.setdefault(opened.session_id, None)
            return response

        return run

    def _ending(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """A handler of the author's that ends a session: its turn ends, and none begins in it."""

        async def run(request: Any) -> Any:
            session_id = request.session_id
            was_open, scope = session_id in self._turns, self._turns.pop(session_id, None)
            if scope is not None:
                scope.cancel()
            try:
                return await handler(request)
            except BaseException:
                if was_open:  # it still is
                    self._turns.setdefault(session_id, None)
                raise

        return run

    async def _prompt(self, request: types.PromptRequest) -> types.PromptResponse:
        session_id = request.session_id
        if session_id not in self._turns:
            raise RpcError(INVALID_PARAMS, f"sessionId: there is no session {session_id!r}")
        if self._turns[session_id] is not None:
            raise RpcError(INVALID_REQUEST, "a prompt turn of this session is still running")
        with anyio.CancelScope() as scope:
            self._turns[session_id] = scope
            try:
                reason = await self._answer(PromptTurn(self.side, request))
            finally:
                if self._turns.get(session_id) is scope:
                    self._turns[session_id] = None
        if scope.cancelled_caught:
            return types.PromptResponse(stop_reason="cancelled")
        return types.PromptResponse(stop_reason=reason or "end_turn")

    def cancel(self, notification: types.CancelNotification) -> None:
        """``session/cancel``: the turn that runs, if one does."""
        scope = self._turns.get(notification.session_id)
        if scope is not None:
            scope.cancel()
