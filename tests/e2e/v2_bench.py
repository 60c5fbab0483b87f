"""The real command under a client of ACP v2 that writes and reads plain JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final, Self

from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Step
from codex_acp.testing.codex_home import SandboxMode
from tests.e2e.raw_adapter import RawAdapter

Json = dict[str, Any]

INFO: Final = {"name": "v2-tests", "version": "1"}
ALL: Final[Json] = {"elicitation": {"form": {}, "url": {}}}


class V2Bench:
    """``with V2Bench(script) as bench:`` has an adapter that speaks v2, and a session."""

    def __init__(
        self,
        script: Iterable[ModelResponse | Iterable[Step]] = (),
        *,
        sandbox_mode: SandboxMode = "read-only",
        capabilities: Json = ALL,
    ) -> None:
        self._script = script
        self._sandbox_mode: SandboxMode = sandbox_mode
        self._capabilities = capabilities
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start all of it."""
        with ExitStack() as stack:
            self.model = stack.enter_context(ScriptedModel(self._script))
            home = CodexHome(self.model.base_url, sandbox_mode=self._sandbox_mode)
            self.home = stack.enter_context(home)
            self.begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *ended: object) -> None:
        self._stack.__exit__(*ended)  # type: ignore[arg-type] # passed on as they came

    def begin(self, stack: ExitStack | None = None) -> None:
        """An adapter (another one, from the second time on) and a session of it."""
        self.adapter = (stack or self._stack).enter_context(RawAdapter(self.home.env))
        params = {"protocolVersion": 2, "info": INFO, "capabilities": self._capabilities}
        self.introduction = self.adapter.ask("initialize", params)["result"]
        self.opened = self.ask("session/new", {"cwd": str(self.home.workspace)})
        self.session: str = self.opened["sessionId"]

    def leave(self) -> None:
        """The client disconnects, and the adapter has ended."""
        self.adapter.end_input()
        self.adapter.wait()

    def ask(self, method: str, params: Json) -> Json:
        """Send a request and wait for its result."""
        return self.adapter.result(method, params)

    def refused(self, method: str, params: Json) -> Json:
        """Send a request and wait for its error."""
        return self.adapter.error(method, params)

    def prompt(self, text: str = "Go.") -> str:
        """The id of a prompt's message, once it has its place."""
        prompt = [{"type": "text", "text": text}]
        answer = self.ask("session/prompt", {"sessionId": self.session, "prompt": prompt})
        message_id: str = answer["messageId"]
        return message_id

    def until(self, kind: str, **fields: object) -> Json:
        """See `RawAdapter.until`."""
        return self.adapter.until(kind, None, **fields)

    def idle(self) -> Json:
        """Wait until a prompt that was taken is over."""
        while True:
            last = (self.adapter.updates("state_update") or [{}])[-1]
            if last.get("state") == "idle":
                return last
            self.adapter.wait_for(lambda m: m.get("method") == "session/update")

    def asked(self, method: str) -> Json:
        """Wait for a request of the agent."""
        return self.adapter.wait_for(lambda m: m.get("method") == method)

    def answer(self, request: Json, result: Json) -> None:
        """Answer a request of the agent."""
        self.adapter.send({"id": request["id"], "result": result})

    @property
    def updates(self) -> list[Json]:
        """All updates so far."""
        return self.adapter.updates()

    def states(self) -> list[str]:
        """The states so far."""
        return [u["state"] for u in self.adapter.updates("state_update")]

    def text(self) -> str:
        """The agent's messages so far."""
        chunks = self.adapter.updates("agent_message_chunk")
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def conversation(self) -> dict[str, tuple[str, str]]:
        """Each message and terminal as a client has put it together, by its id: who, and text."""
        found: dict[str, tuple[str, str]] = {}
        for update in self.updates:
            kind = update["sessionUpdate"].removesuffix("_chunk").removesuffix("_output")
            key = str(update.get("messageId") or update.get("terminalId"))
            if kind in ("user_message", "agent_message", "agent_thought"):
                content = update["content"]
                whole = isinstance(content, list)
                text = "".join(each["text"] for each in (content if whole else [content]))
            elif kind in ("terminal", "terminal_update"):
                whole = "output" in update
                data = update["output"]["data"] if whole else update.get("data", "")
                kind, text = "terminal", base64.b64decode(data).decode()
            else:
                continue
            found[key] = (kind, text if whole else found.get(key, (kind, ""))[1] + text)
        return found

    def call(self, call_id: str) -> Json:
        """A tool call as a client has put it together: what is given replaces, null clears."""
        call: Json = {}
        for update in self.adapter.updates("tool_call_update"):
            if update["toolCallId"] == call_id:
                call |= update
        return call

    def calls(self) -> list[str]:
        """The tool calls in the order of their first update."""
        of_calls = self.adapter.updates("tool_call_update")
        return list(dict.fromkeys(u["toolCallId"] for u in of_calls))

    def terminal(self, terminal_id: str) -> Json:
        """The same of a terminal; ``output`` is text."""
        terminal: Json = {"output": ""}
        for update in self.updates:
            if update.get("terminalId") != terminal_id:
                continue
            if update["sessionUpdate"] == "terminal_output_chunk":
                terminal["output"] += base64.b64decode(update["data"]).decode()
            else:
                rest = {key: value for key, value in update.items() if key != "output"}
                terminal |= rest
        return terminal
