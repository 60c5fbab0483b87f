"""Run one prompt on many repositories on a Ray cluster, with typed answers and local decisions.

    python examples/fleet_ray.py RESULTS "What is this project for?" REPOSITORY...

Without a cluster's address, Ray starts on this machine. Agents run on the nodes, which need
codex-acp-sdk and Codex; this program answers their questions. pip install 'codex-acp-sdk[ray]'
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel

from codex_acp.fleet import Fleet, RayEngine, Task, TaskPermission


class Purpose(BaseModel):
    sentence: str
    languages: list[str]


def decide(permission: TaskPermission) -> None:
    """Reject every question; a program that permits an action returns the option's id."""
    print(f"{permission.task_id} wants to: {permission.tool_call.title!r}; rejected")


async def main(out: str, prompt: str, repositories: list[str], address: str | None = None) -> None:
    tasks = [Task(id=name, prompt=prompt, repository=name, output=Purpose) for name in repositories]
    engine = RayEngine(address, num_cpus=1, tasks_per_worker=4)
    async with Fleet(engine, out=out, resume=True, permissions=decide).map(tasks) as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome.output, Purpose):
                print(f"{outcome.id}: {outcome.output.sentence}")
            else:
                print(f"{outcome.id}: {outcome.status}, {outcome.reason}: {outcome.message}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
