"""What the network adds to a delta, and what open sessions hold: ``python -m benchmarks.network``.

A stand-in for Codex writes deltas that say when they were written; the client, in a process of its
own, notes when it has them. See README.md for what the numbers mean.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from websockets.sync.client import connect

from benchmarks.agents import Agent
from benchmarks.http_client import Http1, Http2, HttpClient
from benchmarks.process import AgentProcess
from benchmarks.report import note, report, report_parser
from benchmarks.stamped_deltas import LATENCY, Client, introduced, new_session, ways
from benchmarks.stamping_codex import executable
from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

from benchmarks.report import Samples

COMMAND = str(Path(sysconfig.get_path("scripts")) / "codex-acp-sdk")

OURS = Agent("codex-acp-sdk", (COMMAND,))

PAUSE_SECONDS = 0.002
"""Between two deltas: each is read, written and received alone."""

SETTLE_SECONDS = 2.0
"""Before memory is read."""

STDIO, WEBSOCKET = "stdio", "websocket"

OVER_HTTP: Mapping[str, Callable[[str], Http1 | Http2]] = {"HTTP/1.1": Http1, "HTTP/2": Http2}

MEMORY = "USS of the adapter with {} idle sessions, MB"
EACH = "USS for each idle session, kB"


class Listening:
    """An adapter that listens."""

    def __init__(self, env: Mapping[str, str], cwd: Path, scheme: str) -> None:
        listen = ("serve", "--listen", f"{scheme}://127.0.0.1:0/acp", "--no-token")
        limits = ("--max-sessions", "100000")
        self.process = subprocess.Popen(
            [COMMAND, *listen, *limits], env=dict(env), cwd=cwd, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        found = re.search(r"listening at (\S+)", self.process.stderr.readline())
        if found is None:
            self.process.kill()
            message = "the adapter does not listen"
            raise RuntimeError(message)
        self.url = found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def uss(self) -> float:
        """What only the adapter's process holds, in MB."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        private = re.findall(r"Private_(?:Clean|Dirty):\s+(\d+) kB", text)
        return sum(map(int, private)) * 1024 / 1e6


class WebSocketClient(Listening):
    """A client of it."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        super().__init__(env, cwd, "ws")
        self._opened = connect(self.url, proxy=None, max_size=None)
        self._socket = self._opened.__enter__()

    def __exit__(self, *exits: object) -> None:
        self._opened.__exit__(None, None, None)
        super().__exit__(*exits)

    def send(self, message: dict[str, Any]) -> None:
        """See `Client`."""
        self._socket.send(json.dumps(message))

    def receive(self) -> dict[str, Any]:
        """See `Client`."""
        found: dict[str, Any] = json.loads(self._socket.recv())
        return found


def latency(client: Client, cwd: Path, count: int) -> float:
    """Median of the microseconds of a delta's way."""
    session = introduced(client, cwd)
    ways(client, session, 50, 0.001)  # warms up
    return statistics.median(ways(client, session, count, PAUSE_SECONDS))


def memory(env: Mapping[str, str], cwd: Path, sessions: int) -> dict[str, float]:
    """What idle sessions hold, with the real Codex."""
    with WebSocketClient(env, cwd) as client:
        introduced(client, cwd)
        time.sleep(SETTLE_SECONDS)
        one = client.uss()
        for _ in range(sessions - 1):
            new_session(client, cwd)
        time.sleep(SETTLE_SECONDS)
        many = client.uss()
    return {MEMORY.format(sessions): many, EACH: 1000 * (many - one) / max(1, sessions - 1)}


def run(rounds: int, deltas: int, sessions: int) -> Samples:
    """Interleaved rounds."""
    samples: Samples = {}
    with tempfile.TemporaryDirectory() as scratch:
        codex = executable(Path(scratch))
        stand_in = {**os.environ, "CODEX_PATH": str(codex), "CODEX_HOME": scratch}
        for _ in range(rounds):
            with AgentProcess(OURS, stand_in, Path(scratch)) as stdio:
                note(samples, STDIO, {LATENCY: latency(stdio, Path(scratch), deltas)})
            with WebSocketClient(stand_in, Path(scratch)) as websocket:
                note(samples, WEBSOCKET, {LATENCY: latency(websocket, Path(scratch), deltas)})
            for name, version in OVER_HTTP.items():
                with Listening(stand_in, Path(scratch), "http") as adapter:
                    client = HttpClient(version(adapter.url))
                    note(samples, name, {LATENCY: latency(client, Path(scratch), deltas)})
                client.close()
        with ScriptedModel([]) as model, CodexHome(model.base_url) as home:
            env = home.env | {"CODEX_PATH": find_codex().path}
            note(samples, WEBSOCKET, memory(env, home.workspace, sessions))
    return samples


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 5)
    parser.add_argument("--deltas", type=int, default=1_000, help="default: %(default)s")
    parser.add_argument("--sessions", type=int, default=200, help="default: %(default)s")
    options = parser.parse_args(argv)
    samples = run(options.rounds, options.deltas, options.sessions)
    report("network", options, samples)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
