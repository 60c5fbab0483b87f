"""The engine Ray, on a cluster of several nodes on this machine; see ``nox -s fleet``."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_acp.fleet import EngineError, RayEngine, TaskPermission
from tests.fleet.fleet_bench import (
    WAIT,
    fleet_of,
    notes,
    outcomes,
    repository,
    spec,
    task,
)  # fmt: skip
from tests.support.processes import lives

pytestmark = [
    pytest.mark.ray,
    # What Ray itself leaves open when it is ended is not ours.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes of two CPUs; only one has a ``gate``."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: nox -s fleet")
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for number in range(3):
        made.add_node(num_cpus=2, resources={"gate": 1.0} if not number else {})
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def engine(cluster: Any, tmp_path: Path, **options: Any) -> RayEngine:
    return RayEngine(cluster.address, root=str(tmp_path / "root"), **options)


async def test_tasks_run_on_several_nodes_with_all_that_comes_of_them(
    cluster: Any, tmp_path: Path
) -> None:
    source = repository(tmp_path / "source", a_txt="1\n")
    asked: list[str] = []

    def decide(permission: TaskPermission) -> str:
        asked.append(permission.task_id)
        return "y"

    out = tmp_path / "out"
    tasks = [
        task(f"t{n}", tmp_path, write={"a.txt": f"{n} new\n"}, say=f"Said {n}.",
             tokens=n, sleep=0.3, repository=str(source), ask="execute" if n == 3 else None)
        for n in range(12)
    ]  # fmt: skip
    fleet = fleet_of(out, engine=engine(cluster, tmp_path, tasks_per_worker=2), permissions=decide)
    found = await outcomes(fleet, *tasks)
    assert len(found) == 12
    for n in range(12):
        outcome = found[f"t{n}"]
        assert (outcome.ok, outcome.usage.total) == (True, n), outcome.message
        assert outcome.text.endswith(f"Said {n}.")
        assert outcome.changes is not None
        assert f"+{n} new\n".encode() in outcome.changes
    assert asked == ["t3"]
    assert len({outcome.attempts[0].worker for outcome in found.values()}) > 1
    assert list((tmp_path / "root").glob("*/trees/*/a.txt")) == []


async def test_a_resource_of_the_cluster_bounds_the_workers(cluster: Any, tmp_path: Path) -> None:
    needs = engine(cluster, tmp_path, resources={"gate": 1.0}, tasks_per_worker=2)
    found = await outcomes(
        fleet_of(None, engine=needs), *(task(f"t{n}", tmp_path, sleep=0.2) for n in range(5))
    )
    assert len({outcome.attempts[0].worker for outcome in found.values()}) == 1
    impossible = engine(cluster, tmp_path, resources={"moon": 1.0})
    with pytest.raises(EngineError, match=r"no node .* what a worker needs .*moon: 1"):
        await outcomes(fleet_of(None, engine=impossible), task("a", tmp_path))


async def test_a_killed_worker_costs_only_what_it_ran_and_that_goes_on(
    cluster: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    agent = spec(FLEET_AGENT_STORE=str(store))
    source = repository(tmp_path / "source")
    tasks = [
        task(f"t{n}", tmp_path, agent, sleep=2.0, say="Done.", repository=str(source))
        for n in range(6)
    ]
    victims: list[int] = []

    def watch(task_id: str, event: Any) -> None:
        if event["type"] == "prompt" and not victims:
            victims.append(int(workers[task_id].rpartition("/")[2]))
            os.kill(victims[0], signal.SIGKILL)
        if event["type"] == "worker":
            workers[task_id] = event["worker"]

    workers: dict[str, str] = {}
    fleet = fleet_of(
        tmp_path / "out", engine=engine(cluster, tmp_path, tasks_per_worker=2), on_event=watch
    )
    found = await outcomes(fleet, *tasks)
    assert all(outcome.ok for outcome in found.values())
    lost = [o for o in found.values() if o.attempts[0].reason == "worker_lost"]
    assert 1 <= len(lost) <= 2
    assert all(len(outcome.attempts) == 2 for outcome in lost)
    # The worktree and the session are on this machine, so the next worker finds both.
    begun = [outcome for outcome in lost if outcome.attempts[0].session_id is not None]
    assert begun
    assert all(outcome.attempts[1].resumed for outcome in begun)
    end = time.monotonic() + WAIT
    while any(lives(note["pid"]) for note in notes(store)) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    assert not any(lives(note["pid"]) for note in notes(store))


async def test_a_budget_stops_what_runs_on_the_nodes(cluster: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    agent = spec(FLEET_AGENT_STORE=str(store))
    tasks = [task(f"t{n}", tmp_path, agent, used=60, sleep=600) for n in range(2)]
    fleet = fleet_of(tmp_path / "out", engine=engine(cluster, tmp_path), max_tokens=100)
    assert await outcomes(fleet, *tasks) == {}
    assert notes(store)
    assert not any(lives(note["pid"]) for note in notes(store))


async def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: nox -s fleet")
    nowhere = RayEngine("127.0.0.1:9")
    with pytest.raises(EngineError, match=r"could not be reached at 127\.0\.0\.1:9"):
        await outcomes(fleet_of(None, engine=nowhere), task("a", tmp_path))


def test_a_fleet_is_driven_from_outside_its_cluster(tmp_path: Path) -> None:
    """At ``ray://``, by the command: this process may belong to another cluster already."""
    # Not of those that the system gives out itself: a connection could reach its own end.
    client, head = random.sample(range(20_000, 30_000), 2)
    env = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    ray = Path(sys.executable).with_name("ray")
    begin = ("start", "--head", "--num-cpus=2", "--include-dashboard=false", "--block")
    where = (f"--port={head}", f"--ray-client-server-port={client}")
    ports = ("--min-worker-port=0", "--max-worker-port=0")
    more = (f"--temp-dir={tempfile.mkdtemp(prefix='ray-')}", *ports)
    tasks = tmp_path / "tasks.jsonl"
    source = str(repository(tmp_path / "source"))
    command = shlex.join([sys.executable, str(Path(__file__).with_name("fleet_agent.py"))])
    lines = [
        {"id": f"t{n}", "prompt": '{"say": "Done."}', "repository": source, "command": command}
        for n in range(3)
    ]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(out: str, **env_too: str) -> subprocess.CompletedProcess[str]:
        words = ("fleet", "run", str(tasks), "--out", str(tmp_path / out), "--engine", "ray")
        return subprocess.run(
            [sys.executable, "-m", "codex_acp", *words, "--address", f"ray://127.0.0.1:{client}"],
            env=env | env_too,
            capture_output=True,
            text=True,
            timeout=2 * WAIT,
            check=False,
        )

    with subprocess.Popen([ray, *begin, *where, *more], env=env, start_new_session=True) as process:
        try:
            end = time.monotonic() + WAIT
            while time.monotonic() < end:
                with socket.socket() as probe:
                    if not probe.connect_ex(("127.0.0.1", client)):
                        break
                time.sleep(0.2)
            done = run("out")
            assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
            assert "3 of 3 completed" in done.stdout + done.stderr
            refused = run("refused", RAY_AUTH_MODE="disabled")
            assert refused.returncode == 1
            assert "does the cluster want a token" in refused.stderr
        finally:
            os.killpg(process.pid, signal.SIGKILL)
