"""The adapter as a process under fuzz: what it says, what it owes, what it takes and leaves."""

from __future__ import annotations

import json
import queue
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.e2e.spawned_adapter import SpawnedAdapter
from tests.fuzz.answer_book import AnswerBook

WAIT = 90.0
"""Seconds for whatever has to come; on a quiet machine it takes milliseconds."""

MOST_MEMORY = 400 * 1024 * 1024
"""Bytes of resident memory; it starts with 60 MiB and keeps what sessions hold."""

POLL = 0.01

Json = dict[str, Any]


class FuzzFailure(AssertionError):
    """An invariant does not hold."""


class AdapterProcess(SpawnedAdapter):
    """Started by the constructor. `stop` checks the end; `kill` only cleans up."""

    def __init__(self, env: Mapping[str, str], *arguments: str) -> None:
        self.book = AnswerBook()
        self.sessions: list[str] = []
        self.asked: list[Json] = []
        """Requests of the agent that nobody has answered or withdrawn."""
        self.answer_with: Callable[[Json], Json | None] = lambda _: None
        """What is answered at once to a request of the agent, and with what."""
        self.messages = 0
        self.told = 0
        """Bytes that it has written."""
        self.most_memory = 0
        self._answers: dict[str, Json] = {}
        self._news: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._next_id = 10**6
        self.start_process(env, *arguments)

    def write(self, data: bytes) -> None:
        """Bytes of the client; what has come meanwhile is taken first."""
        self.pump()
        self.book.sent(data)
        try:
            self._stdin.write(data)
            self._stdin.flush()
        except BrokenPipeError:
            self._fail("the adapter has closed its stdin")

    def say(self, message: Json) -> None:
        """One message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: Json) -> Json:
        """A request and its answer."""
        self._next_id += 1
        key = str(self._next_id)
        self.say({"id": self._next_id, "method": method, "params": params})
        self._wait(lambda: key in self._answers, f"no answer to {method}")
        return self._answers.pop(key)

    def initialize(self) -> None:
        """The handshake of a client that can do most."""
        can = {"elicitation": {"form": {}, "url": {}}, "fs": {"readTextFile": True}}
        params = {"protocolVersion": 1, "clientCapabilities": can}
        answer = self.ask("initialize", params)
        if "result" not in answer and "sent before" not in answer["error"]["message"]:
            self._fail(f"initialize was refused: {answer}")

    def settle(self) -> None:
        """End whatever runs; then every request has its answer, exactly once."""
        self.write(b"\n")
        deadline = time.monotonic() + WAIT
        while True:
            for session in self.sessions:
                self.say({"method": "session/cancel", "params": {"sessionId": session}})
            until = time.monotonic() + 5.0
            while self.book.left and time.monotonic() < until:
                self._take_one(POLL)
            if not self.book.left:
                break
            if time.monotonic() > deadline:
                self._fail(f"never answered: {self.book.left[:5]}")
        self._check()

    def works(self, cwd: Path) -> None:
        """It is as good as new: a session opens, a prompt ends."""
        opened = self.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
        if "result" not in opened:
            self._fail(f"a session could not be opened afterwards: {opened}")
        session = opened["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "say"}]}
        ended = self.ask("session/prompt", prompt)
        if ended.get("result", {}).get("stopReason") != "end_turn":
            self._fail(f"a prompt did not work afterwards: {ended}")
        if "result" not in self.ask("session/close", {"sessionId": session}):
            self._fail("the session could not be closed afterwards")
        self.sessions.remove(session)
        self._check()

    def stop(self) -> None:
        """Close its stdin; it ends well and nothing is left."""
        self._stdin.close()
        try:
            status = self._process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self._fail("it did not end with its stdin")
        if status != 0:
            self._fail(f"it ended with status {status}")
        deadline = time.monotonic() + WAIT
        while left := self.marked():
            if time.monotonic() > deadline:
                self._fail(f"processes are left: {left}")
            time.sleep(POLL)
        for thread in self._threads:
            thread.join(WAIT)
        self._check()
        self.kill()

    def pump(self) -> None:
        """Take what has come."""
        with suppress(queue.Empty):
            while True:
                self._take(self._news.get_nowait())

    def wait_for_question(self) -> Json:
        """The oldest request of the agent that has no answer."""
        self._wait(lambda: bool(self.asked), "nothing was asked")
        return self.asked[0]

    def breathe(self) -> None:
        """Let it work a little: a client that only writes is only one kind of client."""
        self._take_one(POLL)
        self.pump()

    def _take_one(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._take(self._news.get(timeout=seconds))

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not done():
            if time.monotonic() > deadline:
                self._fail(what)
            self._take_one(1.0)

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self._news.put(None)
            if not self._stdin.closed:
                self._fail("the adapter has ended")
            return
        self.messages += 1
        self.told += len(line)
        try:
            message = json.loads(line.decode(), parse_constant=self._no_json)
        except ValueError as error:
            self._fail(f"what it wrote is no JSON ({error}): {line[:400]!r}")
        if "method" in message:
            self._asked(message)
            return
        self.book.answered(message)
        self._answers[json.dumps(message["id"])] = message
        result = message.get("result")
        if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self.sessions.append(result["sessionId"])

    def _asked(self, message: Json) -> None:
        if "id" in message:
            answer = self.answer_with(message)
            if answer is None:
                self.asked.append(message)
            else:
                self.say({"id": message["id"], "result": answer})
        elif message["method"] == "$/cancel_request":
            gone = message["params"]["requestId"]
            self.asked = [each for each in self.asked if each["id"] != gone]

    def _no_json(self, constant: str) -> NoReturn:
        raise ValueError(constant)

    def _check(self) -> None:
        if self.book.wrong:
            self._fail("; ".join(self.book.wrong[:3]))
        if "Traceback" in self.stderr or "never retrieved" in self.stderr:
            self._fail("a traceback")
        with suppress(OSError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            peak = next((ln for ln in status.splitlines() if ln.startswith("VmHWM")), None)
            if peak is not None:
                self.most_memory = max(self.most_memory, int(peak.split()[1]) * 1024)
        if self.most_memory > MOST_MEMORY:
            self._fail(f"it has taken {self.most_memory >> 20} MiB of memory")

    def _fail(self, why: str) -> NoReturn:
        trace = self.stderr.find("Traceback")
        shown = (
            self.stderr[max(0, trace - 400) : trace + 4000] if trace >= 0 else self.stderr[-1500:]
        )
        message = f"{why}\nstderr: {shown}"
        raise FuzzFailure(message)

    def _read(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self._news.put(line)
        self._news.put(None)
