"""Contract 6.3: a turn that has gone silent is reported, once, with what is open."""

from __future__ import annotations

import logging

import anyio
import pytest

from codex_acp.codex import OpenRequest, SilentTurn, TurnWatchdog, ask
from codex_acp.errors import MisuseError
from codex_acp.testing import Entry, Notify, request_resolved, turn_completed
from tests.codex.policy_bench import SPAWNS_CHILD, TURN, Asked, PolicyBench, ask_command
from tests.codex.server_request_samples import COMMAND

AFTER = 60.0


class Watched:
    """A bench whose turn is watched by a clock that is set by hand."""

    def __init__(self, bench: PolicyBench) -> None:
        self.bench = bench
        self.now = 0.0
        self.reports: list[SilentTurn] = []
        self.watchdog = TurnWatchdog(bench.client, AFTER, self.reports.append, lambda: self.now)

    async def at(self, seconds: float, *entries: Entry) -> None:
        """Let it be that late, and let the server say this."""
        self.now = seconds
        self.bench.server.play(*entries)
        await self.bench.synced()
        self.watchdog.check()


def delta(thread_id: str = "t") -> Notify:
    said = {"threadId": thread_id, "turnId": "turn-1", "itemId": "m", "delta": "x"}
    return Notify("item/agentMessage/delta", said)


def turn_begins(thread_id: str, turn_id: str) -> Notify:
    turn = {"id": turn_id, "items": [], "status": "inProgress"}
    return Notify("turn/started", {"threadId": thread_id, "turn": turn})


async def test_6_3_a_silent_turn_is_reported_once_with_the_requests_that_are_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = Asked()
    bench = PolicyBench(ask(asked), ask_command())
    watched = Watched(bench)
    async with bench:
        with anyio.fail_after(60):
            await asked.called.wait()
        await watched.at(59.9)
        assert watched.reports == []
        await watched.at(60.0)
        await watched.at(600.0)
    (report,) = watched.reports
    assert report == SilentTurn("t", "turn-1", 60.0, (OpenRequest(0, COMMAND, "t"),))
    assert (
        sum(COMMAND in r.getMessage() and "silent" in r.getMessage() for r in caplog.records) == 1
    )


async def test_6_3_every_event_of_the_turn_puts_it_off_and_arms_it_again() -> None:
    bench = PolicyBench(None)
    watched = Watched(bench)
    async with bench:
        await watched.at(50, delta())
        await watched.at(100)
        assert watched.reports == []
        await watched.at(110)
        await watched.at(120, delta())
        await watched.at(180)
    assert [(r.seconds, r.open_requests) for r in watched.reports] == [(60.0, ()), (60.0, ())]


async def test_6_3_another_threads_events_do_not_count_and_its_sub_agents_do() -> None:
    bench = PolicyBench(None)
    watched = Watched(bench)
    async with bench:
        started = Notify("item/started", {**TURN, "item": SPAWNS_CHILD, "startedAtMs": 1})
        await watched.at(10, started, turn_begins("child", "c1"), turn_begins("x", "x1"))
        await watched.at(60, delta("child"))
        await watched.at(70)
        assert [(r.thread_id, r.seconds) for r in watched.reports] == [("x", 60.0)]
        await watched.at(120)
    assert {r.thread_id for r in watched.reports} == {"x", "t", "child"}


@pytest.mark.parametrize(
    "entries", [turn_completed(), [Notify("thread/closed", {"threadId": "t"})]]
)
async def test_6_3_a_turn_that_is_over_is_not_silent(entries: list[Entry]) -> None:
    bench = PolicyBench(None)
    watched = Watched(bench)
    async with bench:
        await watched.at(10, *entries)
        await watched.at(1000, *request_resolved(3))
    assert watched.reports == []


async def test_6_3_a_turn_that_never_starts_is_reported_if_it_is_expected() -> None:
    bench = PolicyBench(None, *turn_completed())
    watched = Watched(bench)
    async with bench:
        await bench.synced()
        watched.watchdog.expect("t", "turn-2")
        await watched.at(60)
    assert watched.reports == [SilentTurn("t", "turn-2", 60.0, ())]


async def test_6_3_after_the_end_and_after_close_nothing_is_reported() -> None:
    bench = PolicyBench(None)
    first, second = Watched(bench), Watched(bench)
    async with bench:
        first.watchdog.close()
        await first.at(100)
    second.now = 100
    assert first.reports + second.watchdog.check() == []


async def test_6_3_it_runs_until_the_connection_ends_and_a_failing_report_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = anyio.Event()

    def breaks(_found: SilentTurn) -> None:
        told.set()
        raise ValueError("no screen")

    bench = PolicyBench(None)
    watchdog = TurnWatchdog(bench.client, 0.01, breaks)
    with anyio.fail_after(60):
        async with bench, anyio.create_task_group() as group:
            group.start_soon(watchdog.run)
            await told.wait()
            await bench.client.aclose()
    assert any(r.levelno == logging.ERROR for r in caplog.records)


@pytest.mark.parametrize("after", [0, -1, float("nan")])
def test_a_time_that_is_not_positive_is_a_misuse(after: float) -> None:
    bench = PolicyBench(None)
    with pytest.raises(MisuseError, match="positive"):
        TurnWatchdog(bench.client, after, lambda _found: None)
