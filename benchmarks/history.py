"""Cost of what is long: ``python -m benchmarks.history``.

A stored session of many items is loaded by a fresh process; a command prints a megabyte; a new
file of megabytes is written, and loaded again. Counted are the CPU of the adapter process alone,
without Codex, and the bytes that it sends. See README.md for what the numbers mean.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.agents import Agent, add_agent_options, agents_from
from benchmarks.process import AgentProcess
from benchmarks.report import note, report, report_parser
from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ModelResponse, ModelScript, ScriptedModel, Text, When
from codex_acp.testing.model_script import add_file, exec_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.report import Samples
    from codex_acp.testing import ModelRequest
    from codex_acp.testing.model_script import Step

WAIT_SECONDS = 300.0
"""A request that takes longer than this has failed."""

ITEMS_PER_TURN = 100
"""Each turn of the stored session has its prompt, one command and otherwise messages."""

LINE = "a line of some length, as a program prints them or a file has them\n"

OUTPUT_BYTES = "bytes sent per byte of output"
FILE_BYTES = "bytes sent per byte of a new file"
LOADED_BYTES = "bytes sent per byte of both, loaded"
FIRST_LOAD = "CPU of the first session/load, ms"
SECOND_LOAD = "CPU of the same session/load again, ms"


@dataclass(frozen=True)
class Plan:
    """How much there is: items of the stored session, bytes of the output and of the new file."""

    items: int
    output: int
    file: int


def measure_history(
    agent: Agent, env: Mapping[str, str], workspace: Path, plan: Plan, stored: str
) -> dict[str, float]:
    """All measures of one agent; ``stored`` is the session to load."""
    found: dict[str, float] = {}
    with _started(agent, env, workspace) as process:
        found[FIRST_LOAD] = _load(process, workspace, stored)[0]
        found[SECOND_LOAD] = _load(process, workspace, stored)[0]
    with _started(agent, env, workspace) as process:
        new = process.request("session/new", _where(workspace))["sessionId"]
        _prompt(process, new, "warm up")
        cpu, sent = _prompt(process, new, "print")
        found["CPU of a command's output, ms"] = cpu
        found[OUTPUT_BYTES] = sent / plan.output
        cpu, sent = _prompt(process, new, "write")
        found["CPU of a new file, ms"] = cpu
        found[FILE_BYTES] = sent / plan.file
    with _started(agent, env, workspace) as process:
        cpu, sent = _load(process, workspace, new)
        found["CPU of the first session/load of both, ms"] = cpu
        found[LOADED_BYTES] = sent / (plan.file + plan.output)
        found["CPU of the same session/load of both again, ms"] = _load(process, workspace, new)[0]
    return found


def _started(agent: Agent, env: Mapping[str, str], workspace: Path) -> AgentProcess:
    process = AgentProcess(agent, env, workspace)
    process.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return process


def _where(workspace: Path) -> dict[str, object]:
    return {"cwd": str(workspace), "mcpServers": []}


def _load(process: AgentProcess, workspace: Path, session: str) -> tuple[float, int]:
    return _counted(process, "session/load", {"sessionId": session, **_where(workspace)})


def _prompt(process: AgentProcess, session: str, text: str) -> tuple[float, int]:
    prompt = [{"type": "text", "text": text}]
    return _counted(process, "session/prompt", {"sessionId": session, "prompt": prompt})


def _counted(process: AgentProcess, method: str, params: object) -> tuple[float, int]:
    """Milliseconds of CPU that a request takes, and bytes sent before its answer."""
    process.skipped.clear()
    before = process.cpu_seconds()
    process.request(method, params, timeout=WAIT_SECONDS)
    cpu = process.cpu_seconds() - before
    updates = sum(b'"session/update"' in line for line in process.skipped)
    if not updates:
        message = f"{method} was answered without one update"
        raise RuntimeError(message)
    return 1e3 * cpu, sum(map(len, process.skipped))


def store_session(env: Mapping[str, str], workspace: Path, plan: Plan) -> str:
    """Have Codex alone run the turns of the session to load; gives the id of its thread."""
    codex = Agent("codex app-server", (find_codex().path, "app-server"), "codex")
    with AgentProcess(codex, env, workspace) as process:
        process.request(
            "initialize",
            {
                "clientInfo": {"name": "benchmarks", "version": "0"},
                "capabilities": {"experimentalApi": True},
            },
        )
        process.notify("initialized")
        thread = process.request("thread/start", {"cwd": str(workspace)})["thread"]["id"]
        for _ in range(max(1, plan.items // ITEMS_PER_TURN)):
            words = [{"type": "text", "text": "history"}]
            process.request("turn/start", {"threadId": thread, "input": words})
            process.wait_for("turn/completed", timeout=WAIT_SECONDS)
    return str(thread)


def run(agents: list[Agent], plan: Plan, rounds: int) -> Samples:
    """Interleaved rounds; the agents of one round load the same session."""
    samples: Samples = {agent.name: {} for agent in agents}
    for number in range(rounds):
        turn = number % len(agents)
        with (
            ScriptedModel(_script(plan)) as model,
            CodexHome(
                model.base_url, approval_policy="never", sandbox_mode="danger-full-access"
            ) as home,
        ):
            env = home.env | {"CODEX_PATH": find_codex().path}
            stored = store_session(env, home.workspace, plan)
            for agent in agents[turn:] + agents[:turn]:
                (home.workspace / "new.txt").unlink(missing_ok=True)
                measured = measure_history(agent, env, home.workspace, plan, stored)
                note(samples, agent.name, measured)
    return samples


def _script(plan: Plan) -> ModelScript:
    """The responses of each kind of prompt; a tool call is followed by one that ends the turn."""
    messages = (Text(f"Message {number} of a turn.") for number in range(ITEMS_PER_TURN - 2))
    lines = plan.output // len(LINE)
    printed = f"yes '{LINE.strip()}' | head -n {lines}"
    written = LINE * (plan.file // len(LINE))
    return ModelScript(
        *_turn("history", exec_command("echo hello"), *messages),
        *_turn("print", exec_command(printed, yield_time_ms=30_000), Text("printed")),
        *_turn("write", add_file("new.txt", written), Text("written")),
        ModelResponse(Text("other"), repeat=True),
    )


def _turn(prompt: str, call: Step, *rest: Step) -> tuple[ModelResponse, ModelResponse]:
    def answered(request: ModelRequest) -> bool:
        last = request.items[-1] if request.items else {}
        return request.last_user_text == prompt and str(last.get("type")).endswith("_output")

    return (
        ModelResponse(*rest, when=answered, repeat=True),
        ModelResponse(call, when=When(user_text=prompt), repeat=True),
    )


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 5)
    parser.add_argument("--items", type=int, default=1_000, help="default: %(default)s")
    parser.add_argument("--output", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--file", type=int, default=5_000_000, help="default: %(default)s")
    add_agent_options(parser)
    options = parser.parse_args(argv)
    plan = Plan(options.items, options.output, options.file)
    with tempfile.TemporaryDirectory() as scratch:
        agents = agents_from(options, Path(scratch), with_codex=False, with_translator=False)
        samples = run(agents, plan, options.rounds)
    report("history", options, samples, reference="official")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
