"""A whole program with one turn, from its start to its end: ``python -m benchmarks.program``.

Ours with both clients, beside ``codex exec`` and, where it is installed, OpenAI's `openai-codex`;
rounds are interleaved, the model answers one word. See README.md for what the numbers mean.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.report import interleaved, report, report_parser
from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WALL = "from start to end, ms"
CPU = "CPU of the program and of what it started, ms"

OPENAI = "openai-codex"
"""The reference; OpenAI's own library, which brings pydantic models of the whole protocol."""

PROGRAMS = {
    "codex_acp.codex": """
import asyncio
from codex_acp.codex import CodexClient
async def main():
    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=".")
        print((await thread.run("say something")).text)
asyncio.run(main())
""",
    "codex_acp.codex.sync": """
from codex_acp.codex.sync import Codex
with Codex() as codex:
    print(codex.threads.start(cwd=".").run("say something").text)
""",
}

OF_OPENAI = """
import os
from openai_codex import Codex, CodexConfig
with Codex(CodexConfig(codex_bin=os.environ["CODEX_PATH"])) as codex:
    print(codex.thread_start(cwd=".").run("say something").final_response)
"""


def commands(python_of_openai: str | None) -> dict[str, list[str]]:
    """What is measured, by name."""
    found = {name: [sys.executable, "-c", code] for name, code in PROGRAMS.items()}
    if python_of_openai is not None:
        found[OPENAI] = [python_of_openai, "-c", OF_OPENAI]
    exec_it = ["exec", "--skip-git-repo-check", "say something"]
    return found | {"codex exec": [find_codex().path, *exec_it]}


def measure(command: list[str], env: Mapping[str, str], workspace: Path) -> dict[str, float]:
    """Milliseconds of one run. Raises RuntimeError if it did not say what the model says."""
    before = os.times()
    started = time.perf_counter()
    done = subprocess.run(
        command,
        env=dict(env),
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    wall = time.perf_counter() - started
    after = os.times()
    if "Hello." not in done.stdout:
        message = f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}"
        raise RuntimeError(message)
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return {WALL: 1e3 * wall, CPU: 1e3 * cpu}


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 15)
    parser.add_argument(
        "--openai",
        metavar="PYTHON",
        help="the interpreter of an environment with openai-codex (left out without it)",
    )
    options = parser.parse_args(argv)
    answer = ModelResponse(Text("Hello."), repeat=True)
    with ScriptedModel([answer]) as model, CodexHome(model.base_url) as home:
        env = home.env | {"CODEX_PATH": find_codex().path}
        found = commands(options.openai)
        measured = {name: partial(measure, c, env, home.workspace) for name, c in found.items()}
        samples = interleaved(measured, options.rounds, warm_up=True)
    report("program", options, samples, reference=OPENAI if OPENAI in measured else "codex exec")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
