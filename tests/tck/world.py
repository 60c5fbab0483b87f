"""An agent of any make, at the end of a pipe, beside a throw-away Codex and a scripted model."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, Self

from codex_acp.testing import CodexHome, Gate, ModelRequest, ModelResponse, ScriptedModel, Text
from tests.support.acp_schema import problems_of_message

Json = dict[str, Any]

ANSWER_SECONDS: Final = 60.0
"""For one answer, on a machine that does other things too."""

HELLO: Final[dict[int, Json]] = {
    1: {"protocolVersion": 1, "clientCapabilities": {}},
    2: {"protocolVersion": 2, "info": {"name": "tck", "version": "1"}, "capabilities": {}},
}

WAITS: Final = "Wait at the gate."


class Skipped(Exception):
    """What the requirement is about is not offered."""


class Agent:
    """``with Agent(command, home, version) as agent:`` an agent that is initialized."""

    def __init__(self, command: Sequence[str], home: CodexHome, version: int) -> None:
        self.version = version
        self.cwd = str(home.workspace)
        self.lines: list[bytes] = []
        self.messages: list[Json] = []
        self.problems: list[str] = []
        """What of it does not fit the schema."""
        self._asked: dict[object, str] = {}
        self._news: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        env = {**os.environ, **home.env}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=self.cwd,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._stdin: IO[bytes] = self.process.stdin
        self._stdout: IO[bytes] = self.process.stdout
        self._reader = threading.Thread(target=self._read, args=(self._stdout,), daemon=True)
        self._reader.start()
        self._next = 0
        self.introduction: Json = {}
        self.sessions: set[str] = set()
        """All that were opened."""

    def __enter__(self) -> Self:
        self.introduction = self.result("initialize", HELLO[self.version])
        return self

    def __exit__(self, *ended: object) -> None:
        with suppress(OSError):
            self._stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        self._stdout.close()

    @property
    def capabilities(self) -> Json:
        """What it says it can do; of v2 the part about sessions."""
        if self.version == 1:
            found: Json = self.introduction.get("agentCapabilities") or {}
            return found
        session: Json = (self.introduction.get("capabilities") or {}).get("session") or {}
        return session

    def can(self, *path: str) -> None:
        """Raise Skipped unless a capability is advertised."""
        at: object = self.capabilities
        for key in path:
            at = at.get(key) if isinstance(at, dict) else None
        if at is None or at is False:
            raise Skipped(f"{'.'.join(path)} is not advertised")

    # Talking.

    def write(self, line: bytes) -> None:
        """A line as it is."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def start(self, method: str, params: object, request_id: object = None) -> object:
        """Send a request; its id."""
        self._next += 1
        number = self._next if request_id is None else request_id
        self._asked[number] = method
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        return number

    def answer(self, request_id: object) -> Json:
        """Wait for the answer to a request; each permission meanwhile is given."""
        return self.until(lambda m: "method" not in m and m.get("id") == request_id)

    def ask(self, method: str, params: object) -> Json:
        """Send a request and wait for its answer."""
        return self.answer(self.start(method, params))

    def result(self, method: str, params: object) -> Json:
        """Send a request and wait for its result."""
        answer = self.ask(method, params)
        assert "result" in answer, f"{method}: {answer.get('error')}"
        found = answer["result"]
        assert isinstance(found, dict), f"{method} is answered with {found!r}"
        return found

    def until(self, wanted: Callable[[Json], bool]) -> Json:
        """Wait for a message, also one that has come."""
        seen = 0
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            for message in self.messages[seen:]:
                if wanted(message):
                    return message
            seen = len(self.messages)
            self._take(deadline - time.monotonic())

    def quiet(self) -> list[Json]:
        """What comes before the answer to a request that is sent now, and goes through Codex."""
        before = len(self.messages)
        marker = self.start("session/list", {})
        self.answer(marker)
        return [each for each in self.messages[before:] if each.get("id") != marker]

    def turn_the_page(self) -> None:
        """Forget what was heard, when all that is under way has come."""
        self.quiet()
        for heard in (self.lines, self.messages, self.problems):
            heard.clear()

    def _take(self, seconds: float) -> None:
        message = self._news.get(timeout=max(seconds, 0.001))
        assert message is not None, "the agent has ended"
        self.messages.append(message)
        asked = self._asked.get(message.get("id")) if "method" not in message else None
        self.problems += problems_of_message("agent", message, asked, self.version)
        if message.get("method") == "session/request_permission":
            option = message["params"]["options"][0]["optionId"]
            outcome = {"outcome": {"outcome": "selected", "optionId": option}}
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": outcome}
            self.write(json.dumps(reply).encode())

    def _read(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self.lines.append(line)
            with suppress(ValueError):
                self._news.put(json.loads(line))
        self._news.put(None)

    # Sessions.

    def new(self, **more: object) -> str:
        """A session in the workspace."""
        return str(self.opened(**more)["sessionId"])

    def opened(self, **more: object) -> Json:
        """The answer of ``session/new``."""
        servers: Json = {"mcpServers": []} if self.version == 1 else {}
        opened = self.result("session/new", {"cwd": self.cwd, **servers, **more})
        self.sessions.add(opened["sessionId"])
        return opened

    def reopen(self, session: str, *, history: bool = False) -> Json:
        """The answer that opens it again: with its history ``session/load`` of v1."""
        params: Json = {"sessionId": session, "cwd": self.cwd}
        if history and self.version == 1:
            return self.result("session/load", {**params, "mcpServers": []})
        if history:
            params["replayFrom"] = {"type": "start"}
        return self.result("session/resume", params)

    def prompt(self, session: str, *blocks: Json, text: str = "Hi.", **more: object) -> Json:
        """A prompt to its end: v1's answer, v2's state that ends the turn, with ``messageId``."""
        content = [{"type": "text", "text": text}, *blocks]
        params = {"sessionId": session, "prompt": content, **more}
        before = len(self.updates(session))
        answer = self.result("session/prompt", params)
        if self.version == 1:
            return answer
        return self.idle(session, before) | {"messageId": answer["messageId"]}

    def idle(self, session: str, before: int = 0) -> Json:
        """Wait for the state that ends a turn of v2."""

        def over(_: Json) -> bool:
            return any("stopReason" in each for each in self.updates(session)[before:])

        self.until(over)
        found = [each for each in self.updates(session)[before:] if "stopReason" in each]
        return dict(found[0])

    def updates(self, session: str, messages: Sequence[Json] | None = None) -> list[Json]:
        """The updates of a session so far."""
        return [
            message["params"]["update"]
            for message in (self.messages if messages is None else messages)
            if message.get("method") == "session/update"
            and message["params"].get("sessionId") == session
        ]


class World:
    """One home, one model and one agent for the requirements of one version."""

    def __init__(self, command: Sequence[str], version: int) -> None:
        self.command = command
        self.version = version
        self.model = ScriptedModel(
            [
                ModelResponse(Text("Working."), Gate("tck"), when=_waits, repeat=True),
                ModelResponse(Text("Hello."), repeat=True),
            ]
        )
        self._shared: Agent | None = None

    def __enter__(self) -> Self:
        self.model.__enter__()
        self.home = CodexHome(self.model.base_url).__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self._end()
        self.home.__exit__(*ended)
        self.model.__exit__(*ended)

    @contextmanager
    def agent(self) -> Iterator[Agent]:
        """The agent of all requirements, with nothing heard yet; another one after a failure."""
        self._shared = agent = self._shared or self.own().__enter__()
        try:
            yield agent
            agent.turn_the_page()
        except Skipped:
            raise
        except BaseException:
            self._end()
            raise

    def own(self) -> Agent:
        """One more process of the agent, which is not initialized."""
        return Agent(self.command, self.home, self.version)

    def _end(self) -> None:
        agent, self._shared = self._shared, None
        if agent is not None:
            agent.__exit__()


def _waits(request: ModelRequest) -> bool:
    return WAITS in request.user_texts[-1:]
