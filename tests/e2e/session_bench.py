"""Sessions that outlive a process: one home and one scripted model, any number of adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Step
from codex_acp.testing.codex_home import SandboxMode
from tests.e2e.raw_adapter import Message, RawAdapter


class SessionBench:
    """``with SessionBench(script) as bench, bench.adapter() as adapter:``."""

    def __init__(
        self,
        script: Iterable[ModelResponse | Iterable[Step]] = (),
        *,
        sandbox_mode: SandboxMode = "read-only",
        mcp_servers: Mapping[str, Mapping[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = ScriptedModel(script)
        self._sandbox_mode: SandboxMode = sandbox_mode
        self._mcp_servers = mcp_servers
        self._config = config
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.model)
        home = CodexHome(
            self.model.base_url,
            sandbox_mode=self._sandbox_mode,
            mcp_servers=self._mcp_servers,
            config=self._config,
        )
        self.home = self._stack.enter_context(home)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)

    @contextmanager
    def adapter(self, env: Mapping[str, str] | None = None) -> Iterator[RawAdapter]:
        """A process that is initialized."""
        with RawAdapter({**self.home.env, **(env or {})}) as adapter:
            adapter.initialize()
            yield adapter

    def new(self, adapter: RawAdapter, **more: object) -> str:
        """``session/new`` in the workspace; the session's id."""
        params = {"cwd": str(self.home.workspace), "mcpServers": [], **more}
        session_id: str = adapter.ask("session/new", params)["result"]["sessionId"]
        return session_id

    def ask(self, adapter: RawAdapter, method: str, session_id: str, **more: object) -> Message:
        """A request that opens a stored session in the workspace; its answer."""
        where = {"cwd": str(self.home.workspace), "mcpServers": []}
        return adapter.ask(method, {"sessionId": session_id, **where, **more})

    def run(self, adapter: RawAdapter, session_id: str, text: str) -> str:
        """A prompt to its end; what the agent said in it."""
        before = len(adapter.messages)
        answer = adapter.answer(adapter.start_prompt(session_id, text))
        assert answer.get("result", {}).get("stopReason") == "end_turn", answer
        return said_by("agent", updates_of(adapter.messages[before:], session_id))


def updates_of(messages: Iterable[Message], session_id: str) -> list[Message]:
    """The updates of one session."""
    return [
        message["params"]["update"]
        for message in messages
        if message.get("method") == "session/update"
        and message["params"]["sessionId"] == session_id
    ]


def said_by(who: str, updates: Iterable[Message]) -> str:
    """The text of the ``agent``'s or the ``user``'s messages."""
    kind = f"{who}_message_chunk"
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == kind)


def tool_calls(updates: Iterable[Message]) -> dict[str, Message]:
    """Each tool call as a client has it in the end: fields that are given replace."""
    calls: dict[str, Message] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            fields = {key: value for key, value in update.items() if key != "sessionUpdate"}
            calls.setdefault(update["toolCallId"], {}).update(fields)
    return calls


def shown_history(updates: Iterable[Message]) -> list[tuple[str, str]]:
    """What was said and done, in order: joined messages by who said them, and tool calls."""
    found: list[tuple[str, str]] = []
    for update in updates:
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "user_message_chunk"):
            who, text = kind.split("_")[0], update["content"]["text"]
            if found and found[-1][0] == who:
                text = found.pop()[1] + text
            found.append((who, text))
        elif kind == "tool_call":
            found.append(("tool", update["title"]))
    return found


def until(adapter: RawAdapter, holds: Callable[[list[Message]], object]) -> None:
    """Wait for messages until it holds of all that have come."""
    while not holds(adapter.messages):
        adapter.wait_for(lambda _: True)


def answer_to(adapter: RawAdapter, request_id: int) -> Message:
    """The answer to a request, which may have come before another one that was waited for."""
    found: list[Message] = []

    def is_there(messages: list[Message]) -> bool:
        found[:] = [m for m in messages if "method" not in m and m.get("id") == request_id]
        return bool(found)

    until(adapter, is_there)
    return found[0]
