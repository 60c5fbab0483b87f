"""The event loop of synchronous programs: every call ends, whatever happens to the loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from codex_acp.codex.loop_thread import LoopThread
from codex_acp.errors import ConnectionClosed, MisuseError

WAIT_SECONDS = 60.0

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO")


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test loop")
    yield thread
    thread.stop()


def test_a_call_gives_what_the_coroutine_gives_or_raises(loop: LoopThread) -> None:
    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> int:
        raise KeyError("lost")

    assert loop.call(good) == 7
    with pytest.raises(KeyError, match="lost"):
        loop.call(bad)


def test_the_coroutine_sees_the_context_of_the_caller(loop: LoopThread) -> None:
    async def who() -> str:
        return WHO.get()

    WHO.set("the caller")
    assert loop.call(who) == "the caller"


def test_a_call_from_the_loop_itself_is_refused_and_does_not_hang(loop: LoopThread) -> None:
    async def nothing() -> None:
        pass

    async def call_back() -> None:
        loop.call(nothing)

    with pytest.raises(MisuseError, match="await instead"):
        loop.call(call_back)


def test_stopping_fails_the_calls_that_wait_and_those_that_come_later(loop: LoopThread) -> None:
    waiting = threading.Event()
    cleaned = threading.Event()

    async def forever() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    with ThreadPoolExecutor() as pool:
        call = pool.submit(loop.call, forever)
        assert waiting.wait(WAIT_SECONDS)
        loop.stop()
        with pytest.raises(ConnectionClosed):
            call.result(WAIT_SECONDS)
    assert cleaned.is_set()
    with pytest.raises(ConnectionClosed):
        loop.call(forever)
    loop.stop()


def test_calls_that_race_with_the_stop_all_end() -> None:
    async def short() -> None:
        await asyncio.sleep(0)

    def hammer(loop: LoopThread) -> int:
        count = 0
        try:
            while True:
                loop.call(short)
                count += 1
        except ConnectionClosed:
            return count

    for _ in range(20):
        loop = LoopThread("test loop")
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(hammer, loop) for _ in range(4)]
            time.sleep(0.005)
            loop.stop()
            assert all(call.result(WAIT_SECONDS) >= 0 for call in calls)


def test_a_call_that_is_interrupted_is_cancelled_and_waited_for(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    events: list[str] = []

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            events.append("cleaned up")

    def ctrl_c() -> None:
        assert begun.wait(WAIT_SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", Mock(side_effect=ctrl_c))
    with pytest.raises(KeyboardInterrupt):
        loop.call(forever)
    assert events == ["cleaned up"]


def test_a_call_that_is_interrupted_before_it_begins_never_does(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def begin() -> None:
        begun.set()

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", Mock(side_effect=KeyboardInterrupt))
        hold = threading.Event()
        loop._loop.call_soon_threadsafe(hold.wait, WAIT_SECONDS)
        threading.Timer(0.05, hold.set).start()
        with pytest.raises(KeyboardInterrupt):
            loop.call(begin)
    assert not begun.is_set()
