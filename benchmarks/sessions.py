"""Cost of many open sessions: ``python -m benchmarks.sessions``.

One process opens session after session. Counted is the adapter process alone, without Codex: what
``session/new`` costs when few and when many are open, a delta of one of them, and the memory of
each. See README.md for what the numbers mean.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.agents import add_agent_options, agents_from, on_models
from benchmarks.process import AgentProcess
from benchmarks.report import interleaved, report, report_parser
from benchmarks.stream import PROMPT_SECONDS, deltas
from codex_acp.testing import ModelResponse, ModelScript, Text, When

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.agents import Agent

OPENED = 10
"""Sessions that are opened for one measure."""

SETTLE_SECONDS = 1.0
"""What a session costs goes on behind its answer: lists come, updates are sent."""


@dataclass(frozen=True)
class Plan:
    """At how many open sessions is measured, in ascending order; deltas of each prompt."""

    open: tuple[int, ...]
    deltas: int
    settle: float = SETTLE_SECONDS


def measure_sessions(
    agent: Agent, env: Mapping[str, str], workspace: Path, plan: Plan
) -> dict[str, float]:
    """All measures of one agent."""
    found: dict[str, float] = {}
    memory: list[tuple[int, float]] = []
    with AgentProcess(agent, env, workspace) as process:
        process.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        first = _open(process, workspace)
        _prompt(process, first, "warm up")
        count = 1
        for wanted in plan.open:
            while count < wanted:
                _open(process, workspace)
                count += 1
            time.sleep(plan.settle)
            memory.append((count, process.memory().uss))
            found[f"CPU per delta, {wanted} open, us"] = (
                1e6 * _prompt(process, first, "stream") / plan.deltas
            )
            before = process.cpu_seconds()
            for _ in range(OPENED):
                _open(process, workspace)
            time.sleep(plan.settle)
            cpu = process.cpu_seconds() - before
            found[f"CPU of session/new, {wanted} open, ms"] = 1e3 * cpu / OPENED
            count += OPENED
    (few, small), (many, large) = memory[0], memory[-1]
    if many > few:
        found["USS per open session, kB"] = 1e3 * (large - small) / (many - few)
    return found


def _open(process: AgentProcess, workspace: Path) -> str:
    new = process.request("session/new", {"cwd": str(workspace), "mcpServers": []})
    return str(new["sessionId"])


def _prompt(process: AgentProcess, session: str, text: str) -> float:
    """CPU seconds of one prompt."""
    process.skipped.clear()
    before = process.cpu_seconds()
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    process.request("session/prompt", params, timeout=PROMPT_SECONDS)
    return process.cpu_seconds() - before


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 5)
    parser.add_argument(
        "--open", type=int, nargs="+", default=[1, 50, 200], help="default: %(default)s"
    )
    parser.add_argument("--deltas", type=int, default=5_000, help="default: %(default)s")
    add_agent_options(parser)
    options = parser.parse_args(argv)
    plan = Plan(tuple(sorted(options.open)), options.deltas)
    script = ModelScript(
        ModelResponse(Text(*deltas(plan.deltas)), when=When(user_text="stream"), repeat=True),
        ModelResponse(Text("other"), repeat=True),
    )
    with tempfile.TemporaryDirectory() as scratch:
        agents = agents_from(options, Path(scratch), with_codex=False, with_translator=False)
        measured = on_models(script, agents, partial(measure_sessions, plan=plan))
        samples = interleaved(measured, options.rounds)
    report("sessions", options, samples, reference="official")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
