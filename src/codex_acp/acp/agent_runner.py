"""An agent in a few lines: one function that answers prompts, and a row for each further method.

Owns the handshake, the sessions' ids, and that a cancelled prompt turn ends as ACP wants it.
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import anyio

from codex_acp.acp import types
from codex_acp.acp._generated.v1.methods import (
    AGENT_NOTIFICATIONS,
    AGENT_REQUESTS,
    PROTOCOL_NOTIFICATIONS,
)
from codex_acp.acp.agent_of_both_versions import AgentOfBothVersions
from codex_acp.acp.capabilities import negotiated_version
from codex_acp.acp.conventions import acp_connection, check_known, stdio
from codex_acp.acp.dialects import methods_of
from codex_acp.acp.prompt_turn import PromptTurn
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        SomeAgentNotificationHandlers,
        SomeAgentRequestHandlers,
    )
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.transport.link import Link

    Answer = Callable[[PromptTurn], Awaitable[types.StopReason | None]]

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
        return types.InitializeResponse(
            protocol_version=negotiated_version(request.protocol_version),
            agent_capabilities=self._advertised(),
            agent_info=self.info,
            auth_methods=self.auth_methods,
        )

    def _advertised(self) -> types.AgentCapabilities:
        """Return the given capabilities, with those added that the handlers imply."""
        found = self._capabilities.model_copy()
        found.load_session = "session/load" in self.requests
        offered: dict[str, object] = {
            name: {} for name in _SESSION_METHODS if f"session/{name}" in self.requests
        }
        given = found.session_capabilities
        known = {} if given is None else given.model_dump(exclude_unset=True)
        found.session_capabilities = types.SessionCapabilities.model_validate({**known, **offered})
        return found

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
