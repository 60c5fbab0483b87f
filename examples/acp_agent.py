"""A small agent: it echoes each prompt, and deletes a file if the person allows it.

Name `python examples/acp_agent.py` as the command of an agent in any ACP client, or:
codex-acp-sdk run --command "python examples/acp_agent.py" "delete notes.txt"
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from codex_acp.acp import PromptTurn, run_agent


async def answer(turn: PromptTurn) -> None:
    turn.think("What do they want?")
    verb, _, name = turn.text.partition(" ")
    if verb != "delete":
        turn.say(f"You said: {turn.text}")
        return
    async with turn.tool_call(f"Delete `{name}`", kind="delete") as call:
        if await call.is_allowed():
            await asyncio.to_thread(Path(name).unlink, missing_ok=True)
            turn.say("It is gone.")
        else:
            turn.say("Then it stays.")


if __name__ == "__main__":
    asyncio.run(run_agent(answer, name="echo", version="1"))
