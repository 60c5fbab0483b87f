"""Python functions as tools of the model. (Codex calls them dynamic tools: experimental.)

python examples/codex_tools.py
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from codex_acp.codex import CodexClient
from codex_acp.codex.types import DynamicToolCallThreadItem

STOCK = {"apples": 12, "pears": 0}


async def main() -> None:
    async with CodexClient.start() as codex:

        @codex.tool
        def stock(fruit: Annotated[str, Field(description="In the plural.")]) -> int:
            """How many of a fruit are in the shop."""
            return STOCK[fruit]  # the model gets the text of an exception

        @codex.tool(timeout=5)
        async def order(fruit: str, count: Annotated[int, Field(ge=1, le=100)] = 10) -> str:
            """Order more of a fruit."""
            await asyncio.sleep(0)  # a call to some service
            STOCK[fruit] = STOCK.get(fruit, 0) + count
            return f"{count} {fruit} are on their way"

        thread = await codex.threads.start()
        result = await thread.run("Order what is missing: we want 10 of apples and of pears.")
        for item in result.items:
            if isinstance(item, DynamicToolCallThreadItem):
                print(f"{item.tool}({item.arguments}) -> {'ok' if item.success else 'failed'}")
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
