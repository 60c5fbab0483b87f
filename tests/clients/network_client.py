"""One prompt through the Python SDK's own client over the network; prints what it saw as JSON.

Run by a Python with ``agent-client-protocol[http]``. Arguments: the agent's URL, its token, the
working directory, the kind of option to choose, what is asked.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import acp  # type: ignore[import-not-found]  # installed by `nox -s clients` only
from acp.http import create_http_stream  # type: ignore[import-not-found]  # likewise
from acp.ws import create_websocket_stream  # type: ignore[import-not-found]  # likewise

sys.path.insert(0, str(Path(__file__).parent))
from sdk_client import Client  # type: ignore[import-not-found]  # it runs as a script


async def main(url: str, token: str, cwd: str, choose: str, text: str) -> None:
    """Run the prompt."""
    client = Client(choose)
    headers = {"Authorization": f"Bearer {token}"}
    if url.startswith("http"):
        stream = create_http_stream(url, headers=headers)
    else:
        stream = await create_websocket_stream(url, headers=headers)
    agent = acp.connect_to_agent(client, stream)
    await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
    opened = await agent.new_session(cwd=cwd, mcp_servers=[])
    ended = await agent.prompt(prompt=[acp.text_block(text)], session_id=opened.session_id)
    listed = await agent.list_sessions(cwd=cwd)
    await stream.close()
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
