"""How much later a delta is with the client, one every few ms: ``python -m benchmarks.latency``.

A stand-in for Codex writes deltas that say when they were written; the client, in a process of its
own, notes when it has them. All agents run at the same time and say a few deltas in turn, so that
what else the machine does meets all alike. See README.md for what the numbers mean.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.agents import Agent, add_agent_options, agents_from
from benchmarks.process import AgentProcess
from benchmarks.report import note, report, report_parser
from benchmarks.stamped_deltas import LATENCY, introduced, thread, ways
from benchmarks.stamping_codex import executable
from codex_acp.testing import CodexHome, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from benchmarks.report import Samples

ADDED = "of that added to Codex alone, us"
CPU = "CPU of the process per delta, us"

ALONE = "codex app-server"

WARM_UP = (200, 0.001)
"""How many deltas, and how long between two."""


class Measured:
    """A started agent, or the stand-in itself, with a session that has said something."""

    def __init__(self, agent: Agent, env: Mapping[str, str], cwd: Path) -> None:
        self.name = agent.name
        self._is_codex = agent.protocol == "codex"
        self._process = AgentProcess(agent, env, cwd)
        self._cwd = cwd

    def __enter__(self) -> Self:
        self._process.__enter__()
        self._session = (thread if self._is_codex else introduced)(self._process, self._cwd)
        self._ways(*WARM_UP)
        return self

    def __exit__(self, *exits: object) -> None:
        self._process.__exit__(*exits)

    def measure(self, count: int, pause: float) -> dict[str, float]:
        """Of so many deltas the median of their ways, and the CPU time."""
        before = self._process.cpu_seconds()
        found = self._ways(count, pause)
        cpu = self._process.cpu_seconds() - before
        return {LATENCY: statistics.median(found), CPU: 1e6 * cpu / count}

    def _ways(self, count: int, pause: float) -> list[float]:
        return ways(self._process, self._session, count, pause, of_codex=self._is_codex)


def run(
    agents: list[Agent], env: Mapping[str, str], cwd: Path, rounds: int, deltas: int, pause: float
) -> Samples:
    """Interleaved rounds of agents that run side by side."""
    samples: Samples = {agent.name: {} for agent in agents}
    with ExitStack() as stack:
        started = [stack.enter_context(Measured(agent, env, cwd)) for agent in agents]
        for number in range(rounds):
            turn = number % len(started)
            found = {a.name: a.measure(deltas, pause) for a in started[turn:] + started[:turn]}
            for name, measures in found.items():
                if ALONE in found and name != ALONE:
                    measures[ADDED] = measures[LATENCY] - found[ALONE][LATENCY]
                note(samples, name, measures)
    return samples


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 30)
    parser.add_argument("--deltas", type=int, default=100, help="default: %(default)s")
    parser.add_argument(
        "--pause", type=float, default=5.0, help="ms between two deltas (default: %(default)s)"
    )
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
        pause = options.pause / 1000
        samples = run(agents, env, home.workspace, options.rounds, options.deltas, pause)
    report("latency", options, samples, reference="official")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
