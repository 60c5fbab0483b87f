"""Show Codex images: files, URLs, or bytes that a program has made.

python examples/codex_images.py IMAGE [IMAGE ...]
"""

from __future__ import annotations

import asyncio
import struct
import sys
import zlib

from codex_acp.codex import CodexClient, image


async def main(sources: list[str]) -> None:
    async with CodexClient.start() as codex:
        thread = await codex.threads.start()
        images = [image(source) for source in sources]
        print((await thread.run(["What do these show?", *images])).text)
        print((await thread.run([image(made_here(), detail="high"), "And this?"])).text)


def made_here() -> bytes:
    """A black PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\0")
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
