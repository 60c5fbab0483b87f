"""Decide in the terminal what Codex may do beyond its sandbox.

python examples/codex_approvals.py "create a file named hello"
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.codex import ApprovalQuestion, CodexClient, CommandApproval, Grant, Once, ask


def decide(question: ApprovalQuestion) -> Grant | None:
    """Decide about one question, in a thread that may block. None rejects, as does an exception."""
    match question.approval:
        case CommandApproval(request=request):
            print(f"Codex wants to run: {request.params.command}")
        case _:
            print(f"Codex asks: {dict(question.arguments)}")
    if Once() not in question.offered:
        return None
    print("Allow it once? [y/N] ", end="", flush=True)
    return Once() if sys.stdin.readline().strip().lower() == "y" else None


async def main(prompt: str) -> None:
    async with CodexClient.start(policy=ask(decide)) as codex:
        # With the approval policy "never" Codex would ask nobody, and the library would warn.
        thread = await codex.threads.start(sandbox="read-only", approval_policy="on-request")
        print((await thread.run(prompt)).text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Create a file named hello."))
