"""``python -m tests.fleet.chaos --engine local|ray [--tasks 200] [--seed S]``: a fleet that is hit.

The real Codex runs every task, with a scripted model behind it; the driver is the command, run
again with ``--resume`` each time it is killed. Codex alone is killed, too, and the adapter alone.
With Ray there are nodes on this machine, and workers and nodes are killed. At the end each task has
exactly one outcome, and `chaos_tasks` compares all that is kept of it with what the model said.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from codex_acp.fleet import read_outcomes
from codex_acp.fleet.outcomes import read_history
from codex_acp.testing import CodexHome, ScriptedModel
from tests.fleet.chaos_tasks import TORN, ChaosTask, Checks
from tests.fleet.fleet_bench import repository
from tests.support.processes import processes_of

LIMIT_SECONDS: Final = 3600.0

NODES: Final = 3

COMMANDS: Final = {"codex": "app-server", "adapter": "serve"}
"""What is killed alone, and a word of its command."""


class Chaos:
    """One run; ``counts`` says what happened."""

    def __init__(self, engine: str, tasks: int, seed: int, kills: int) -> None:
        self._engine = engine
        self._tasks = tasks
        self._random = random.Random(seed)
        self._kills = kills
        self._nodes: list[Any] = []
        self.counts: Counter[str] = Counter()
        # Not below /tmp, where an agent could write beside its worktree.
        self.place = Path(tempfile.mkdtemp(prefix="fleet-chaos-", dir="/var/tmp"))

    def run(self) -> None:
        """Raises AssertionError for what is not held; then all that was kept stays in `place`."""
        tasks = [ChaosTask(number) for number in range(self._tasks)]
        script = [response for task in tasks for response in task.responses()]
        with (
            ScriptedModel(script) as model,
            CodexHome(model.base_url, sandbox_mode="workspace-write") as home,
        ):
            place = self.place
            out, file = place / "out", place / "tasks.jsonl"
            source = repository(place / "source")
            file.write_text("".join(json.dumps(task.line(source)) + "\n" for task in tasks))
            env = home.env | {
                "XDG_CACHE_HOME": str(place / "cache"),
                "RAY_USAGE_STATS_ENABLED": "0",
                # Of a copy with a fault in it, which is to be found.
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            }
            os.environ.update(env)  # Ray's nodes inherit it
            printed = place / "printed"
            with self._cluster() as cluster, printed.open("ab") as stream:
                self._drive(out, file, env, cluster, stream)
            checks = Checks(out, source, tasks, model.requests)
            try:
                checks.check(printed.read_text().splitlines())
            finally:
                self.counts.update(checks.counts)
            self._nothing_left(place)
        shutil.rmtree(place)

    def _drive(
        self, out: Path, file: Path, env: dict[str, str], cluster: Any, stream: IO[bytes]
    ) -> None:
        command = [sys.executable, "-P", "-m", "codex_acp", "fleet", "run", str(file), "--json"]
        command += ["--out", str(out), "--resume", "--attempts", "20"]
        if cluster is not None:
            command += ["--engine", "ray", "--address", cluster.address, "--num-cpus", "1"]
        else:
            command += ["--concurrency", "16"]
        end = time.monotonic() + LIMIT_SECONDS
        kills = ["driver", "codex", "codex", "adapter"] * self._kills
        if cluster is not None:
            kills += ["worker"] * 2 * self._kills + ["node"] * max(1, self._kills // 2)
        self._random.shuffle(kills)
        # Each at some number of outcomes, all of them before the last tenth.
        when = sorted(self._random.randrange(int(self._tasks * 0.9)) for _ in kills)
        driver = subprocess.Popen(command, env=env, stdout=stream)
        try:
            while True:
                assert time.monotonic() < end, "it takes too long"
                code = driver.poll()
                done = len(list((out / "tasks").glob("task-*"))) if out.exists() else 0
                if code == 0:
                    return
                if code is not None:
                    self.counts[f"drivers that ended with {code}"] += 1
                    wrong = [each for each in read_outcomes(out) if not each.ok] if done else []
                    assert code == -signal.SIGKILL, f"the driver ended with {code}: {wrong[:3]}"
                    driver = subprocess.Popen(command, env=env, stdout=stream)
                elif kills and done >= when[0]:
                    when.pop(0)
                    self._kill(kills.pop(), driver, out, cluster, env)
                time.sleep(0.1)
        finally:
            driver.kill()
            driver.wait()

    def _kill(
        self,
        what: str,
        driver: subprocess.Popen[bytes],
        out: Path,
        cluster: Any,
        env: dict[str, str],
    ) -> None:
        if what == "driver":
            driver.kill()
            driver.wait()
            if (out / "journal.jsonl").exists():  # as a machine leaves it that loses its power
                with (out / "journal.jsonl").open("ab") as journal:
                    journal.write(TORN)
        elif what == "node":
            node = self._nodes.pop(self._random.randrange(len(self._nodes)))
            cluster.remove_node(node, allow_graceful=False)
            self._nodes.append(cluster.add_node(num_cpus=2))
        elif what in COMMANDS:
            running = processes_of(COMMANDS[what], f"CODEX_HOME={env['CODEX_HOME']}")
            if not running:
                return
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(running), signal.SIGKILL)
        else:
            attempts = [
                history.attempts[-1].worker
                for history in read_history(out / "journal.jsonl")[1].values()
                if history.attempts and history.attempts[-1].reason == "interrupted"
            ]
            workers = sorted({worker for worker in attempts if worker is not None})
            if not workers:
                return
            with suppress(ProcessLookupError):
                os.kill(int(self._random.choice(workers).rpartition("/")[2]), signal.SIGKILL)
        self.counts[f"{what}s killed"] += 1

    def _nothing_left(self, place: Path) -> None:
        """No agent goes on, and no worktree stays where a killed one was gone on with."""
        end = time.monotonic() + 60
        while (left := _processes_in(place)) and time.monotonic() < end:
            time.sleep(0.2)
        self.counts["processes left"] = len(left)
        assert not left, left

    @contextmanager
    def _cluster(self) -> Iterator[Any]:
        if self._engine == "local":
            yield None
            return
        from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

        head = {"num_cpus": 0, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [cluster.add_node(num_cpus=2) for _ in range(NODES)]
        try:
            yield cluster
        finally:
            cluster.shutdown()


def _processes_in(place: Path) -> list[str]:
    """Processes that work below a directory, by their command."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.readlink(entry / "cwd").startswith(str(place)):  # noqa: PTH115
                    found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument(
        "--kills",
        type=int,
        default=3,
        help="of the driver and the adapter; of Codex and of workers twice that",
    )
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    chaos = Chaos(options.engine, options.tasks, seed, options.kills)
    started = time.monotonic()
    out = sys.stdout.write
    out(f"engine {options.engine}, {options.tasks} tasks, seed {seed}\n")
    wrong: AssertionError | None = None
    try:
        chaos.run()
    except AssertionError as error:
        wrong = error
    for name, count in sorted(chaos.counts.items()):
        out(f"{count:>9} {name}\n")
    out(f"{time.monotonic() - started:9.0f} seconds\n")
    if wrong is not None:
        out(f"\nNOT HELD: {wrong}\n{''.join(traceback.format_tb(wrong.__traceback__)[-1:])}")
        out(f"see {chaos.place}\n")
    return int(wrong is not None)


if __name__ == "__main__":
    raise SystemExit(main())
