"""Ask Codex through ACP, and show its work as it streams.

python examples/agent_run_codex.py "what is in this directory?"
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    TextContentBlock,
    ToolCallSessionUpdate,
)
from codex_acp.runtime import AgentRuntime


async def main(question: str) -> None:
    async with AgentRuntime() as runtime, runtime.open("codex", cwd=".") as session:
        async with session.prompt(question) as prompt:
            async for update in prompt:
                if isinstance(update, AgentMessageChunkSessionUpdate):
                    if isinstance(update.content, TextContentBlock):
                        print(update.content.text, end="", flush=True)
                elif isinstance(update, ToolCallSessionUpdate):
                    print(f"\n[{update.kind}: {update.title}]")
        print(f"\nThe prompt ended with {prompt.stop_reason}.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "What is in this directory?"))
