"""How a program says who answers the app-server's requests: handlers, tools, a policy.

Owns the part of `CodexClient` for that, with a typed signature for each method, and that a policy
hears of each thread that begins. Must not know the connection. A test holds that every server
request of the schema has its signatures here.
"""

from __future__ import annotations

from codex_acp._typing import overload
from codex_acp.codex.approvals.approval_methods import APPROVAL_METHODS
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.errors import InvalidPayload, MisuseError

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

    from codex_acp.codex._generated import models
    from codex_acp.codex._generated import server_requests as asked
    from codex_acp.codex._generated.server_requests import RequestHandlers, ServerRequest
    from codex_acp.codex.approvals.handler_guard import HandlerGuard
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.approvals.policy_runner import PolicyRunner
    from codex_acp.codex.threads.tool_calls import ToolCalls
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.wire.model import WireModel

    _Request = TypeVar("_Request")
    _Answer = TypeVar("_Answer")
    _Function = TypeVar("_Function", bound=Callable[..., object])

    Handler: TypeAlias = Callable[[_Request], Awaitable[_Answer] | _Answer]
    """A handler: async, or a plain function that runs in a thread of its own."""

    class Registers(Protocol[_Request, _Answer]):
        """A decorator for a handler; gives it back as it is."""

        @overload
        def __call__(
            self, handler: Callable[[_Request], Awaitable[_Answer]], /
        ) -> Callable[[_Request], Awaitable[_Answer]]: ...
        @overload
        def __call__(
            self, handler: Callable[[_Request], _Answer], /
        ) -> Callable[[_Request], _Answer]: ...


TOOL_CALL: Final = "item/tool/call"

BEGIN_A_THREAD: Final = frozenset({"thread/start", "thread/resume", "thread/fork"})
"""Methods whose result tells the settings of a thread: whether Codex will ask at all."""


