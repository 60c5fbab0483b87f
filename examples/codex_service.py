"""A service without anybody at the screen: its own MCP server is trusted, silence is an error.

    python examples/codex_service.py MCP_SERVER_NAME "first task" "second task" ...

The MCP server is one of Codex's configuration. Only the calls that Codex itself reports are let
through; whatever else is asked is declined, and the turn goes on.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from codex_acp.codex import (
    CodexClient,
    RefusedRequest,
    TurnSilent,
    TurnUnfinished,
    trust_mcp_servers,
)

SILENT_AFTER_SECONDS = 120.0


def declined(request: RefusedRequest) -> None:
    """Nothing that was declined goes unnoticed."""
    logging.warning("declined: %s", request.reason)


async def work(codex: CodexClient, task: str) -> str:
    """One task, in a thread of its own."""
    thread = await codex.threads.start(approval_policy="on-request", ephemeral=True)
    try:
        return (await thread.run(task, silent_after=SILENT_AFTER_SECONDS)).text
    except TurnSilent as silent:
        return f"gave up after {silent.seconds:.0f} s; it waited for {silent.open_requests}"
    except TurnUnfinished as error:
        return f"did not work out: {error}"


async def main(server: str, tasks: list[str]) -> None:
    policy = trust_mcp_servers({server})
    async with CodexClient.start(policy=policy, on_refused=declined) as codex:
        answers = await asyncio.gather(*(work(codex, task) for task in tasks))
    for task, answer in zip(tasks, answers, strict=True):
        print(f"{task}: {answer}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
