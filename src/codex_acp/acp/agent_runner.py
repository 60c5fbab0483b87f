"""Run an agent in a few lines: a function that answers prompts, and handlers of further methods.

Owns the handshake, the ids of the sessions, the end of a cancelled prompt, and short forms of the
usual updates. For a client of version 2, `serve_v2_client` converts the calls; a client of version
1 does not load that module.
Source: ACP pages "Prompt Turn" and "Tool Calls".
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast, get_args

import anyio

from codex_acp.acp import types
from codex_acp.acp._generated.v1 import methods
from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.capabilities import PROTOCOL_VERSION, implementation, negotiated_version
from codex_acp.acp.dialects import complete_rows
from codex_acp.acp.side import acp_connection, stdio
from codex_acp.errors import RpcError, refuse_unless, several
from codex_acp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from codex_acp.transport.shielding import awaited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        SomeAgentNotificationHandlers,
        SomeAgentRequestHandlers,
    )
    from codex_acp.acp.dialects import AgentHandlers
    from codex_acp.acp.serve_v2_client import V1AgentAsV2
    from codex_acp.errors import TransportError
    from codex_acp.transport.connection import Connection
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

    Reason = types.StopReason | None
    Answer = Callable[["PromptTurn"], Awaitable[Reason] | Reason]
    Handler = Callable[[Any], Awaitable[Any]]


ALLOW: Final = types.PermissionOption(option_id="allow", name="Allow", kind="allow_once")
REJECT: Final = types.PermissionOption(option_id="reject", name="Reject", kind="reject_once")


class PromptTurn:
    """A prompt that the agent answers. All updates reach the client before the answer does."""

    def __init__(self, side: AgentSide, request: types.PromptRequest) -> None:
        self.side = side
        """The client's methods, for all calls without a short form here."""
        self.request = request
        self.session_id: str = request.session_id

    def __repr__(self) -> str:
        return f"PromptTurn({self.session_id!r})"

    @property
    def text(self) -> str:
        """The texts of the prompt, joined; other content is in ``request.prompt``."""
        blocks = self.request.prompt
        return "".join(block.text for block in blocks if isinstance(block, types.TextContentBlock))

    def say(self, text: str) -> None:
        """Send a piece of the agent's message. Raises MisuseError for a value that is no text."""
        self.update(types.AgentMessageChunkSessionUpdate(content=_block(text)))

    def think(self, text: str) -> None:
        """Send a piece of the agent's reasoning. Raises as `say`."""
        self.update(types.AgentThoughtChunkSessionUpdate(content=_block(text)))

    def plan(self, steps: Mapping[str, types.PlanEntryStatus]) -> None:
        """Send the whole plan, a status for each step. Raises MisuseError for another value."""
        wanted = "a plan is {step: 'pending', 'in_progress' or 'completed'}"
        statuses = [*steps.values()] if hasattr(steps, "values") else [None]
        are_known = all(status in get_args(types.PlanEntryStatus) for status in statuses)
        refuse_unless(are_known and all(isinstance(step, str) for step in steps), wanted, steps)
        entries = [
            types.PlanEntry(content=content, status=status, priority="medium")
            for content, status in steps.items()
        ]
        self.update(types.PlanSessionUpdate(entries=entries))

    def tool_call(
        self, title: str, *, kind: types.ToolKind = "other", raw_input: object = None
    ) -> TurnToolCall:
        """Announce a tool call; see `TurnToolCall`."""
        return TurnToolCall(self, title, kind, raw_input)

    def update(self, update: types.SessionUpdate) -> None:
        """Send any ``session/update``."""
        self.side.session_update(
            types.SessionNotification(session_id=self.session_id, update=update)
        )


