"""One adapter in a soak: every message through the tap, a bound for every answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.adapter_bench import COMMAND
from tests.e2e.spawned_adapter import MARKER, marked_processes
from tests.support.adapter_tap import AdapterTap

BOUND = 120.0
"""Seconds for every answer; the longest bound of the adapter is a cancel of ten."""

POLL = 0.1

LONGEST_LINE = 64 * 1024 * 1024

Json = dict[str, Any]


class SoakFailure(AssertionError):
    """An invariant does not hold."""


class AdapterGone(Exception):
    """The adapter was ended on purpose while this was asked."""


@dataclass(frozen=True)
class Resources:
    """What a process holds."""

    descriptors: int
    threads: int
    memory: int
    """Bytes, resident."""

    @classmethod
    def of(cls, pid: int) -> Resources:
        """Of a process that lives."""
        proc = Path(f"/proc/{pid}")
        lines = dict(
            line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line
        )
        memory = int(lines["VmRSS"].split()[0]) * 1024
        return cls(len(list((proc / "fd").iterdir())), int(lines["Threads"]), memory)


class SoakedAdapter:
    """``adapter = await SoakedAdapter.start(env, answer)``; end it with `stop` or `kill`.

    ``answer`` is asked what a question of the agent is answered with; None is no answer at all.
    """

    def __init__(self, answer: Callable[[Json], Awaitable[Json | None]]) -> None:
        self.tap = AdapterTap()
        self.marker = uuid.uuid4().hex
        self.messages = 0
        self._answer = answer
        self._on_line = self.tap.on("agent")
        self._process: asyncio.subprocess.Process
        self._open: dict[int, asyncio.Future[Json]] = {}
        self._questions: dict[Any, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stderr = bytearray()
        self._reading = asyncio.Event()
        self._reading.set()
        self._next_id = 0
        self._ending = False

    @classmethod
    async def start(
        cls, env: Mapping[str, str], answer: Callable[[Json], Awaitable[Json | None]]
    ) -> SoakedAdapter:
        """Start the command and shake hands."""
        made = cls(answer)
        pipe = asyncio.subprocess.PIPE
        made._process = await asyncio.create_subprocess_exec(
            COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, limit=LONGEST_LINE,
            env={**env, MARKER: made.marker}, start_new_session=True,
        )  # fmt: skip
        made._tasks = [asyncio.create_task(made._read()), asyncio.create_task(made._read_stderr())]
        can: Json = {"elicitation": {"form": {}}}
        await made.ask("initialize", {"protocolVersion": 1, "clientCapabilities": can})
        return made

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def say(self, message: Json) -> None:
        """Send a message."""
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._on_line("received", line)
        assert self._process.stdin
        self._process.stdin.write(line)

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request and wait for its answer. Raises AdapterGone if it was ended meanwhile."""
        if self._ending:
            raise AdapterGone
        self._next_id += 1
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._open[self._next_id] = future
        self.say({"id": self._next_id, "method": method, "params": params})
        try:
            async with asyncio.timeout(BOUND):
                return await future
        except TimeoutError:
            message = f"{method} was not answered: {params}\n{self.stderr[-2000:]}"
            raise SoakFailure(message) from None

    async def stop_reading(self, seconds: float) -> None:
        """Be a client that takes nothing for a while."""
        self._reading.clear()
        await asyncio.sleep(seconds)
        self._reading.set()

    def kill_codex(self) -> None:
        """SIGKILL for its Codex, if it has one."""
        for entry in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(OSError, ProcessLookupError):
                for child in (entry / "children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)

    @property
    def stderr(self) -> str:
        """What it has written there."""
        return self._stderr.decode(errors="replace")

    async def stop(self) -> None:
        """Close its stdin; it ends with status 0, and nothing of it is left."""
        self._reading.set()
        self._ending = True
        assert self._process.stdin
        self._process.stdin.close()
        await self._ended(expected=0)

    async def kill(self) -> None:
        """SIGKILL; what it has started ends by itself."""
        self._ending = True
        self._process.kill()
        self._reading.set()
        await self._ended(expected=-signal.SIGKILL)

    def abandon(self) -> None:
        """Leave nothing behind, whatever happened."""
        for pid in marked_processes(self.marker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def settled(self) -> None:
        """Hold the invariants of a moment in which nothing is asked."""
        self.tap.check()
        if "Traceback" in self.stderr or "never retrieved" in self.stderr:
            at = max(self.stderr.find("Traceback"), 0)
            raise SoakFailure(self.stderr[max(0, at - 300) : at + 4000])

    async def _ended(self, expected: int) -> None:
        async with asyncio.timeout(BOUND):
            status = await self._process.wait()
            await asyncio.gather(*self._tasks)
        for task in self._questions.values():
            task.cancel()
        await asyncio.gather(*self._questions.values(), return_exceptions=True)
        if status != expected:
            message = f"it ended with status {status}\n{self.stderr[-2000:]}"
            raise SoakFailure(message)
        if left := await asyncio.to_thread(_left_behind, self.marker):
            message = f"processes are left: {left}"
            raise SoakFailure(message)
        self.settled()

    async def _read(self) -> None:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            self._take(line)
            await self._reading.wait()
        for future in self._open.values():
            if not future.done():
                future.set_exception(AdapterGone() if self._ending else SoakFailure("it has ended"))

    async def _read_stderr(self) -> None:
        assert self._process.stderr
        while data := await self._process.stderr.read(65536):
            self._stderr += data

    def _take(self, line: bytes) -> None:
        self.messages += 1
        self._on_line("sent", line)
        message = json.loads(line)
        method, message_id = message.get("method"), message.get("id")
        if method is None:
            future = self._open.pop(message_id, None)
            if future is None:
                self.tap.problems.append(f"an answer to nothing: {message}")
            elif not future.done():
                future.set_result(message)
        elif message_id is not None:
            task = asyncio.create_task(self._question(message))
            self._questions[message_id] = task
            task.add_done_callback(lambda _: self._questions.pop(message_id, None))
        elif method == "$/cancel_request":
            asked = self._questions.get(message["params"]["requestId"])
            if asked is not None:
                asked.cancel()

    async def _question(self, asked: Json) -> None:
        answer = await self._answer(asked)
        if answer is not None and not self._ending:
            self.say({"id": asked["id"], "result": answer})


def _left_behind(marker: str) -> list[bytes]:
    """The commands of the processes that do not end."""
    deadline = time.monotonic() + BOUND
    while (left := marked_processes(marker)) and time.monotonic() < deadline:
        time.sleep(POLL)
    return [Path(f"/proc/{pid}/cmdline").read_bytes()[:200] for pid in left]
