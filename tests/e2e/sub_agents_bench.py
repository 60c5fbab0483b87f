"""The real command, the real Codex with its multi-agent tools, and a client of either version."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from codex_acp.testing import CodexHome, Fail, ScriptedModel, ToolCall
from codex_acp.testing.codex_home import SandboxMode
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.v2_bench import INFO
from tests.e2e_contract.contract_bench import Scenes

Json = dict[str, Any]

OLD: Final = "multi_agent_v1"
"""The tools that Codex offers where nothing is configured; a sub-agent may have its own."""

CONFIG: Final[Json] = {
    "features": {"multi_agent": True, "multi_agent_v2": True},
    "agents": {"max_depth": 3},
}


def spawn(task: str, name: str) -> ToolCall:
    """Start a sub-agent by the newer tools; the call's id is its name."""
    arguments = {"task_name": name, "message": task, "fork_turns": "none"}
    return ToolCall("spawn_agent", arguments, "collaboration", call_id=name)


def spawn_old(task: str, call: str) -> ToolCall:
    """The same by the older ones."""
    return ToolCall("spawn_agent", {"message": task}, OLD, call_id=call)


def wait(call: str) -> ToolCall:
    """Wait for news of a sub-agent."""
    return ToolCall("wait_agent", {"timeout_ms": 30_000}, "collaboration", call_id=call)


class LateModel(ScriptedModel):
    """One whose script may name what is known only when it runs."""

    def put(self, placeholder: str, text: str) -> None:
        """From now on it says ``text`` in place of the other."""
        old, new = placeholder.encode(), text.encode()
        for index, answer in enumerate(self._encoded):
            if not isinstance(answer, Fail):
                parts = (p.replace(old, new) if isinstance(p, bytes) else p for p in answer)
                self._encoded[index] = tuple(parts)


class SubAgentBench:
    """``with SubAgentBench(scenes, 1) as bench:`` has a session. ``capabilities`` are of v1."""

    def __init__(
        self,
        scenes: Scenes,
        version: int,
        capabilities: Json | None = None,
        config: Json = CONFIG,
        *,
        sandbox_mode: SandboxMode = "read-only",
    ) -> None:
        self._scenes, self.version = scenes, version
        self._capabilities = capabilities or {}
        self._config = config
        self._sandbox_mode: SandboxMode = sandbox_mode
        self._stack = ExitStack()
        self._mark = 0

    def __enter__(self) -> Self:
        """Start all of it."""
        with ExitStack() as stack:
            self.model = stack.enter_context(LateModel(self._scenes.responses))
            home = CodexHome(
                self.model.base_url, config=self._config, sandbox_mode=self._sandbox_mode
            )
            self.home = stack.enter_context(home)
            self.start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *ended: object) -> None:
        self._stack.__exit__(*ended)  # type: ignore[arg-type] # passed on as they came

    def start(self, stack: ExitStack | None = None) -> None:
        """An adapter and a new session."""
        record = ("--transcript", str(self.transcript), "--transcript-wire")
        adapter = RawAdapter(self.home.env, *record)
        self.adapter = (stack or self._stack).enter_context(adapter)
        said = "capabilities" if self.version == 2 else "clientCapabilities"
        who = "info" if self.version == 2 else "clientInfo"
        params = {"protocolVersion": self.version, who: INFO, said: self._capabilities}
        self.introduction = self.ask("initialize", params)
        self.session: str = self.ask("session/new", self.place)["sessionId"]

    @property
    def transcript(self) -> Path:
        """Where all is recorded, both wires included."""
        return self.home.root / "transcript.jsonl"

    @property
    def place(self) -> Json:
        """What every opening has."""
        return {"cwd": str(self.home.workspace), "mcpServers": []}

    def ask(self, method: str, params: Json) -> Json:
        """Send a request and wait for its result."""
        return self.adapter.result(method, params)

    def refused(self, method: str, params: Json) -> Json:
        """Send a request and wait for its error."""
        return self.adapter.error(method, params)

    def prompt(self, text: str) -> None:
        """Run a prompt to its end."""
        self.begin(text)
        self.end()

    def prompt_in(self, session: str, text: str, until: str | None = None) -> None:
        """Run a prompt of another session to its end, or until the agent has said something."""
        mark = len(self.adapter.messages)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        asked = self.adapter.start("session/prompt", prompt)
        if until is not None:
            self.adapter.leaves_open.add("session/prompt")
            said = {"type": "text", "text": until}
            self.wait(session, lambda u: u.get("content") == said, mark)
        elif self.version == 1:
            assert "result" in self.adapter.answer(asked)
        else:
            self.wait(session, lambda u: u.get("state") == "idle", mark)

    def begin(self, text: str) -> None:
        """Begin a prompt."""
        self._mark = len(self.adapter.messages)
        prompt = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
        self._asked = self.adapter.start("session/prompt", prompt)

    def answer(self) -> Json:
        """Wait for the answer to the prompt that was begun last."""
        return dict(self.adapter.answer(self._asked))

    def end(self) -> str:
        """Wait for its end: the stop reason."""
        if self.version == 1:
            answer = self.answer()
            assert "result" in answer, answer
            return str(answer["result"]["stopReason"])
        seen = self.wait(self.session, lambda u: u.get("state") == "idle", since=self._mark)
        return str(seen["stopReason"])

    def wait(self, session: str, wanted: Any, since: int = 0) -> Json:
        """Wait for an update of a session; one that has come since a mark counts."""

        def is_wanted(message: Message) -> bool:
            params = message.get("params", {}) if "method" in message else {}
            return params.get("sessionId") == session and bool(wanted(params.get("update", {})))

        for message in self.adapter.messages[since:]:
            if is_wanted(message):
                return dict(message["params"]["update"])
        return dict(self.adapter.wait_for(is_wanted)["params"]["update"])

    def asked(self, method: str) -> Message:
        """Wait for a request of the adapter; one that has come already counts."""

        def is_it(message: Message) -> bool:
            return message.get("method") == method

        return next(filter(is_it, self.adapter.messages), None) or self.adapter.wait_for(is_it)

    def updates(self, session: str | None = None, since: int = 0) -> list[Json]:
        """All updates of a session so far."""
        found: Sequence[Message] = self.adapter.messages[since:]
        of = session or self.session
        return [
            m["params"]["update"]
            for m in found
            if m.get("method") == "session/update" and m["params"]["sessionId"] == of
        ]

    def kinds(self, session: str, since: int = 0) -> list[str]:
        """Their kinds, neighbours of one kind once."""
        kinds = [u["sessionUpdate"] for u in self.updates(session, since)]
        return [k for k, before in zip(kinds, [None, *kinds], strict=False) if k != before]

    def children(self, session: str | None = None, since: int = 0) -> dict[str, Json]:
        """The sub-agents of a session as a client has put them together, by session id."""
        found: dict[str, Json] = {}
        for update in self.updates(session, since):
            if update["sessionUpdate"] == "subagent_update":
                found.setdefault(update["sessionId"], {}).update(update)
        return found

    def text(self, session: str, since: int = 0) -> str:
        """Return the words of an agent in a session."""
        told = self.updates(session, since)
        chunks = [u for u in told if u["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)