class TurnToolCall:
    """A tool call of the turn. The context manager ends it: completed, or failed if it raises.

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
        refuse_unless(isinstance(title, str), "the title of a tool call is a text", title)
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

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not self._ended:
            self.end("completed" if error is None else "failed")

    async def is_allowed(self, options: Sequence[types.PermissionOption] = (ALLOW, REJECT)) -> bool:
        """Ask the person for permission. Return whether the person chose an option of ``options``
        that allows; if not, the tool call ends as failed. Raises ErrorReply or TransportError if
        the client cannot be asked."""
        request = types.RequestPermissionRequest(
            session_id=self._turn.session_id,
            tool_call=types.ToolCallUpdate(tool_call_id=self.id, title=self._title),
            options=list(several("options", options)),
        )
        outcome = (await self._turn.side.session_request_permission(request)).outcome
        kinds = ("allow_once", "allow_always")
        allowing = {option.option_id for option in options if option.kind in kinds}
        match outcome:
            case types.SelectedRequestPermissionOutcome(option_id=chosen) if chosen in allowing:
                self._set_status("in_progress")
                return True
        self.end("failed")
        return False

    def show(self, *content: str | types.ToolCallContent) -> None:
        """Replace the content that the tool call shows: texts, diffs, terminals."""
        pieces = [
            types.ContentToolCallContent(content=_block(part)) if isinstance(part, str) else part
            for part in content
        ]
        self._turn.update(types.ToolCallUpdateSessionUpdate(tool_call_id=self.id, content=pieces))

    def end(self, status: types.ToolCallStatus) -> None:
        """End the tool call with ``status``; the context manager then sends no other."""
        self._ended = True
        self._set_status(status)

    def _set_status(self, status: types.ToolCallStatus) -> None:
        self._turn.update(types.ToolCallUpdateSessionUpdate(tool_call_id=self.id, status=status))


def _block(text: str) -> types.TextContentBlock:
    refuse_unless(isinstance(text, str), "an agent sends texts here", text)
    return types.TextContentBlock(text=text)


_SESSION_METHODS: Final = ("list", "delete", "resume", "close")
"""Methods ``session/…`` that an object of the same name in ``sessionCapabilities`` advertises."""
TERMINAL_HINT: Final = (
    "an ACP agent, which a client starts; try it: codex-acp-sdk run --command '...' Hello"
)
"""Line on stderr for a person who starts the agent in a terminal: the agent waits for a client."""


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

    ``answer`` gets each prompt as a `PromptTurn` and returns the stop reason; None means
    ``end_turn``. The call is cancelled when the client cancels the prompt. ``requests`` and
    ``notifications`` have the handlers of further methods, see `AgentSide`; a method without a
    handler is answered -32601 and not advertised. ``capabilities`` adds what the handlers do not
    imply: the content of prompts, MCP transports. Printed text goes to stderr: stdout belongs to
    the protocol.

    The connection uses the highest version of ACP that the client has, or ``protocol_version``
    alone; `PromptTurn`, handlers and models are version 1 either way. With a client of version 2,
    calls for its files or terminals raise ErrorReply -32601, and modes are not sent. A second
    prompt of a session then waits until the first has ended.

    Raises MisuseError for a method that ACP does not have, and for a handler that is no function;
    TransportError if the connection broke.
    """
    refuse_unless(callable(answer), "an agent answers prompts by a function", answer)
    rows = complete_rows("request", requests or {}, methods.AGENT_REQUESTS)
    known = {**methods.AGENT_NOTIFICATIONS, **methods.PROTOCOL_NOTIFICATIONS}
    all_notifications = complete_rows("notification", notifications or {}, known)
    wanted = "capabilities are AgentCapabilities(...)"
    refuse_unless(isinstance(capabilities, types.AgentCapabilities | None), wanted, capabilities)
    introduction = types.InitializeResponse(
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=capabilities or types.AgentCapabilities(),
        agent_info=implementation(name, version),
        auth_methods=list(several("auth_methods", auth_methods)),
    )
    refuse_unless(link is None or hasattr(link, "start"), "link is a Link", link)
    if link is None and os.isatty(0) and sys.stderr is not None:
        sys.stderr.write(f"{name}: {TERMINAL_HINT}\n")
    agent = _Agent(answer, rows, introduction)
    side = agent.side = AgentOfBothVersions(
        acp_connection(stdio() if link is None else link, name="the client"),
        cast("AgentRequestHandlers", agent.requests),
        cast("AgentNotificationHandlers", all_notifications | {"session/cancel": agent.cancel}),
        (1, 2) if protocol_version is None else (protocol_version,),
    )
    await side.run()


