"""Give an agent a limited time, and see what it had done by then.

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
        # The agent still says how far it got, and the prompt ends in good order.
        asyncio.get_running_loop().call_later(seconds, prompt.cancel)
        result = await prompt.result()
    print(f"{result.text}\n({result.stop_reason})")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2]))
