"""Run one prompt on many repositories, each in its own worktree, and keep the outcomes.

    python examples/fleet_local.py RESULTS "Add type hints." REPOSITORY...

A repository is a path or a URL. After an interruption, run the program again: it skips the tasks
that have an outcome in RESULTS. `git apply RESULTS/tasks/NAME/changes.patch` applies an agent's
changes.
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.fleet import Fleet, Task
from codex_acp.runtime import allow_kinds


async def main(out: str, prompt: str, repositories: list[str]) -> None:
    tasks = [Task(id=name, prompt=prompt, repository=name) for name in repositories]
    fleet = Fleet(
        out=out,
        resume=True,
        permissions=allow_kinds("read", "search"),  # rejects everything else
        max_tokens=1_000_000,
        task_time_limit=600,
    )
    async with fleet.map(tasks) as outcomes:
        async for outcome in outcomes:
            changed = len((outcome.changes or b"").splitlines())
            print(f"{outcome.id}: {outcome.status} ({outcome.reason}), {changed} lines of patch")
    if outcomes.left:
        print(f"stopped, since {outcomes.stopped}; left: {', '.join(outcomes.left)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
