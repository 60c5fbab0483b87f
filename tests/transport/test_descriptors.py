"""What a descriptor does not take at once is kept, and sent in order."""

from __future__ import annotations

import asyncio
import os
from random import Random

from codex_acp.transport.descriptors import DescriptorWriter


async def test_what_is_written_while_more_waits_comes_whole_and_in_order() -> None:
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    told: list[str] = []
    writer = DescriptorWriter(
        loop,
        writing,
        on_pause=lambda: told.append("pause"),
        on_resume=lambda: told.append("resume"),
        on_broken=lambda error: told.append(repr(error)),
    )
    chance = Random(5)
    written, read = bytearray(), bytearray()
    for size in (300_000, 1, 10, 200_000, 70_000, 3, 0, 500_000, 1, 1, 65_536, 20_000):
        data = chance.randbytes(size)
        writer.write(data)
        written += data
        for _ in range(chance.randrange(4)):
            if writer.unsent:
                read += await _next(reading)
        assert writer.sent + writer.unsent == len(written)
    while len(read) < len(written):
        read += await _next(reading)
    assert read == written
    assert writer.unsent == 0
    assert told[0] == "pause"
    assert told[-1] == "resume"
    writer.write(b"and more")
    assert await _next(reading) == b"and more"
    writer.stop()
    os.close(reading)
    os.close(writing)


async def _next(fd: int) -> bytes:
    """What one read gives, while the loop goes on."""
    return await asyncio.to_thread(os.read, fd, 65_536)
