"""A few lines of JSON-RPC over the stdio of an app-server, for tests of the test support.

Standard library only, on purpose: the SDK's own client is tested elsewhere.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

WAIT_SECONDS = 120.0
"""Bound of every wait: a start of the real binary takes a second, on a busy machine several."""

Message = dict[str, Any]


def codex_binary() -> str:
    """The binary of OpenAI's own wheel, which has no type information."""
    return str(import_module("codex_cli_bin").bundled_codex_path())


class CodexDriver:
    """``codex app-server`` as a child process; ended and waited for at the end."""

    def __init__(
        self, env: dict[str, str], cwd: Path, command: str | os.PathLike[str] | None = None
    ) -> None:
        self._child = subprocess.Popen(
            [str(command or codex_binary()), "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin: IO[bytes] = self._child.stdin
        self._stdout: IO[bytes] = self._child.stdout
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._next_id = 0
        self._turns: dict[str, str] = {}
        self.messages: list[Message] = []
        """Everything received so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        # Commands of an interrupted turn outlive it, in the same process group.
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._reader.join(WAIT_SECONDS)
        self._stdout.close()

    def _read(self) -> None:
        for line in self._stdout:
            self._queue.put(json.loads(line))
        self._queue.put(None)

    def send(self, message: Message) -> None:
        """Write one message."""
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message that is wanted; those before it are only recorded."""
        while True:
            message = self._queue.get(timeout=WAIT_SECONDS)
            assert message is not None, f"app-server ended; it said {self.messages}"
            self.messages.append(message)
            if wanted(message):
                return message

    def find(self, wanted: Callable[[Message], bool]) -> Message:
        """A message that is wanted, from what was received or from what is to come."""
        seen = next((message for message in self.messages if wanted(message)), None)
        return seen or self.wait_for(wanted)

    def wait_for_method(self, method: str) -> Message:
        """The next request or notification of this method."""
        return self.wait_for(lambda message: message.get("method") == method)

    def request(self, method: str, params: Message) -> Message:
        """Send a request and return its result."""
        self._next_id += 1
        request_id = f"driver-{self._next_id}"
        self.send({"id": request_id, "method": method, "params": params})
        answer = self.wait_for(lambda message: message.get("id") == request_id)
        assert "error" not in answer, answer
        result: Message = answer["result"]
        return result

    def start_thread(self, cwd: Path, **params: object) -> str:
        """Handshake and ``thread/start``; returns the thread's id."""
        self.request(
            "initialize",
            {
                "clientInfo": {"name": "driver", "version": "1"},
                "capabilities": {"experimentalApi": True},
            },
        )
        self.send({"method": "initialized"})
        result = self.request("thread/start", {"cwd": str(cwd), **params})
        thread_id: str = result["thread"]["id"]
        return thread_id

    def start_turn(self, thread_id: str, text: str = "Go.") -> None:
        """``turn/start`` with a text."""
        item = {"type": "text", "text": text}
        result = self.request("turn/start", {"threadId": thread_id, "input": [item]})
        self._turns[thread_id] = result["turn"]["id"]

    def finish_turn(self, thread_id: str) -> Message:
        """Wait until the thread's newest turn has completed; returns that turn.

        Codex may have said so before it answered ``turn/start``.
        """
        turn_id = self._turns[thread_id]
        done = self.find(
            lambda message: (
                message.get("method") == "turn/completed"
                and message["params"]["turn"]["id"] == turn_id
            )
        )
        turn: Message = done["params"]["turn"]
        return turn

    def params_of(self, method: str) -> list[Message]:
        """The params of everything received of this method."""
        return [m["params"] for m in self.messages if m.get("method") == method]