class AgentOfBothVersions(AgentSide):
    """An agent that may speak any of ``versions``, with handlers of version 1: ``requests`` and
    ``notifications``."""

    def __init__(
        self,
        connection: Connection,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
        versions: Collection[int],
    ) -> None:
        self._handlers_of_v1 = (requests, notifications)
        self._as_v2: V1AgentAsV2 | None = None
        super().__init__(
            connection,
            requests if 1 in versions else None,
            notifications if 1 in versions else None,
            v2=self._handlers_of_v2 if 2 in versions else None,
        )

    def _handlers_of_v2(self) -> AgentHandlers:
        from codex_acp.acp.serve_v2_client import V1AgentAsV2

        self._as_v2 = V1AgentAsV2(self, self._spawn, *self._handlers_of_v1)
        return self._as_v2.handlers()

    def _spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start a task that may outlive its request and ends with the connection."""
        assert self._tasks is not None
        self._tasks.create_task(work())

    def on_closed(self, error: TransportError | None) -> None:
        """Do what `Side` does; then cancel the prompts of version 2, which no request waits for."""
        super().on_closed(error)
        if self._as_v2 is not None:
            self._as_v2.cancel_all()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        if self._as_v2 is None or self.version != 2:
            return await super()._call(method, params)
        return await self._as_v2.call_client(method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        if self._as_v2 is None or self.version != 2:
            super()._notify(method, params)
        else:
            self._as_v2.notify_client(method, params)


class _Agent:
    """The handlers of `run_agent`, which sets ``side``. ``requests`` has the program's handlers,
    and None for the other methods."""

    side: AgentSide

    def __init__(
        self, answer: Answer, requests: dict[str, Any], introduction: types.InitializeResponse
    ) -> None:
        self._answer = answer
        self._introduction = introduction
        self._turns: dict[str, anyio.CancelScope | None] = {}
        """Id of an open session → the scope of its running turn, or None."""
        own = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/prompt": self._prompt,
        }
        self.requests = requests
        for method, handler in requests.items():
            if handler is None:
                requests[method] = own.get(method)
            elif method in ("session/new", "session/load", "session/resume"):
                requests[method] = self._wrap_opening(handler)
            elif method in ("session/close", "session/delete"):
                requests[method] = self._wrap_closing(handler)

    async def _initialize(self, request: types.InitializeRequest) -> types.InitializeResponse:
        offered = {method for method, handler in self.requests.items() if handler is not None}
        response = self._introduction.model_copy(deep=True)
        response.protocol_version = negotiated_version(request.protocol_version)
        capabilities = response.agent_capabilities or types.AgentCapabilities()
        capabilities.load_session = "session/load" in offered
        extra = capabilities.session_capabilities
        of_sessions = {} if extra is None else extra.model_dump(exclude_unset=True)
        of_sessions |= {name: {} for name in _SESSION_METHODS if f"session/{name}" in offered}
        capabilities.session_capabilities = types.SessionCapabilities.model_validate(of_sessions)
        response.agent_capabilities = capabilities
        return response

    async def _new_session(self, request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        session_id = secrets.token_urlsafe(12)
        self._turns[session_id] = None
        return types.NewSessionResponse(session_id=session_id)

    def _wrap_opening(self, handler: Handler) -> Handler:
        """Wrap the program's handler that opens a session: note the session's id."""

        async def run(request: Any) -> Any:
            response = await awaited(handler(request))
            opened = response if hasattr(response, "session_id") else request
            self._turns.setdefault(opened.session_id, None)
            return response

        return run

    def _wrap_closing(self, handler: Handler) -> Handler:
        """Wrap the program's handler that closes a session: cancel the turn, refuse prompts."""

        async def run(request: Any) -> Any:
            session_id = request.session_id
            was_open, scope = session_id in self._turns, self._turns.pop(session_id, None)
            if scope is not None:
                scope.cancel()
            try:
                return await awaited(handler(request))
            except BaseException:
                if was_open:  # the handler failed, so the session stays open
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
                reason = await awaited(self._answer(PromptTurn(self.side, request)))
            finally:
                if self._turns.get(session_id) is scope:
                    self._turns[session_id] = None
        if scope.cancelled_caught:
            reason = "cancelled"
        wanted = "a prompt's answer is a stop reason or None (`turn.say` sends a text)"
        refuse_unless(reason in (None, *get_args(types.StopReason)), wanted, reason)
        return types.PromptResponse(stop_reason=reason or "end_turn")

    def cancel(self, notification: types.CancelNotification) -> None:
        """Handle ``session/cancel``: cancel the turn that runs."""
        scope = self._turns.get(notification.session_id)
        if scope is not None:
            scope.cancel()
