"""What comes in many little pieces is read in fewer that are larger; nothing is late by more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from codex_acp.transport.descriptors import (
    QUICK_READS,
    QUICK_SECONDS,
    REST_SECONDS,
    SMALL_READ,
    DescriptorReader,
)


class ByHand:
    """An event loop whose clock and readiness are the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.readable: Callable[[], object] | None = None
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def add_reader(self, _fd: int, callback: Callable[[], object]) -> None:
        self.readable = callback

    def remove_reader(self, _fd: int) -> None:
        assert self.readable is not None
        self.readable = None

    def call_later(self, delay: float, callback: Callable[[], object]) -> ByHand:
        self.timers.append((delay, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def rest(self) -> None:
        """Let the time pass for which it rests."""
        [(delay, callback)] = self.timers
        assert delay == REST_SECONDS
        self.timers.clear()
        self.now += delay
        callback()


class Reading:
    def __init__(self) -> None:
        self.fd, self._other = os.pipe()
        self.loop = ByHand()
        self.got: list[bytes] = []
        self.reader = DescriptorReader(
            cast("Any", self.loop), self.fd, self.got.append, lambda _error: None
        )
        self.reader.resume()

    def come(self, data: bytes, after: float = 0.0) -> None:
        """``data`` comes so long after the last, and is read if the loop watches."""
        self.loop.now += after
        os.write(self._other, data)
        if self.loop.readable is not None:
            self.loop.readable()

    def until_it_rests(self) -> int:
        for count in range(1000):
            if self.loop.readable is None:
                return count
            self.come(b"x")
        raise AssertionError("it never rests")

    def close(self) -> None:
        self.reader.stop()
        os.close(self.fd)
        os.close(self._other)


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.close()


def test_it_rests_only_behind_many_quick_reads(reading: Reading) -> None:
    assert reading.until_it_rests() > QUICK_READS
    reading.loop.rest()
    assert reading.loop.readable is not None


def test_what_comes_slower_is_read_at_once_however_much_it_is(reading: Reading) -> None:
    for _ in range(10 * QUICK_READS):
        reading.come(b"x", after=2 * QUICK_SECONDS)
        assert reading.loop.readable is not None
    assert reading.got == [b"x"] * 10 * QUICK_READS


def test_it_rests_again_while_little_comes_at_once(reading: Reading) -> None:
    reading.until_it_rests()
    for _ in range(3):
        reading.come(b"yy")
        reading.loop.rest()
        reading.come(b"")
        assert reading.got[-1] == b"yy"
        assert reading.loop.readable is None


@pytest.mark.parametrize(
    ("data", "after"), [(b"y" * SMALL_READ, 0.0), (b"z", 2 * QUICK_SECONDS)], ids=["much", "later"]
)
def test_it_rests_no_more_when_much_came_or_little_came_later(
    reading: Reading, data: bytes, after: float
) -> None:
    reading.until_it_rests()
    reading.loop.rest()
    reading.come(data, after)
    assert reading.got[-1] == data
    reading.come(b"x")
    assert reading.got[-1] == b"x"
    assert reading.loop.readable is not None


def test_a_reader_that_is_paused_while_it_rests_goes_on_when_it_is_resumed(
    reading: Reading,
) -> None:
    reading.until_it_rests()
    reading.reader.pause()
    assert reading.loop.timers == []
    reading.come(b"late")
    reading.reader.resume()
    reading.come(b"r")
    assert reading.got[-1] == b"later"


def test_a_reader_that_is_stopped_while_it_rests_reads_no_more(reading: Reading) -> None:
    reading.until_it_rests()
    reading.reader.stop()
    assert (reading.loop.timers, reading.loop.readable) == ([], None)
