"""Cost of a streamed answer and memory at rest: ``python -m benchmarks.stream``.

One prompt is answered with thousands of small deltas, once as fast as they go and once paced.
Counted is the adapter process alone, without Codex. See README.md for what the numbers mean.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.agents import add_agent_options, add_protocol_option, agents_from, on_models
from benchmarks.process import AgentProcess
from benchmarks.report import interleaved, report, report_parser
from codex_acp.testing import ModelResponse, ModelScript, Text, When

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.agents import Agent

CLIENT_INFO = {"name": "codex-acp-benchmark", "version": "1"}

PAUSE_SECONDS = 0.001
"""Between two deltas of the paced prompt: long enough that each one is read alone."""

SETTLE_SECONDS = 1.0
"""Before memory at rest is read: some agents load more after they have answered."""

PROMPT_SECONDS = 300.0
"""A prompt that takes longer than this has failed."""


@dataclass(frozen=True)
class Plan:
    """How much is streamed: deltas of the burst and of the paced prompt, seconds of rest."""

    burst: int
    paced: int
    settle: float = SETTLE_SECONDS


def deltas(count: int) -> tuple[str, ...]:
    """``count`` pieces of text, each different, so that a lost or swapped one shows."""
    return tuple(f"w{number} " for number in range(count))


def measure_stream(
    agent: Agent, env: Mapping[str, str], workspace: Path, plan: Plan
) -> dict[str, float]:
    """All measures of one agent. Raises RuntimeError if its text is not what the model said."""
    found: dict[str, float] = {}
    with AgentProcess(agent, env, workspace) as process:
        process.initialize(CLIENT_INFO)
        new = process.request("session/new", {"cwd": str(workspace), "mcpServers": []})
        time.sleep(plan.settle)
        _note_memory(found, process, "at rest before a prompt")
        _prompt(process, new["sessionId"], "warm up", deltas(1))
        for kind, count in (("burst", plan.burst), ("paced", plan.paced)):
            cpu, wall = _prompt(process, new["sessionId"], kind, deltas(count))
            found[f"CPU per delta, {kind}, us"] = 1e6 * cpu / count
            found[f"wall time, {kind}, s"] = wall
            if kind == "burst":
                time.sleep(plan.settle)
                _note_memory(found, process, "at rest after the burst")
    return found


def _prompt(
    process: AgentProcess, session: str, text: str, expected: tuple[str, ...]
) -> tuple[float, float]:
    """CPU and wall seconds of one prompt; what was streamed is checked afterwards."""
    process.skipped.clear()
    cpu, wall = process.cpu_seconds(), time.perf_counter()
    ended = process.prompt(session, text, timeout=PROMPT_SECONDS)
    cpu, wall = process.cpu_seconds() - cpu, time.perf_counter() - wall
    if ended != "end_turn":
        message = f"the prompt {text!r} ended with {ended}"
        raise RuntimeError(message)
    said = "".join(map(_chunk, process.skipped))
    if said != "".join(expected):
        message = f"{text}: {len(said)} characters are not what the model said: {said[:200]!r}"
        raise RuntimeError(message)
    return cpu, wall


def _chunk(line: bytes) -> str:
    """The text of an ``agent_message_chunk``, of any other line nothing."""
    message = json.loads(line)
    if message.get("method") != "session/update":
        return ""
    update = message["params"]["update"]
    return str(update["content"]["text"]) if _is_message(update) else ""


def _is_message(update: dict[str, object]) -> bool:
    return update.get("sessionUpdate") == "agent_message_chunk"


def _note_memory(found: dict[str, float], process: AgentProcess, when: str) -> None:
    for name, megabytes in vars(process.memory()).items():
        found[f"{name.upper()} {when}, MB"] = megabytes


def _script(plan: Plan) -> ModelScript:
    """One response a prompt, and one for whatever else an agent asks the model in between."""
    return ModelScript(
        ModelResponse(Text(*deltas(1)), when=When(user_text="warm up")),
        ModelResponse(Text(*deltas(plan.burst)), when=When(user_text="burst")),
        ModelResponse(Text(*deltas(plan.paced), pause=PAUSE_SECONDS), when=When(user_text="paced")),
        ModelResponse(Text("other"), repeat=True),
    )


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 5)
    parser.add_argument("--deltas", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--paced-deltas", type=int, default=2_000, help="default: %(default)s")
    add_agent_options(parser)
    add_protocol_option(parser)
    options = parser.parse_args(argv)
    plan = Plan(options.deltas, options.paced_deltas)
    with tempfile.TemporaryDirectory() as scratch:
        agents = agents_from(options, Path(scratch), with_codex=False)
        measured = on_models(_script(plan), agents, partial(measure_stream, plan=plan))
        samples = interleaved(measured, options.rounds)
    report("stream", options, samples, reference="official")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
