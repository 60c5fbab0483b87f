"""Register a program's handlers, tools and policy, which answer the app-server's requests.

Owns this part of `CodexClient`, and passes each new thread to the policy runner. The overloads of
`handle` are generated. Must not know how a request arrives.
"""

from __future__ import annotations

from codex_acp._lazy import overload
from codex_acp.codex._generated.handler_registration import HandlerRegistration
from codex_acp.codex.connection.app_server_connection import OPEN_A_THREAD, AppServerConnection
from codex_acp.errors import InvalidPayload, MisuseError, refuse_unless

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any, Final, TypeVar

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.approvals.policy_runner import PolicyRunner
    from codex_acp.codex.threads.tools import Tool, ToolCalls
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.wire.model import WireModel

    _Function = TypeVar("_Function", bound=Callable[..., object])

TOOL_CALL: Final = "item/tool/call"

BEGIN_A_TURN: Final = frozenset({"turn/start", "review/start"})
"""Methods that start a turn."""

APPROVAL_METHODS: Final = frozenset({
    "applyPatchApproval", "execCommandApproval", "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval", "item/permissions/requestApproval",
    "item/tool/requestUserInput", "mcpServer/elicitation/request",
})  # fmt: skip
"""The server requests that may ask whether an action may run."""


class RequestApi(HandlerRegistration, AppServerConnection):
    """The part of `CodexClient` that answers requests; `AppServerConnection` sets ``_requests``
    and ``_on_refused``."""

    _runner: PolicyRunner | None = None
    _has_policy = False
    _handles_others = False
    _handles_tool_calls = False
    _tool_calls: ToolCalls | None = None

    def _register(self, method: str, handler: Any) -> None:
        """Register a handler; called by the generated `handle`."""
        from codex_acp.codex.approvals.callbacks import as_async

        refuse_unless(callable(handler), f"the handler of {method} is a function", handler)
        if method == TOOL_CALL:
            if self._tool_calls is not None:
                raise MisuseError(f"tools are in use: they answer {TOOL_CALL}")
            self._handles_tool_calls = True
        handler = as_async(handler)
        rows: Any = {method: self._guarded(handler) if method in APPROVAL_METHODS else handler}
        self._requests.handle(rows)

    def _guarded(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Wrap ``handler`` in the policy runner, which refuses requests that share an id."""
        runner = self._policy_runner

        async def handle(request: Any) -> Any:
            return await runner.guarded(request, handler)

        return handle

    @property
    def _policy_runner(self) -> PolicyRunner:
        """Return the runner. Made at the first use, the runner then follows the connection, and
        denies every approval until it gets a policy."""
        if self._runner is None:
            from codex_acp.codex.approvals.policies import deny_all
            from codex_acp.codex.approvals.policy_runner import PolicyRunner

            self._runner = PolicyRunner(self, deny_all, self._on_refused)
            self.subscribe_all(self._runner)
        return self._runner

    def handle_others(
        self, handler: Callable[[ServerRequest], Awaitable[WireModel] | WireModel] | None
    ) -> None:
        """Register the handler of all methods without one of their own, async or not; None removes
        it.

        Raises MisuseError if a policy handles them (`use_policy`).
        """
        if self._has_policy:
            raise MisuseError("a policy handles the other methods; register handlers by method")
        self._handles_others = handler is not None
        if handler is None:
            super().handle_others(None)
        else:
            from codex_acp.codex.approvals.callbacks import as_async

            refuse_unless(callable(handler), "the handler of other methods is a function", handler)
            super().handle_others(self._guarded(as_async(handler)))

    def use_policy(self, policy: Policy, thread_id: str | None = None) -> None:
        """Let ``policy`` decide approvals, in place of an earlier one (`codex_acp.codex.Policy`).

        With ``thread_id`` it decides for this thread and its sub-agents, in place of the client's
        policy; `Threads.start` takes a policy, too. A fork of the thread has the client's policy.

        Call this before the first turn: the client declines requests of turns whose start it
        missed. The policy runner handles every method without a handler of its own, and refuses
        requests that are no approvals. It logs one warning when a thread starts with settings under
        which Codex never asks.

        Raises MisuseError if ``policy`` is no policy, or `handle_others` is in use.
        """
        self.must_be_usable(policy)
        refuse_unless(isinstance(thread_id, str | None), "a thread is named by its id", thread_id)
        runner = self._policy_runner
        if not self._has_policy:
            self._has_policy = True
            super().handle_others(runner.handle)
        if thread_id is None:
            runner.policy = policy
        else:
            runner.thread_policies[thread_id] = policy

    def must_be_usable(self, policy: Policy) -> None:
        """Raise MisuseError if `use_policy` would refuse ``policy``."""
        from codex_acp.codex.approvals.policies import Policy  # loaded already if it is a policy

        examples = "allow_commands([...]), ask(callback)"
        refuse_unless(
            isinstance(policy, Policy), f"a policy is {examples} or another Policy", policy
        )
        if not self._has_policy and self._handles_others:
            raise MisuseError("handle_others is in use; a policy would take its place")

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

        Used as ``@codex.tool`` or ``@codex.tool(name=...)``; returns the function unchanged.
        `codex_acp.codex.tool` describes the options, and makes tools for single threads. Codex
        calls these dynamic tools; they are experimental.

        Raises MisuseError if the function cannot be a tool, or its name is taken.
        """
        from codex_acp.codex.threads.tools import tool

        def offer(function: Any) -> Any:
            self.add_tools([tool(function, name=name, description=description, timeout=timeout)])
            return function

        return offer if function is None else offer(function)

    def add_tools(self, tools: Iterable[Tool | Callable[..., object]]) -> None:
        """Offer ``tools`` in every thread that is started from now on. Raises as `tool` does."""
        self.tool_calls.add(tools)

    @property
    def tool_calls(self) -> ToolCalls:
        """Return the runner of the tools. Raises MisuseError if a handler answers their calls."""
        if self._tool_calls is None:
            if self._handles_tool_calls:
                message = f"a handler for {TOOL_CALL} is registered; it would get the tools' calls"
                raise MisuseError(message)
            from codex_acp.codex.threads.tools import ToolCalls

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
        """Call a method with plain JSON, as `AppServerConnection.call_raw` does.

        ``settled`` False: the caller will change the settings of the thread that the call opens,
        and then call `thread_settled`.
        """
        self._follow_turns(method)
        value = await super().call_raw(method, params)
        if settled:
            self.thread_settled(method, value)
        return value

    def _follow_turns(self, method: str) -> None:
        """Let the policy runner follow turns, because a model may reach other sessions' threads."""
        if method in BEGIN_A_TURN:
            _ = self._policy_runner  # the runner is made here, and follows the connection

    def reached_elsewhere(self, turn_id: str) -> tuple[str, ...]:
        """Return the threads of other sessions that the model of an interrupted turn has reached.

        A Codex with hooks refuses such calls instead (docs/contract.md, 3.9c).
        """
        return () if self._runner is None else self._runner.foreign_reach.reached.get(turn_id, ())

    def _ancestors_of(self, thread_id: str) -> list[str]:
        """Return the threads above a sub-agent, as far as the policy runner follows them."""
        return [] if self._runner is None else self._runner.items.ancestors_of(thread_id)

    def thread_settled(self, method: str, answer: JsonValue) -> None:
        """Let the policy runner warn if Codex can never ask the policy in the opened thread."""
        if not self._has_policy or method not in OPEN_A_THREAD:
            return
        try:
            opened = self.decode_result(method, answer)
        except InvalidPayload:
            return  # the caller of `call_raw` decodes the answer, too
        self._policy_runner.thread_started(opened, opened.thread.id)

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        self._follow_turns(method)
        result = await super()._call(method, params)
        if self._has_policy and method in OPEN_A_THREAD:  # as in `thread_settled`, but decoded
            self._policy_runner.thread_started(result, result.thread.id)
        return result
