"""A small client on the plain protocol: start an agent, send a prompt, print the answer.

python examples/acp_client.py "Hello" python examples/acp_agent.py
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from codex_acp.acp import connect_agent
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    NewSessionRequest,
    PromptRequest,
    SessionNotification,
    TextContentBlock,
)


def show(notification: SessionNotification) -> None:
    match notification.update:
        case AgentMessageChunkSessionUpdate(content=TextContentBlock(text=text)):
            print(text, end="", flush=True)


async def main(text: str, command: list[str]) -> None:
    here = NewSessionRequest(cwd=str(Path.cwd()), mcp_servers=[])
    async with connect_agent(
        command, name="example", notifications={"session/update": show}
    ) as agent:
        opened = await agent.side.session_new(here)
        prompt = PromptRequest(session_id=opened.session_id, prompt=[TextContentBlock(text=text)])
        print(f"\n({(await agent.side.session_prompt(prompt)).stop_reason})")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
