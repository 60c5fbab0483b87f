"""Let an agent read and search without a question, and decide about everything else.

python examples/agent_permissions.py "create a file named hello"
"""

from __future__ import annotations

import asyncio
import json
import sys

from codex_acp.runtime import AgentRuntime, Permission, allow_kinds


async def decide(permission: Permission) -> str | None:
    """Return the chosen option; None rejects, and so does an exception."""
    call = permission.tool_call
    # JSON in ASCII: the agent's text can neither control the terminal nor hide characters.
    print(f"It wants to: {json.dumps(call.title)} ({permission.kind})")
    print(f"with: {json.dumps(call.raw_input)}")
    print("Allow it once? [y/N] ", end="", flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    yes = permission.option("allow_once")
    return yes.option_id if yes and answer.strip().lower() == "y" else None


async def main(text: str) -> None:
    policy = allow_kinds("read", "search", otherwise=decide)
    async with (
        AgentRuntime(permissions=policy) as runtime,
        runtime.open("codex", cwd=".") as session,
    ):
        result = await session.run(text)
    print(result.text)
    for call in result.tool_calls:
        print(f"- {call.title}: {call.status}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Create a file named hello."))
