"""Who hears of an event, when, and that recording never gets in the way."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from codex_acp.errors import MisuseError
from codex_acp.transcript import Dropped, Entry, SessionClosed, Transcript
from codex_acp.transcript.log import utc_timestamp
from tests.transcript.event_strategies import TIME, answered, closed

NOON = 1769860800.0
"""2026-01-31T12:00:00Z in seconds."""


def reasons(entries: list[Entry] | list[Entry | Dropped]) -> list[str | int]:
    """The text of each event, the count of each gap."""
    found: list[str | int] = []
    for entry in entries:
        if isinstance(entry, Dropped):
            found.append(entry.count)
        else:
            assert isinstance(entry.event, SessionClosed)
            found.append(entry.event.reason)
    return found


async def rest(stream: AsyncIterator[Entry | Dropped]) -> list[Entry | Dropped]:
    with anyio.fail_after(60):
        return [entry async for entry in stream]


def test_5_1_an_entry_carries_the_time_of_the_clock_that_was_given() -> None:
    seen: list[Entry] = []
    transcript = Transcript(clock=lambda: NOON)
    transcript.subscribe(seen.append)
    transcript.record(closed("a"))
    assert seen == [Entry(TIME, closed("a"))]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (NOON + 0.25, "2026-01-31T12:00:00.250Z"),
        (NOON - 0.0005, "2026-01-31T11:59:59.999Z"),
    ],
)
def test_a_time_is_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert utc_timestamp(seconds) == text


def test_without_listeners_recording_does_not_even_look_at_the_clock() -> None:
    asked: list[str] = []

    def clock() -> float:
        asked.append("time")
        return NOON

    transcript = Transcript(clock=clock)
    transcript.record(closed("a"))
    unsubscribe = transcript.subscribe(lambda _: None)
    transcript.record(closed("b"))
    unsubscribe()
    unsubscribe()
    transcript.record(closed("c"))
    assert asked == ["time"]


def test_active_says_whether_anybody_listens() -> None:
    transcript = Transcript()
    states = [transcript.active]
    unsubscribe = transcript.subscribe(lambda _: None)
    states.append(transcript.active)
    unsubscribe()
    states.append(transcript.active)
    assert states == [False, True, False]


def test_listeners_hear_in_order_until_they_unsubscribe() -> None:
    heard: list[tuple[str, Entry]] = []
    transcript = Transcript(clock=lambda: NOON)
    end_first = transcript.subscribe(lambda e: heard.append(("first", e)))
    transcript.subscribe(lambda e: heard.append(("second", e)))
    transcript.record(closed("a"))
    end_first()
    transcript.record(closed("b"))
    assert [who for who, _ in heard] == ["first", "second", "second"]


def test_a_listener_that_raises_is_reported_once_and_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: Entry) -> None:
        message = "broken listener"
        raise RuntimeError(message)

    seen: list[Entry] = []
    transcript = Transcript()
    transcript.subscribe(broken)
    transcript.subscribe(seen.append)
    with caplog.at_level(logging.ERROR):
        for reason in ("a", "b", "c"):
            transcript.record(closed(reason))
    assert reasons(seen) == ["a", "b", "c"]
    assert len(caplog.records) == 1
    assert "broken listener" in caplog.text


def test_an_event_that_cannot_be_redacted_is_not_recorded_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deep: list[object] = ["hunter2"]
    for _ in range(100_000):
        deep = [deep]
    seen: list[Entry] = []
    transcript = Transcript()
    transcript.subscribe(seen.append)
    transcript.record(answered({"a": deep}, "too deep"))  # type: ignore[dict-item]
    transcript.record(closed("next"))
    assert reasons(seen) == ["next"]
    assert "the event elicitation.answered was not recorded: RecursionError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_an_iterator_has_everything_since_it_was_made() -> None:
    transcript = Transcript()
    transcript.record(closed("too early"))
    async with transcript.events() as stream:
        for reason in ("a", "b"):
            transcript.record(closed(reason))
        transcript.close()
        assert reasons(await rest(stream)) == ["a", "b"]


async def test_an_iterator_that_waits_is_woken_by_an_event_and_by_the_end() -> None:
    transcript = Transcript()
    stream = transcript.events()
    seen: list[Entry | Dropped] = []
    first = anyio.Event()

    async def read() -> None:
        async for entry in stream:
            seen.append(entry)
            first.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            transcript.record(closed("a"))
            await first.wait()
            await anyio.wait_all_tasks_blocked()
            transcript.close()
    assert reasons(seen) == ["a"]


async def test_a_slow_reader_loses_the_oldest_and_is_told_how_many() -> None:
    transcript = Transcript()
    async with transcript.events(limit=2) as stream:
        for reason in "abcde":
            transcript.record(closed(reason))
        assert await anext(stream) == Dropped(3)
        first = await anext(stream)
        assert reasons([first]) == ["d"]
        for reason in "fg":
            transcript.record(closed(reason))
        transcript.close()
        assert reasons(await rest(stream)) == [1, "f", "g"]


async def test_a_reader_that_keeps_up_loses_nothing() -> None:
    transcript = Transcript()
    read: list[Entry | Dropped] = []
    async with transcript.events(limit=1) as stream:
        for reason in "abcde":
            transcript.record(closed(reason))
            read.append(await anext(stream))
    assert reasons(read) == list("abcde")


async def test_one_slow_reader_costs_the_others_nothing() -> None:
    transcript = Transcript()
    async with transcript.events(limit=1) as slow, transcript.events() as quick:
        for reason in "abc":
            transcript.record(closed(reason))
        transcript.close()
        assert reasons(await rest(slow)) == [2, "c"]
        assert reasons(await rest(quick)) == ["a", "b", "c"]


async def test_a_closed_iterator_ends_at_once_and_is_forgotten() -> None:
    transcript = Transcript()
    stream = transcript.events()
    transcript.record(closed("a"))
    await stream.aclose()
    await stream.aclose()
    assert not transcript.active
    assert await rest(stream) == []


async def test_after_closing_nobody_is_added() -> None:
    transcript = Transcript()
    transcript.close()
    transcript.close()
    transcript.subscribe(lambda _: pytest.fail("closed"))
    transcript.record(closed("a"))
    assert not transcript.active
    assert await rest(transcript.events()) == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(MisuseError, match="at least 1"):
        Transcript().events(limit)
