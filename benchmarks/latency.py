"""How much later a delta is with the client, one every few ms: ``python -m benchmarks.latency``.

A stand-in for Codex writes deltas that say when they were written; the client, in a process of its
own, notes when it has them. See README.md for what the numbers mean.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.agents import Agent, add_agent_options, agents_from
from benchmarks.report import as_json, table, write_json
from benchmarks.stamping_codex import executable
from codex_acp.testing import CodexHome, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.report import Samples

LATENCY = "a delta, from Codex to the client, us"
ADDED = "of that added to Codex alone, us"

ALONE = "codex app-server"


class Peer:
    """A started agent, or the stand-in itself; each line with the time of its arrival."""

    def __init__(self, agent: Agent, env: Mapping[str, str], cwd: Path) -> None:
        self._is_acp = agent.protocol == "acp"
        self._process = subprocess.Popen(
            agent.argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def ask(self, method: str, params: object, end: str = '"id":1') -> list[tuple[int, str]]:
        """The lines up to the one that has ``end`` in it."""
        head = {"jsonrpc": "2.0"} if self._is_acp else {}
        message = {**head, "id": 1, "method": method, "params": params}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        lines: list[tuple[int, str]] = []
        while True:
            line = self._line()
            lines.append((time.monotonic_ns(), line))
            if '"error":{' in line.replace(": ", ":"):
                failed = f"{method} failed: {line}"
                raise RuntimeError(failed)
            if end in line.replace(": ", ":"):
                return lines

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            message = "the agent has ended"
            raise RuntimeError(message)
        return line.decode()

    def session(self, cwd: Path) -> str:
        """Introduce the client, and open a session or thread."""
        info = {"name": "benchmark", "version": "1"}
        if not self._is_acp:
            self.ask("initialize", {"clientInfo": info})
            answer: Any = json.loads(self.ask("thread/start", {"cwd": str(cwd)})[-1][1])
            return str(answer["result"]["thread"]["id"])
        can: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}
        self.ask("initialize", can)
        answer = json.loads(self.ask("session/new", {"cwd": str(cwd), "mcpServers": []})[-1][1])
        return str(answer["result"]["sessionId"])

    def prompt(self, session: str, text: str) -> list[tuple[int, str]]:
        """All that is said in a turn."""
        blocks = [{"type": "text", "text": text}]
        if self._is_acp:
            return self.ask("session/prompt", {"sessionId": session, "prompt": blocks})
        return self.ask("turn/start", {"threadId": session, "input": blocks}, '"turn/completed"')


def measure(
    agent: Agent, env: Mapping[str, str], cwd: Path, count: int, pause: float
) -> list[float]:
    """Microseconds of each delta's way."""
    with Peer(agent, env, cwd) as peer:
        session = peer.session(cwd)
        peer.prompt(session, "100 0.001")  # warms up
        lines = peer.prompt(session, f"{count} {pause}")
    return [(at - int(stamp)) / 1000 for at, line in lines for stamp in _text_of(line).split()]


def _text_of(line: str) -> str:
    """Of a delta: the moments in which its pieces were written."""
    params = json.loads(line).get("params", {})
    if "delta" in params:
        return str(params["delta"])
    update = params.get("update", {})
    is_text = update.get("sessionUpdate") == "agent_message_chunk"
    return str(update["content"]["text"]) if is_text else ""


def run(agents: list[Agent], env: Mapping[str, str], cwd: Path, options: Any) -> Samples:
    """Interleaved rounds; of each the median of its deltas."""
    samples: Samples = {agent.name: {} for agent in agents}
    for number in range(options.rounds):
        turn = number % len(agents)
        found = {}
        for agent in agents[turn:] + agents[:turn]:
            ways = sorted(measure(agent, env, cwd, options.deltas, options.pause / 1000))
            if len(ways) < options.deltas:
                message = f"{agent.name} said {len(ways)} of {options.deltas} deltas"
                raise RuntimeError(message)
            found[agent.name] = ways[len(ways) // 2]
        for name, way in found.items():
            samples[name].setdefault(LATENCY, []).append(way)
            if ALONE in found and name != ALONE:
                samples[name].setdefault(ADDED, []).append(way - found[ALONE])
    return samples


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--deltas", type=int, default=400, help="default: %(default)s")
    parser.add_argument(
        "--pause", type=float, default=5.0, help="ms between two deltas (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all samples to FILE")
    add_agent_options(parser)
    options = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ScriptedModel([]) as model,
        CodexHome(model.base_url) as home,
    ):
        codex = executable(Path(scratch))
        agents = agents_from(options, Path(scratch), with_codex=False)
        agents.append(Agent(ALONE, (str(codex), "app-server"), "codex"))
        env = home.env | {"CODEX_PATH": str(codex)}
        samples = run(agents, env, home.workspace, options)
    print(table(samples, reference="official"))
    if options.json:
        settings = {"rounds": options.rounds, "deltas": options.deltas, "pause": options.pause}
        write_json(options.json, as_json("latency", settings, samples))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
