"""An unattended service: it trusts its own MCP server, and a silent turn is an error.

    python examples/codex_service.py MCP_SERVER_NAME "first task" "second task" ...

The MCP server is in Codex's configuration. The policy allows only calls that Codex itself reports;
it declines all other requests, and the turn goes on.
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
    """Log each declined request."""
    logging.warning("declined: %s", request.reason)


async def work(codex: CodexClient, task: str) -> str:
    """Run one task in its own thread."""
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
