"""Time from the start of a program to its first thread: ``python -m benchmarks.thread``.

Programs that use the library, beside the bare binary spoken to in its own protocol; rounds are
interleaved. See README.md for what the numbers mean.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.agents import Agent
from benchmarks.process import AgentProcess
from benchmarks.report import interleaved, report, report_parser
from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BARE = "codex app-server"

THREAD = "to first thread/start answered, ms"

CLIENT_INFO = {"name": "codex-acp-benchmark", "version": "1"}

SPAWNED = "of that since Codex was spawned, ms"

IN_THE_LOOP = """
import asyncio, time
from codex_acp.codex import CodexClient
async def main():
    began = time.perf_counter()
    async with CodexClient.start() as codex:
        await codex.threads.start(cwd=".")
        print(time.perf_counter() - began, flush=True)
asyncio.run(main())
"""

BEFORE_THE_LOOP = """
import time
from codex_acp.codex import CodexClient
began = time.perf_counter()
client = CodexClient.start()
import asyncio
async def main():
    async with client as codex:
        await codex.threads.start(cwd=".")
        print(time.perf_counter() - began, flush=True)
asyncio.run(main())
"""

SYNCHRONOUS = """
import time
from codex_acp.codex.sync import Codex
began = time.perf_counter()
with Codex() as codex:
    codex.threads.start(cwd=".")
    print(time.perf_counter() - began, flush=True)
"""

PROGRAMS = {
    "CodexClient": IN_THE_LOOP,
    "CodexClient, started before asyncio": BEFORE_THE_LOOP,
    "sync.Codex": SYNCHRONOUS,
    "Python and asyncio alone": "import asyncio; print(0, flush=True)",
}


def measure_program(code: str, env: Mapping[str, str], workspace: Path) -> dict[str, float]:
    """Milliseconds from spawning Python to the line that ``code`` prints, and what that says."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(env),
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        milliseconds = 1e3 * (time.perf_counter() - started)
    if not line.strip() or program.returncode:
        message = f"a program ended with {program.returncode}"
        raise RuntimeError(message)
    since_spawn = 1e3 * float(line)
    return {THREAD: milliseconds} | ({SPAWNED: since_spawn} if since_spawn else {})


def measure_bare(env: Mapping[str, str], workspace: Path) -> dict[str, float]:
    """Milliseconds from spawning the binary to the answer of ``thread/start``."""
    agent = Agent(BARE, (find_codex().path, "app-server"), "codex")
    with AgentProcess(agent, env, workspace) as process:
        process.request("initialize", {"clientInfo": CLIENT_INFO})
        process.notify("initialized")
        process.request("thread/start", {"cwd": str(workspace)})
        milliseconds = 1e3 * (time.perf_counter() - process.started)
        return {THREAD: milliseconds, SPAWNED: milliseconds}


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 15)
    options = parser.parse_args(argv)
    with CodexHome() as home:
        env = home.env | {"CODEX_PATH": find_codex().path}
        where = (env, home.workspace)
        measured = {n: partial(measure_program, code, *where) for n, code in PROGRAMS.items()}
        measured = {BARE: partial(measure_bare, *where)} | measured
        samples = interleaved(measured, options.rounds, warm_up=True)
    report("thread", options, samples, reference=BARE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