class RequestApi(AppServerConnection):
    """The side of `CodexClient` that answers."""

    _policy: PolicyRunner | None = None
    _handler_guard: HandlerGuard | None = None
    _handles_others = False
    _handles_tool_calls = False
    _tool_calls: ToolCalls | None = None

    @overload
    def handle(
        self,
        method: Literal["item/commandExecution/requestApproval"],
        handler: Handler[
            asked.ItemCommandExecutionRequestApproval,
            models.CommandExecutionRequestApprovalResponse,
        ],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["item/commandExecution/requestApproval"],
    ) -> Registers[
        asked.ItemCommandExecutionRequestApproval, models.CommandExecutionRequestApprovalResponse
    ]: ...
    @overload
    def handle(
        self,
        method: Literal["item/fileChange/requestApproval"],
        handler: Handler[
            asked.ItemFileChangeRequestApproval, models.FileChangeRequestApprovalResponse
        ],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["item/fileChange/requestApproval"],
    ) -> Registers[
        asked.ItemFileChangeRequestApproval, models.FileChangeRequestApprovalResponse
    ]: ...
    @overload
    def handle(
        self,
        method: Literal["item/tool/requestUserInput"],
        handler: Handler[asked.ItemToolRequestUserInput, models.ToolRequestUserInputResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["item/tool/requestUserInput"],
    ) -> Registers[asked.ItemToolRequestUserInput, models.ToolRequestUserInputResponse]: ...
    @overload
    def handle(
        self,
        method: Literal["mcpServer/elicitation/request"],
        handler: Handler[
            asked.McpServerElicitationRequest, models.McpServerElicitationRequestResponse
        ],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["mcpServer/elicitation/request"],
    ) -> Registers[
        asked.McpServerElicitationRequest, models.McpServerElicitationRequestResponse
    ]: ...
    @overload
    def handle(
        self,
        method: Literal["item/permissions/requestApproval"],
        handler: Handler[
            asked.ItemPermissionsRequestApproval, models.PermissionsRequestApprovalResponse
        ],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["item/permissions/requestApproval"],
    ) -> Registers[
        asked.ItemPermissionsRequestApproval, models.PermissionsRequestApprovalResponse
    ]: ...
    @overload
    def handle(
        self,
        method: Literal["item/tool/call"],
        handler: Handler[asked.ItemToolCall, models.DynamicToolCallResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["item/tool/call"],
    ) -> Registers[asked.ItemToolCall, models.DynamicToolCallResponse]: ...
    @overload
    def handle(
        self,
        method: Literal["account/chatgptAuthTokens/refresh"],
        handler: Handler[
            asked.AccountChatgptAuthTokensRefresh, models.ChatgptAuthTokensRefreshResponse
        ],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["account/chatgptAuthTokens/refresh"],
    ) -> Registers[
        asked.AccountChatgptAuthTokensRefresh, models.ChatgptAuthTokensRefreshResponse
    ]: ...
    @overload
    def handle(
        self,
        method: Literal["attestation/generate"],
        handler: Handler[asked.AttestationGenerate, models.AttestationGenerateResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["attestation/generate"],
    ) -> Registers[asked.AttestationGenerate, models.AttestationGenerateResponse]: ...
    @overload
    def handle(
        self,
        method: Literal["currentTime/read"],
        handler: Handler[asked.CurrentTimeRead, models.CurrentTimeReadResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["currentTime/read"],
    ) -> Registers[asked.CurrentTimeRead, models.CurrentTimeReadResponse]: ...
    @overload
    def handle(
        self,
        method: Literal["applyPatchApproval"],
        handler: Handler[asked.ApplyPatchApproval, models.ApplyPatchApprovalResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["applyPatchApproval"],
    ) -> Registers[asked.ApplyPatchApproval, models.ApplyPatchApprovalResponse]: ...
    @overload
    def handle(
        self,
        method: Literal["execCommandApproval"],
        handler: Handler[asked.ExecCommandApproval, models.ExecCommandApprovalResponse],
    ) -> None: ...
    @overload
    def handle(
        self,
        method: Literal["execCommandApproval"],
    ) -> Registers[asked.ExecCommandApproval, models.ExecCommandApprovalResponse]: ...
    @overload
    def handle(self, method: RequestHandlers) -> None: ...
    def handle(self, method: Any, handler: Any = None) -> Any:
        """Register the handler of a method; a later one replaces an earlier one.

        ``codex.handle("currentTime/read", read_clock)``, ``@codex.handle("currentTime/read")``
        above the function, or a mapping of several. The handler gets the typed request and returns
        the method's result model. An async one runs in a task of its own, after all that came in
        the same read was delivered to the sinks; any other one in a thread of its own: neither
        holds up the reader, and both may call back into the client. It raises RpcError to answer
        with that error; whatever else it raises becomes the method's refusal, or ``-32000`` where
        there is none. Without a handler a request is refused at once. So are, without the handler
        being asked, approvals that share thread and item id with one that is open or was allowed:
        the model chooses these ids, and Codex would take one answer for the other (the handler of
        the open one is cancelled, a turn with an allowed one is interrupted).

        Raises MisuseError for an unknown method, and for ``item/tool/call`` if tools are in use.
        """
        if not isinstance(method, str):
            for name, function in method.items():
                self._register(name, function)
            return None
        if handler is not None:
            self._register(method, handler)
            return None

        def register(function: Any) -> Any:
            self._register(method, function)
            return function

        return register

    def _register(self, method: str, handler: Any) -> None:
        from codex_acp.codex.approvals.callbacks import as_async

        if method == TOOL_CALL:
            if self._tool_calls is not None:
                message = f"tools are in use: they answer {TOOL_CALL}"
                raise MisuseError(message)
            self._handles_tool_calls = True
        handler = as_async(handler)
        rows: Any = {method: self._guarded(handler) if method in APPROVAL_METHODS else handler}
        self._requests.handle(rows)

    def _guarded(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        guard = self._guard

        async def handle(request: Any) -> Any:
            return await guard.guarded(request, handler)

        return handle

    @property
    def _guard(self) -> HandlerGuard:
        if self._handler_guard is None:
            from codex_acp.codex.approvals.handler_guard import HandlerGuard
            from codex_acp.codex.approvals.policies import deny_all

            self._handler_guard = HandlerGuard(self, deny_all, self._on_refused)
            self.subscribe_all(self._handler_guard)
        return self._handler_guard

    def handle_others(
        self, handler: Callable[[ServerRequest], Awaitable[WireModel]] | None
    ) -> None:
        """Register what handles every method without a handler of its own; None for nothing.

        Raises MisuseError if a policy does that: see `use_policy`.
        """
        if self._policy is not None:
            message = "a policy handles the other methods; register handlers by method"
            raise MisuseError(message)
        self._handles_others = handler is not None
        super().handle_others(None if handler is None else self._guarded(handler))

    def use_policy(self, policy: Policy) -> None:
        """Let ``policy`` decide approvals; a later one replaces it, see `codex_acp.codex.Policy`.

        Use it before the first turn: what it has not seen start it declines. It takes every method
        without a handler of its own, and answers those that are no approvals with their negative
        reply. When a thread starts under settings in which Codex never asks, one warning says so.

        Raises MisuseError if `handle_others` is in use.
        """
        if self._policy is not None:
            self._policy.policy = policy
            return
        if self._handles_others:
            message = "handle_others is in use; a policy would take its place"
            raise MisuseError(message)
        self._policy = self._guard
        self._policy.policy = policy
        super().handle_others(self._policy.handle)

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> Callable[[_Function], _Function]: ...
    def tool(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Offer a Python function to the model, in every thread that is started from now on.

        ``@codex.tool``, or ``@codex.tool(name=...)``; the function is given back as it is. What
        makes a function a tool, and what the options mean: `codex_acp.codex.tool`, which also
        makes tools for single threads. Codex calls these dynamic tools; they are experimental.

        Raises MisuseError if the function cannot be a tool, or its name is taken.
        """
        from codex_acp.codex.threads.tools import tool

        def offer(function: Any) -> Any:
            made = tool(function, name=name, description=description, timeout=timeout)
            self.add_tools([made])
            return function

        return offer if function is None else offer(function)

    def add_tools(self, tools: Iterable[Tool | Callable[..., object]]) -> None:
        """Offer these in every thread that is started from now on. Raises as `tool`."""
        self.tool_calls.add(tools)

    @property
    def tool_calls(self) -> ToolCalls:
        """What runs the tools. Raises MisuseError if a handler for ``item/tool/call`` is there."""
        if self._tool_calls is None:
            if self._handles_tool_calls:
                message = f"a handler for {TOOL_CALL} is registered; it would get the tools' calls"
                raise MisuseError(message)
            from codex_acp.codex.threads.tool_calls import ToolCalls

            self._tool_calls = calls = ToolCalls()
            self.subscribe_all(calls)
            self._requests.handle({TOOL_CALL: calls.handle})
        return self._tool_calls

    @property
    def has_tools(self) -> bool:
        """Whether a tool was ever offered."""
        return self._tool_calls is not None

    # Calls.

    async def call_raw(
        self, method: str, params: JsonValue = None, *, settled: bool = True
    ) -> JsonValue:
        """See `AppServerConnection.call_raw`.

        A thread that is begun and not ``settled`` is given its settings later; then
        `thread_settled` is for the caller.
        """
        value = await super().call_raw(method, params)
        if settled:
            self.thread_settled(method, value)
        return value

    def thread_settled(self, method: str, answer: JsonValue) -> None:
        """Warn once if the `policy` can never be asked in the thread that ``method`` has begun."""
        if self._policy is None or method not in BEGIN_A_THREAD:
            return
        try:
            begun = self.decode_result(method, answer)
        except InvalidPayload:
            return  # whoever called finds out by itself
        self._policy.thread_started(begun)

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        result = await super()._call(method, params)
        if self._policy is not None and method in BEGIN_A_THREAD:
            self._policy.thread_started(result)
        return result
