"""The real command under a client that writes and reads plain JSON."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from tests.e2e.spawned_adapter import SpawnedAdapter
from tests.support.adapter_tap import AdapterTap

WAIT = 120.0
"""Seconds; what is waited for takes a second, on a busy machine a few."""

POLL = 0.005
"""Seconds between two looks at the process table, which tells nobody of its changes."""

Message = dict[str, Any]


class RawAdapter(SpawnedAdapter):
    """``with RawAdapter(env) as adapter:``; nothing with its marker is left at the end."""

    def __init__(self, env: Mapping[str, str], *arguments: str) -> None:
        self._news: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.tap = AdapterTap()
        self._on_line = self.tap.on("agent")
        self.messages: list[Message] = []
        """Everything that the adapter sent and that was waited for, in order."""
        self._next_id = 0
        self.leaves_open: set[str] = set()
        """Methods of requests whose answers the test does not wait for."""
        self.start_process(env, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        lives = not self._stdin.closed and self._process.poll() is None
        left = set(self.tap.left_open() if lives else ()) - self.leaves_open
        self.end_input()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self.kill()
        if kind is None:
            self.tap.check()
            assert not left, f"the test has not waited for the answers to {left}"
            assert "Traceback" not in self.stderr, self.stderr

    # Messages.

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        for line in data.splitlines(keepends=True):
            self._on_line("received", line)
        self._stdin.write(data)
        self._stdin.flush()

    def send(self, *messages: Message) -> None:
        """Messages in one write."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        self.write(b"".join(lines))

    def start(self, method: str, params: object = None) -> int:
        """Send a request; returns its id."""
        self._next_id += 1
        self.send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def ask(self, method: str, params: object = None) -> Message:
        """Send a request and wait for its answer."""
        return self.answer(self.start(method, params))

    def result(self, method: str, params: object = None) -> Message:
        """Send a request and wait for its result."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def error(self, method: str, params: object = None) -> Message:
        """Send a request and wait for its error."""
        answer = self.ask(method, params)
        assert "error" in answer, answer
        error: Message = answer["error"]
        return error

    def answer(self, request_id: object) -> Message:
        """Return the answer to a request, also one that came already, and record what precedes."""

        def is_answer(message: Message) -> bool:
            return "method" not in message and message.get("id") == request_id

        return next(filter(is_answer, self.messages), None) or self.wait_for(is_answer)

    def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """Wait for a message."""
        while True:
            message = self._news.get(timeout=WAIT)
            assert message is not None, f"the adapter has ended; its stderr: {self.stderr}"
            self.messages.append(message)
            if wanted(message):
                return message

    def updates(self, kind: str | None = None, session: str | None = None) -> list[Message]:
        """The updates so far; of one kind, of one session."""
        return [
            told["update"]
            for told in (m["params"] for m in self.messages if m.get("method") == "session/update")
            if kind in (None, told["update"]["sessionUpdate"])
            and session in (None, told["sessionId"])
        ]

    def until(self, kind: str, session: str | None = None, **fields: object) -> Message:
        """Wait for an update; one that has come already counts, the last first."""
        while True:
            for update in reversed(self.updates(kind, session)):
                if all(update.get(key) == value for key, value in fields.items()):
                    return update
            self.wait_for(lambda m: m.get("method") == "session/update")

    def choose(self, request: Message, kind: str) -> None:
        """Answer a permission request by a kind of option."""
        options = request["params"]["options"]
        chosen = next(option["optionId"] for option in options if option["kind"] == kind)
        outcome = {"outcome": "selected", "optionId": chosen}
        self.send({"id": request["id"], "result": {"outcome": outcome}})

    def initialize(self) -> None:
        """The handshake."""
        assert "result" in self.ask("initialize", {"protocolVersion": 1})

    def new_session(self, cwd: Path, servers: list[Message] | None = None) -> str:
        """A session in ``cwd``."""
        answer = self.ask("session/new", {"cwd": str(cwd), "mcpServers": servers or []})
        session_id: str = answer["result"]["sessionId"]
        return session_id

    def start_prompt(self, session_id: str, text: str = "Go.") -> int:
        """Send a prompt; returns its id."""
        prompt = [{"type": "text", "text": text}]
        return self.start("session/prompt", {"sessionId": session_id, "prompt": prompt})

    # The end.

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the adapter alone."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the adapter's exit; returns its status."""
        return self._process.wait(WAIT)

    def wait_until_nothing_is_left(self) -> None:
        """Wait until no process has the marker."""
        deadline = time.monotonic() + WAIT
        while left := self.marked():
            assert time.monotonic() < deadline, [_command(pid) for pid in left]
            time.sleep(POLL)

    def codex(self) -> int:
        """The process of the app-server."""
        (pid,) = [pid for pid in self.marked() if _parent(pid) == self.pid]
        return pid

    def _read(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self._on_line("sent", line)
            self._news.put(json.loads(line))
        self._news.put(None)


def _parent(pid: int) -> int | None:
    """The parent's id; None of a process that has ended meanwhile."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat.rpartition(b")")[2].split()[1])
    return None


def _command(pid: int) -> str:
    with suppress(OSError):
        return f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
    return f"{pid}: gone"
