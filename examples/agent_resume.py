"""Continue the same conversation each time that the program starts.

python examples/agent_resume.py sessions.json "my favourite number is seven"
python examples/agent_resume.py sessions.json "what is my favourite number?"
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.runtime import AgentRuntime, SessionStore


async def main(path: str, text: str) -> None:
    async with (
        AgentRuntime(store=SessionStore(path)) as runtime,
        # The key is this program's own name for the conversation.
        runtime.open("codex", cwd=".", key="example") as session,
    ):
        print(f"opened by {session.opened.how}, {len(session.history)} earlier updates")
        if session.opened.reason is not None:
            print(f"not the earlier session: {session.opened.reason}")
        print((await session.run(text)).text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
