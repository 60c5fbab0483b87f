"""Ask Codex about a directory, then follow a second turn as it streams.

python examples/codex_quickstart.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.codex import CodexClient, TurnFailed
from codex_acp.codex.types import (
    CommandExecutionThreadItem,
    ItemAgentMessageDeltaEvent,
    ItemStartedEvent,
)


async def main(directory: str) -> None:
    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=directory, sandbox="read-only")

        # The whole answer at once.
        result = await thread.run("What is in this directory? One sentence.")
        print(result.text)
        if result.usage is not None:
            print(f"({result.usage.total.total_tokens} tokens so far)")

        # The answer as it streams. Leaving the block early would interrupt the turn.
        async with thread.turn("Which file was changed last?") as turn:
            async for event in turn:
                match event:
                    case ItemAgentMessageDeltaEvent(params=said):
                        print(said.delta, end="", flush=True)
                    case ItemStartedEvent(params=started):
                        if isinstance(started.item, CommandExecutionThreadItem):
                            print(f"$ {started.item.command}")
            try:
                await turn.result()
            except TurnFailed as failed:
                print(f"It failed: {failed}")
        print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "."))
