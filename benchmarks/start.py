"""Time from the start of the process to its first answers: ``python -m benchmarks.start``.

Every agent drives the same Codex binary in the same throw-away home; rounds are interleaved, so
that a slow moment of the machine hits all of them. See README.md for what the numbers mean.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.agents import add_agent_options, add_protocol_option, agents_from
from benchmarks.process import AgentProcess
from benchmarks.report import interleaved, report, report_parser
from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.agents import Agent

INITIALIZE = "to initialize answered, ms"
SESSION = "to first session, ms"
PROMPT_ANSWERED = "to first prompt answered, ms"

CLIENT_INFO = {"name": "codex-acp-benchmark", "version": "1"}
PROMPT = "say something"


def measure_start(agent: Agent, env: Mapping[str, str], workspace: Path) -> dict[str, float]:
    """Milliseconds from spawning ``agent`` to each of its first answers."""
    found: dict[str, float] = {}
    steps = _codex_steps if agent.protocol == "codex" else _acp_steps
    with AgentProcess(agent, env, workspace) as process:
        for measure in steps(process, str(workspace)):
            found[measure] = 1e3 * (time.perf_counter() - process.started)
    return found


def _acp_steps(process: AgentProcess, cwd: str) -> Iterator[str]:
    """Does a step, then yields the name of the measure that ends with it."""
    process.initialize(CLIENT_INFO)
    yield INITIALIZE
    session = process.request("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]
    yield SESSION
    process.prompt(session, PROMPT)
    yield PROMPT_ANSWERED


def _codex_steps(process: AgentProcess, cwd: str) -> Iterator[str]:
    process.request("initialize", {"clientInfo": CLIENT_INFO})
    yield INITIALIZE
    process.notify("initialized")
    thread = process.request("thread/start", {"cwd": cwd})["thread"]["id"]
    yield SESSION
    process.request("turn/start", {"threadId": thread, "input": [{"type": "text", "text": PROMPT}]})
    process.wait_for("turn/completed")
    yield PROMPT_ANSWERED


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 15)
    add_agent_options(parser)
    add_protocol_option(parser)
    options = parser.parse_args(argv)
    answer = ModelResponse(Text("Hello."), repeat=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ScriptedModel([answer]) as model,
        CodexHome(model.base_url) as home,
    ):
        agents = agents_from(options, Path(scratch), with_codex=True)
        env = home.env | {"CODEX_PATH": find_codex().path}
        measured = {a.name: partial(measure_start, a, env, home.workspace) for a in agents}
        samples = interleaved(measured, options.rounds, warm_up=True)
    report("start", options, samples, reference="official")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
