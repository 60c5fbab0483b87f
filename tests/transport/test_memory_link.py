"""The memory pair behaves like a pair of pipes."""

from __future__ import annotations

import asyncio

from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.transport.link import MemoryLink, memory_pair


class Events:
    def __init__(self, link: MemoryLink) -> None:
        self.seen: list[object] = []
        link.start(self)

    def data_received(self, data: bytes) -> None:
        self.seen.append(data)

    def link_closed(self, error: TransportError | None) -> None:
        self.seen.append(error)

    def pause_writing(self) -> None:
        self.seen.append("pause")

    def resume_writing(self) -> None:
        self.seen.append("resume")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_data_arrives_later_in_order_and_before_the_end() -> None:
    left, right = memory_pair()
    events = Events(right)
    Events(left)
    left.write(b"a")
    left.write(b"b")
    assert events.seen == []
    await left.aclose()
    await settle()
    assert events.seen == [b"ab", None]


async def test_what_was_written_before_the_start_is_delivered() -> None:
    left, right = memory_pair()
    left.write(b"early")
    await left.aclose()
    events = Events(right)
    await settle()
    assert events.seen == [b"early", None]


async def test_a_full_buffer_pauses_the_writer_until_it_is_read() -> None:
    left, right = memory_pair(buffer_limit=3)
    writer, reader = Events(left), Events(right)
    right.pause_reading()
    left.write(b"abc")
    assert writer.seen == []
    left.write(b"d")
    assert writer.seen == ["pause"]
    await settle()
    assert reader.seen == []
    right.resume_reading()
    await settle()
    assert reader.seen == [b"abcd"]
    assert writer.seen == ["pause", "resume"]


async def test_a_paused_reader_hears_of_the_end_only_after_the_data() -> None:
    left, right = memory_pair()
    events = Events(right)
    right.pause_reading()
    left.write(b"a")
    await left.aclose()
    await settle()
    assert events.seen == []
    right.resume_reading()
    await settle()
    assert events.seen == [b"a", None]


async def test_a_half_broken_link_tells_one_end_only_and_once() -> None:
    left, right = memory_pair()
    broken, whole = Events(left), Events(right)
    error = ConnectionClosed("cut")
    left.fail(error)
    await settle()
    right.write(b"unheard")
    await left.aclose()
    await settle()
    assert broken.seen == [error]
    assert whole.seen == []


async def test_after_a_half_close_the_other_direction_still_works() -> None:
    left, right = memory_pair()
    ours, theirs = Events(left), Events(right)
    left.end_writing()
    await settle()
    right.write(b"answer")
    await settle()
    assert theirs.seen == [None]
    assert ours.seen == [b"answer"]
