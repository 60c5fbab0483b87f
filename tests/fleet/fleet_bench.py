"""How the tests of fleets run one: with an agent that does what its prompt says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio

from codex_acp.fleet import Fleet, Outcome, Retries, Task
from codex_acp.runtime import AgentSpec

AGENT = Path(__file__).with_name("fleet_agent.py")

WAIT = 90.0
"""Bound of a fleet in a test; a quiet machine needs a second."""

QUICK = Retries(attempts=3, seconds=0.01)


def spec(*, shared: bool = True, **env: str) -> AgentSpec:
    return AgentSpec((sys.executable, str(AGENT)), "scripted", env, shared=shared)


def notes(store: Path) -> list[dict[str, Any]]:
    """What the agents noted, session by session."""
    files = sorted(store.iterdir()) if store.exists() else []
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def task(name: str, place: Path, agent: AgentSpec | None = None, **told: Any) -> Task:
    """A task that works in ``place``, a directory, unless it has a repository."""
    names = set(Task.__dataclass_fields__)
    fields = {key: told.pop(key) for key in tuple(told) if key in names}
    if "repository" not in fields:
        fields["cwd"] = place
    fields.setdefault("prompt", json.dumps(told))
    return Task(id=name, agent=agent or spec(), **fields)


def fleet_of(out: Path | None, **options: Any) -> Fleet:
    options.setdefault("retries", QUICK)
    return Fleet(out=out, **options)


async def outcomes(fleet: Fleet, *tasks: Task) -> dict[str, Outcome]:
    """All of them, by id; no id comes twice."""
    found: dict[str, Outcome] = {}
    with anyio.fail_after(WAIT):
        async with fleet.map(tasks) as running:
            async for outcome in running:
                assert outcome.id not in found
                found[outcome.id] = outcome
    return found


def git(folder: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> Path:
    """One with a commit; a file's name has ``_`` for its dot."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, **(files or {"a_txt": "one\n"}))
    return folder


def commit(folder: Path, **files: str) -> str:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "more")
    return git(folder, "rev-parse", "HEAD")
