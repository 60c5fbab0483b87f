"""What the network adds to a delta, and what open sessions hold: ``python -m benchmarks.network``.

A stand-in for Codex writes deltas that say when they were written; the client, in a process of its
own, notes when it has them. See README.md for what the numbers mean.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from websockets.sync.client import connect

from benchmarks.http_client import Http1, Http2, HttpClient
from benchmarks.report import as_json, table, write_json
from benchmarks.stamping_codex import executable
from codex_acp.codex.connection.codex_binary import find_codex
from codex_acp.testing import CodexHome, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.report import Samples

COMMAND = str(Path(sysconfig.get_path("scripts")) / "codex-acp-sdk")

PAUSE_SECONDS = 0.002
"""Between two deltas: each is read, written and received alone."""

SETTLE_SECONDS = 2.0
"""Before memory is read."""

STDIO, WEBSOCKET = "stdio", "websocket"

OVER_HTTP: Mapping[str, Callable[[str], Http1 | Http2]] = {"HTTP/1.1": Http1, "HTTP/2": Http2}

LATENCY = "a delta, from Codex to the client, us"
MEMORY = "USS of the adapter with {} idle sessions, MB"
EACH = "USS for each idle session, kB"


class Client(Protocol):
    """Whatever speaks with the adapter."""

    def send(self, message: dict[str, Any]) -> None:
        """One message."""

    def receive(self) -> dict[str, Any]:
        """The next one."""


class StdioClient:
    """An adapter on pipes."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            [COMMAND], env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def send(self, message: dict[str, Any]) -> None:
        """See `Client`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """See `Client`."""
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


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


def ask(client: Client, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything up to the answer, which comes last, each with the time of its arrival."""
    client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    found = []
    while True:
        message = client.receive()
        message.setdefault("at", time.monotonic_ns())
        found.append(message)
        if "result" in message:
            return found
        if "error" in message:
            raise RuntimeError(message["error"])


def introduced(client: Client, cwd: Path) -> str:
    """A session."""
    ask(client, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return new_session(client, cwd)


def new_session(client: Client, cwd: Path) -> str:
    """One more."""
    answer = ask(client, "session/new", {"cwd": str(cwd), "mcpServers": []})[-1]
    return str(answer["result"]["sessionId"])


def latency(client: Client, cwd: Path, count: int) -> float:
    """Median of the microseconds of a delta's way."""
    session = introduced(client, cwd)
    taken: list[float] = []
    for text in ("50 0.001", f"{count} {PAUSE_SECONDS}"):  # the first warms up
        blocks = [{"type": "text", "text": text}]
        messages = ask(client, "session/prompt", {"sessionId": session, "prompt": blocks})
        taken = [
            (message["at"] - int(stamp)) / 1000
            for message in messages
            for stamp in _text_of(message).split()[:1]
        ]
    return statistics.median(taken)


def _text_of(message: dict[str, Any]) -> str:
    update = message.get("params", {}).get("update", {})
    if update.get("sessionUpdate") != "agent_message_chunk":
        return ""
    return str(update["content"]["text"])


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
    samples: Samples = {STDIO: {}, WEBSOCKET: {}, **{name: {} for name in OVER_HTTP}}

    def note(name: str, found: dict[str, float]) -> None:
        for measure, value in found.items():
            samples[name].setdefault(measure, []).append(value)

    with tempfile.TemporaryDirectory() as scratch:
        codex = executable(Path(scratch))
        stand_in = {**os.environ, "CODEX_PATH": str(codex), "CODEX_HOME": scratch}
        for _ in range(rounds):
            with StdioClient(stand_in, Path(scratch)) as stdio:
                note(STDIO, {LATENCY: latency(stdio, Path(scratch), deltas)})
            with WebSocketClient(stand_in, Path(scratch)) as websocket:
                note(WEBSOCKET, {LATENCY: latency(websocket, Path(scratch), deltas)})
            for name, version in OVER_HTTP.items():
                with Listening(stand_in, Path(scratch), "http") as adapter:
                    client = HttpClient(version(adapter.url))
                    note(name, {LATENCY: latency(client, Path(scratch), deltas)})
                client.close()
        with ScriptedModel([]) as model, CodexHome(model.base_url) as home:
            env = home.env | {"CODEX_PATH": find_codex().path}
            note(WEBSOCKET, memory(env, home.workspace, sessions))
    return samples


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--deltas", type=int, default=1_000, help="default: %(default)s")
    parser.add_argument("--sessions", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all samples to FILE")
    options = parser.parse_args(argv)
    samples = run(options.rounds, options.deltas, options.sessions)
    print(table(samples))
    if options.json:
        settings = {name: getattr(options, name) for name in ("rounds", "deltas", "sessions")}
        write_json(options.json, as_json("network", settings, samples))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
