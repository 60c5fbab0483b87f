"""What a fleet costs over its agents, and how fast it starts many: ``python -m benchmarks.fleet``.

The agent of the first part is in this process and does next to nothing, so that what a task takes
of CPU, git's included, is the fleet's and the runtime's; the same sessions by the runtime alone are
taken from it. The second part starts tasks of the real Codex all at once, and beside it as many
sessions by the runtime alone, in as many processes.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.report import note, report, report_parser
from codex_acp.fleet import Fleet, Task
from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.testing import CodexHome, Gate, ModelResponse, ScriptedAgent, ScriptedModel, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.report import Samples

CPU: Final = "CPU of a task over its session's, ms"
STARTED: Final = "until all prompts are sent, s"
TASKS_PER_AGENT: Final = 8


def _cpu() -> float:
    """Seconds of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _repository(folder: Path, files: int) -> Path:
    folder.mkdir()
    for number in range(files):
        (folder / f"file{number}.txt").write_text(f"{number}\n" * 20)
    commit = ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "x"]
    for words in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


async def _by_runtime(count: int, spec: AgentSpec, cwd: Path) -> None:
    async with AgentRuntime() as runtime:
        for _ in range(count):
            async with runtime.open(spec, cwd=cwd) as session:
                await session.run("Hello.")


async def _by_fleet(count: int, spec: AgentSpec, where: Mapping[str, Any], out: Path) -> None:
    tasks = [Task(id=f"t{n}", prompt="Hello.", agent=spec, **where) for n in range(count)]
    async with Fleet(out=out, concurrency=4).map(tasks) as outcomes:
        assert all([outcome.ok async for outcome in outcomes])


def measure_cost(count: int, scratch: Path) -> dict[str, float]:
    """Milliseconds of CPU by where a task works, over the runtime's own."""
    source = _repository(scratch / "source", 100)
    places: dict[str, Mapping[str, Any]] = {
        "a directory": {"cwd": scratch},
        "a directory with git": {"cwd": source},
        "a worktree": {"repository": str(source)},
    }
    found: dict[str, float] = {}
    for name, where in places.items():

        async def run(where: Mapping[str, Any], out: Path) -> float:
            agent = ScriptedAgent([["Hello."]] * (2 * count + 2))
            spec = AgentSpec(name="scripted", link=agent.link, shared=True)
            await _by_runtime(1, spec, scratch)  # loads everything
            before = _cpu()
            await _by_runtime(count, spec, scratch)
            alone = _cpu() - before
            before = _cpu()
            await _by_fleet(count, spec, where, out)
            return (_cpu() - before - alone) / count

        out = scratch / f"out {name}"
        asyncio.run(run(where, scratch / "warm" / name))
        found[name] = 1e3 * asyncio.run(run(where, out))
    return found


async def _starts(count: int, home: CodexHome, scratch: Path) -> dict[str, float]:
    spec = AgentSpec.codex(env=home.env, inherit_env=False, shared=True)
    found: dict[str, float] = {}
    sent = asyncio.Event()
    begun: set[str] = set()

    def heard(task_id: str, event: Mapping[str, Any]) -> None:
        if event["type"] == "prompt":
            begun.add(task_id)
            if len(begun) == count:
                sent.set()

    tasks = [Task(id=f"t{n}", prompt="Hi.", agent=spec, cwd=scratch) for n in range(count)]
    started = time.perf_counter()
    async with Fleet(out=scratch / "out", concurrency=count, on_event=heard).map(tasks):
        await sent.wait()
        found["fleet"] = time.perf_counter() - started

    started = time.perf_counter()
    runtimes = [AgentRuntime() for _ in range(-(-count // TASKS_PER_AGENT))]
    try:
        opened = (runtimes[n // TASKS_PER_AGENT].open(spec, cwd=scratch) for n in range(count))
        sessions = await asyncio.gather(*(_awaited(each) for each in opened))
        running = [session.prompt("Hi.") for session in sessions]
        await asyncio.sleep(0)
        assert len(running) == count
        found["runtime alone"] = time.perf_counter() - started
    finally:
        await asyncio.gather(*(runtime.aclose() for runtime in runtimes))
    return found


async def _awaited(opening: Any) -> Any:
    return await opening


def measure_start(count: int, scratch: Path) -> dict[str, float]:
    """Seconds until every prompt is on its way, by who sent it."""
    answer = ModelResponse(Text("I start."), Gate("never"), repeat=True)
    with ScriptedModel([answer]) as model, CodexHome(model.base_url) as home:
        return asyncio.run(_starts(count, home, scratch))


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 5)
    parser.add_argument("--tasks", type=int, default=50, help="of a round (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=64, help="default: %(default)s")
    options = parser.parse_args(argv)
    samples: Samples = {}
    for _ in range(options.rounds):
        measures = ((CPU, measure_cost, options.tasks), (STARTED, measure_start, options.at_once))
        for measure, function, count in measures:
            with tempfile.TemporaryDirectory() as scratch:
                for name, value in function(count, Path(scratch)).items():
                    note(samples, name, {measure: value})
    report("fleet", options, samples, reference="runtime alone")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
