"""Run any ACP agent by its command, choose its model and mode, and let it use this directory.

python examples/agent_any_command.py "my-agent --acp" "What is here?"
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.runtime import AgentRuntime, AgentSpec, FileAccess


async def main(command: str, question: str) -> None:
    # The runtime advertises to the agent only the features that are given here.
    async with (
        AgentRuntime(files=FileAccess(read=True, write=False)) as runtime,
        runtime.open(AgentSpec.parse(command), cwd=".") as session,
    ):
        info = session.agent_info
        print(f"agent: {info.name} {info.version}" if info else "an agent without a name")
        for setting in (session.options.model, session.options.mode):
            if setting:
                print(f"set to {setting.current!r}; it could be:")
                for choice in setting.choices:
                    print(f"  {choice.value}: {choice.name}")
        result = await session.run(question)
        print(f"{result.text}\n({result.stop_reason})")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
