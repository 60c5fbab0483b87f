"""One measured process and the JSON-RPC lines to and from it.

Owns the pipes and reads them as fast as they fill; what arrives is parsed only when it is asked
for, so that the reader costs the measured process nothing. Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from benchmarks.agents import Agent

READ_BYTES = 1 << 20
"""The most that one read takes; a pipe holds 64 KiB by default."""

END_SECONDS = 10.0
"""How long a process may take to end after its stdin was closed; then it is killed."""

MESSAGE_SECONDS = 60.0
"""How long the next message may take."""


@dataclass(frozen=True)
class Memory:
    """What one process holds, in MB of 10^6 bytes, without its children.

    ``rss`` counts shared pages fully, ``pss`` by share, ``uss`` not at all.
    """

    rss: float
    pss: float
    uss: float


class AgentProcess:
    """A started agent; a context manager that ends it. ``started`` is when it was spawned."""

    def __init__(self, agent: Agent, env: Mapping[str, str], cwd: Path) -> None:
        self._agent = agent
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._buffer = b""
        self._lines: deque[bytes] = deque()
        self._next_id = 0
        self.skipped: list[bytes] = []
        """Lines that were read while something else was waited for."""
        self._read_at = 0
        """When the line that was given last was read: more are read when all are given."""
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            agent.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=dict(env),
            cwd=cwd,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close stdin and wait; whoever does not end in time is killed."""
        self._stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def request(self, method: str, params: object, *, timeout: float = 60.0) -> dict[str, Any]:
        """Send a request and return its result. Raises RuntimeError for anything else."""
        request_id = self._next_id
        self._next_id += 1
        self.send({"id": request_id, "method": method, "params": params})
        end = b'"id":%d' % request_id
        deadline = time.monotonic() + timeout
        while True:
            line = self._line(deadline, method)
            # The cheap test first: of a stream of updates not one is parsed here.
            if end in line.replace(b'"id": ', b'"id":') and b'"method"' not in line[:80]:
                message = json.loads(line)
                if message.get("id") == request_id and "method" not in message:
                    return self._result(method, message)
            self.skipped.append(line)

    def wait_for(self, method: str, *, timeout: float = 60.0) -> None:
        """Wait for a notification. Raises RuntimeError if it does not come."""
        name = json.dumps(method).encode()
        deadline = time.monotonic() + timeout
        while name not in self._line(deadline, method)[:80]:
            pass

    # Both versions of ACP.

    @property
    def _is_v2(self) -> bool:
        return self._agent.protocol == "acp v2"

    def initialize(self, info: Mapping[str, str]) -> dict[str, Any]:
        """ACP's ``initialize``, of a client that can do nothing special."""
        if self._is_v2:
            return self.request("initialize", {"protocolVersion": 2, "info": info})
        params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}
        return self.request("initialize", params)

    def prompt(self, session: str, text: str, *, timeout: float = 60.0) -> str:
        """ACP's ``session/prompt`` to the end of the turn; the stop reason."""
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        read = len(self.skipped)
        result = self.request("session/prompt", params, timeout=timeout)
        if not self._is_v2:
            return str(result.get("stopReason"))
        deadline = time.monotonic() + timeout
        while True:  # v2 does not say that the answer comes before the end
            if read == len(self.skipped):
                self.skipped.append(self._line(deadline, "a prompt"))
            line = self.skipped[read]
            read += 1
            if b'"idle"' in line and b'"state_update"' in line:
                update = json.loads(line)["params"]["update"]
                return str(update.get("stopReason"))

    def notify(self, method: str) -> None:
        """Send a notification without params."""
        self.send({"method": method})

    # As a `Client` of `stamped_deltas`.

    def send(self, message: dict[str, Any]) -> None:
        """One message, as the protocol wants it."""
        head: dict[str, Any] = {} if self._agent.protocol == "codex" else {"jsonrpc": "2.0"}
        # Whoever waits for the answer finds out that the process has ended, and why.
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps(head | message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message; ``at`` is when it came, in ns of the monotonic clock."""
        line = self._line(time.monotonic() + MESSAGE_SECONDS, "what it was asked")
        return {**json.loads(line), "at": self._read_at}

    def cpu_seconds(self) -> float:
        """User and system time of the process so far, all its threads and no children.

        The same as utime and stime of /proc/PID/stat, in nanoseconds in place of ticks of 10 ms.
        """
        # Linux: CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3).
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory(self) -> Memory:
        """What the process holds now."""
        found: dict[str, int] = {}
        with open(f"/proc/{self._process.pid}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                name, _, rest = line.partition(":")
                if rest.endswith("kB\n"):
                    found[name] = int(rest.split()[0]) * 1024
        uss = found["Private_Clean"] + found["Private_Dirty"]
        return Memory(found["Rss"] / 1e6, found["Pss"] / 1e6, uss / 1e6)

    def _line(self, deadline: float, method: str) -> bytes:
        while not self._lines:
            wait = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._stdout], [], [], wait)
            if not ready:
                problem = f"did not answer {method} in time"
                raise self._failure(problem)
            data = os.read(self._stdout, READ_BYTES)
            self._read_at = time.monotonic_ns()
            if not data:
                problem = f"ended before it answered {method}"
                raise self._failure(problem)
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            self._lines.extend(lines)
        return self._lines.popleft()

    def _result(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        result = message.get("result")
        if not isinstance(result, dict):
            problem = f"answered {method} with {json.dumps(message)[:500]}"
            raise self._failure(problem)
        return result

    def _failure(self, what: str) -> RuntimeError:
        self._log.seek(0)
        tail = self._log.read()[-2000:].decode(errors="replace")
        return RuntimeError(f"{self._agent.name} {what}; its stderr ends with:\n{tail}")
