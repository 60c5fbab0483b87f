"""An agent of the Python SDK that listens on a websocket; prints its URL.

Run by a Python with ``agent-client-protocol[http]`` and hypercorn. It asks for permission, and says
what was chosen.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import acp  # type: ignore[import-not-found]  # installed by `nox -s clients` only
from acp.http.asgi import create_asgi_app  # type: ignore[import-not-found]  # likewise
from acp.schema import (  # type: ignore[import-not-found]  # likewise
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallUpdate,
)
from hypercorn.asyncio import serve
from hypercorn.config import Config


class Agent:
    """One connection's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def initialize(self, **_: Any) -> Any:
        """Nothing special."""
        return InitializeResponse(protocol_version=acp.PROTOCOL_VERSION)

    async def new_session(self, **_: Any) -> Any:
        """There is one."""
        return NewSessionResponse(session_id="one")

    async def prompt(self, session_id: str, **_: Any) -> Any:
        """Ask, and say what was chosen."""
        asked = await self._client.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id="call", title="Run it", kind="execute"),
            options=[PermissionOption(option_id="yes", name="Yes", kind="allow_once")],
        )
        text = getattr(asked.outcome, "option_id", asked.outcome.outcome)
        update = acp.update_agent_message(acp.text_block(text))
        await self._client.session_update(session_id=session_id, update=update)
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, **_: Any) -> None:
        """Nothing runs for long."""


async def main() -> None:
    """Serve until it is killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = Config()
    config.bind = [address]
    serving = asyncio.ensure_future(serve(create_asgi_app(Agent), config))
    host, port = address.split(":")
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            break
    sys.stdout.write(f"ws://{address}/acp\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
