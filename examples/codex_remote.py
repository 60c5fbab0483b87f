"""Use an app-server that runs already, here or behind a tunnel.

On its machine:   codex app-server --listen ws://127.0.0.1:4500 \\
                      --ws-auth capability-token --ws-token-file /path/to/token
Here:             CODEX_TOKEN=... python examples/codex_remote.py ws://127.0.0.1:4500

``unix:///path/to/socket`` works as well. Needs the extra ``codex-acp-sdk[remote]``.
"""

from __future__ import annotations

import asyncio
import os
import sys

from codex_acp.codex import CodexClient
from codex_acp.errors import ConnectionClosed


async def main(url: str) -> None:
    try:
        async with CodexClient.connect_to(url, token=os.environ.get("CODEX_TOKEN")) as codex:
            print(f"Connected to {codex.server.user_agent}")
            thread = await codex.threads.start()
            print((await thread.run("Where are you?")).text)
    except ConnectionClosed as error:
        print(f"No Codex there: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
