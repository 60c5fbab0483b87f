"""Import cost of our modules over bare Python: ``python -m benchmarks.imports``.

Each is imported in a process of its own; bare Python, whose median is taken off, is one of them.
See README.md for what the numbers mean.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.report import interleaved, report, report_parser

if TYPE_CHECKING:
    from benchmarks.report import Samples

BARE = "bare Python"

STATEMENTS = {
    BARE: "pass",
    "asyncio": "import asyncio",
    "pydantic, one class": "from pydantic import BaseModel; type('A', (BaseModel,), {})",
    "codex_acp": "import codex_acp",
    "codex_acp.codex": "import codex_acp.codex",
    "CodexClient": "from codex_acp.codex import CodexClient",
    "codex_acp.acp": "import codex_acp.acp",
    "cli.serve, until Codex is spawned": "import codex_acp.cli.serve",
    "adapter.serve, until initialize": "import codex_acp.adapter.serve",
    "adapter.session, for a prompt": "import codex_acp.adapter.sessions.session",
    "models: acp handshake": "import codex_acp.acp._generated.v1.models.handshake",
    "models: acp turn": "import codex_acp.acp._generated.v1.models.turn",
    "models: codex handshake": "import codex_acp.codex._generated.models.handshake",
    "models: codex turn": "import codex_acp.codex._generated.models.turn",
}

WALL = "wall time over bare Python, ms"
CPU = "CPU time over bare Python, ms"

NOT_PASSED_ON = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPROFILEIMPORTTIME")
"""The first would measure the compiler, and the others themselves."""


def measure_import(statement: str) -> dict[str, float]:
    """Wall and CPU milliseconds of one Python that runs ``statement``."""
    env = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    cpu, wall = _children_cpu(), time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=env, check=True)
    wall, cpu = time.perf_counter() - wall, _children_cpu() - cpu
    return {WALL: 1e3 * wall, CPU: 1e3 * cpu}


def _children_cpu() -> float:
    # Not os.times(), which counts in ticks of 10 ms.
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(statements: dict[str, str], rounds: int) -> Samples:
    """Interleaved rounds after one that only writes the byte code; bare Python is taken off."""
    measured = {name: partial(measure_import, text) for name, text in statements.items()}
    raw = interleaved(measured, rounds, warm_up=True)
    bare = {measure: statistics.median(values) for measure, values in raw[BARE].items()}
    return {
        name: {m: [value - bare[m] for value in values] for m, values in rows.items()}
        for name, rows in raw.items()
    }


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON if it is wanted."""
    parser = report_parser(__doc__, 9)
    options = parser.parse_args(argv)
    samples = run(STATEMENTS, options.rounds)
    report("imports", options, samples)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
