"""One prompt through the Python SDK's own client; prints what it saw as JSON.

Run by a Python with the package ``agent-client-protocol``. Arguments: the agent's command, the
working directory, the kind of option to choose, what is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import acp  # type: ignore[import-not-found]  # installed by `nox -s clients` only
from acp.schema import (  # type: ignore[import-not-found]  # likewise
    AllowedOutcome,
    RequestPermissionResponse,
)


class Client:
    """Chooses by kind and remembers every update."""

    def __init__(self, choose: str) -> None:
        self._choose = choose
        self.asked = 0
        self.updates: list[Any] = []

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        """Choose the first option of the kind."""
        del session_id, tool_call
        self.asked += 1
        option = next(each for each in options if each.kind == self._choose)
        outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Remember it as JSON."""
        del session_id
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    def on_connect(self, connection: Any) -> None:
        """Nothing to do."""


async def main(command: str, cwd: str, choose: str, text: str) -> None:
    """Run the prompt."""
    client = Client(choose)
    environment = dict(os.environ)  # by itself the SDK passes on next to nothing
    async with acp.spawn_agent_process(client, command, env=environment) as (agent, _process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        opened = await agent.new_session(cwd=cwd, mcp_servers=[])
        prompt = [acp.text_block(text)]
        ended = await agent.prompt(prompt=prompt, session_id=opened.session_id)
        listed = await agent.list_sessions(cwd=cwd)
    seen = {
        "asked": client.asked,
        "updates": client.updates,
        "opened": opened.session_id,
        "stopReason": ended.stop_reason,
        "listed": [session.session_id for session in listed.sessions],
    }
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
