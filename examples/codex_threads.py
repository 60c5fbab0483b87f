"""List the threads of a directory, continue the last, and fork it.

python examples/codex_threads.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys

from codex_acp.codex import CodexClient


async def main(directory: str) -> None:
    async with CodexClient.start() as codex:
        threads = [t async for t in codex.threads.list(cwd=directory)]
        for thread in threads:
            print(f"{thread.id}  {thread.info.name or thread.info.preview}")
        if threads:
            thread = await threads[0].resume()
        else:
            thread = await codex.threads.start(cwd=directory)
            await thread.run("Remember the number seven.")
            await thread.rename("A number")
        print((await thread.run("Which number was it?")).text)

        # A fork has the whole history, and leaves the original unchanged.
        fork = await thread.fork(ephemeral=True)
        print((await fork.run("And its square?")).text)
        print(f"The thread has {len((await thread.read()).turns)} turns.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "."))
