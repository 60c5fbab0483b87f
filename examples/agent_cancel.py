"""Give an agent a limited time, and show its work until then.

python examples/agent_cancel.py 5 "count to a million"
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.runtime import AgentRuntime


async def main(seconds: float, text: str) -> None:
    async with (
        AgentRuntime() as runtime,
        runtime.open("codex", cwd=".") as session,
        session.prompt(text) as prompt,
    ):
        # After a cancel the agent still sends its last updates, and the prompt ends normally.
        asyncio.get_running_loop().call_later(seconds, prompt.cancel)
        result = await prompt.result()
    print(f"{result.text}\n({result.stop_reason})")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2]))
