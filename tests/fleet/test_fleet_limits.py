"""Limits of tasks, budgets of fleets, and what is tried again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from codex_acp.errors import ErrorReply, ProcessExited
from codex_acp.fleet import LocalEngine, Outcome, RayEngine, Retries
from codex_acp.fleet.engines import _Actor
from codex_acp.fleet.jobs import Job, Post, Report, reason_of
from codex_acp.fleet.worker import TimeLimit
from codex_acp.runtime import AgentStartError
from tests.fleet.fleet_bench import WAIT, fleet_of, notes, outcomes, repository, spec, task
from tests.soak.chaos.virtual_time import VirtualTimeLoop
from tests.support.processes import lives


async def test_a_task_that_hangs_is_ended_at_its_limit_with_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    source = repository(tmp_path / "source")
    agent = spec(FLEET_AGENT_STORE=str(store))
    limits: dict[float | None, TimeLimit] = {}

    class Noted(TimeLimit):
        def __init__(self, seconds: float | None) -> None:
            super().__init__(seconds)
            limits[seconds] = self

    def watch(task_id: str, event: Any) -> None:
        if task_id == "a" and event["type"] == "usage":  # what it says last, so it is over now
            limits[500.0]._timeout.reschedule(asyncio.get_running_loop().time())

    monkeypatch.setattr("codex_acp.fleet.worker.TimeLimit", Noted)
    found = await outcomes(
        fleet_of(None, task_time_limit=600, on_event=watch),
        task("a", tmp_path, agent, write={"b": "1\n"}, sleep=600, time_limit=500.0,
             repository=str(source), used=70),
        task("b", tmp_path, agent, say="x"),
    )  # fmt: skip
    assert set(limits) == {500.0, 600}
    outcome = found["a"]
    assert (outcome.status, outcome.reason, len(outcome.attempts)) == ("failed", "time_limit", 1)
    assert (outcome.usage.total, outcome.usage.counted) == (70, False)
    assert outcome.changes is not None
    assert b"+++ b/b" in outcome.changes
    assert b'"type": "prompt"' in outcome.transcript
    assert found["b"].ok
    assert not any(lives(note["pid"]) for note in notes(store))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("it broke")], ids=repr)
async def test_a_worker_that_is_ended_at_the_limit_is_lost_however_its_engine_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    class Hangs(LocalEngine):
        async def run(self, job: Job, post: Post) -> Report:
            if job.task_id == "b":
                return await super().run(job, post)
            try:
                await asyncio.Event().wait()
            finally:
                raise error

    monkeypatch.setattr("codex_acp.fleet.fleet.GRACE_SECONDS", 0.0)
    tasks = task("a", tmp_path, time_limit=0.1), task("b", tmp_path, say="x")
    found = await outcomes(fleet_of(None, engine=Hangs()), *tasks)
    assert found["a"].reason == "worker_lost"
    assert found["a"].message == "the worker did not end the task at its limit, 0.1 s"
    assert found["b"].ok


def test_a_question_that_waits_does_not_use_up_the_time() -> None:
    loop = VirtualTimeLoop()

    async def works(limit: TimeLimit, seconds: float) -> None:
        async with limit:
            await asyncio.sleep(4.0)
            with limit.paused(), limit.paused():
                await asyncio.sleep(600)
            await asyncio.sleep(seconds)

    enough, over = TimeLimit(10.0), TimeLimit(10.0)
    try:
        loop.run_until_complete(works(enough, 5.0))
        with pytest.raises(TimeoutError):
            loop.run_until_complete(works(over, 7.0))
    finally:
        loop.close()
    assert (enough.expired, over.expired) == (False, True)


def test_the_pauses_between_attempts_grow_up_to_a_bound() -> None:
    retries = Retries(10)
    for made in range(1, 10):
        least = min(2.0 * 2 ** (made - 1), 120.0)
        assert least <= retries.pause(made) <= 1.5 * least


async def test_only_so_many_tasks_run_at_once(tmp_path: Path) -> None:
    """Each of the first waits for the other, so that two do run."""
    meet = f"touch {tmp_path}/$$; until [ $(ls {tmp_path} | wc -l) -ge 2 ]; do sleep 0.02; done"
    running: set[str] = set()
    most = 0

    def watch(task_id: str, event: Any) -> None:
        nonlocal most
        if event["type"] == "place":
            running.add(task_id)
            most = max(most, len(running))
        if event["type"] == "ended":
            running.discard(task_id)

    fleet = fleet_of(None, concurrency=2, on_event=watch)
    found = await outcomes(fleet, *(task(f"t{n}", tmp_path, sh=meet) for n in range(6)))
    assert all(outcome.ok for outcome in found.values())
    assert most == 2


async def test_a_task_is_ended_when_it_has_used_its_tokens(tmp_path: Path) -> None:
    found = await outcomes(
        fleet_of(None),
        task("running", tmp_path, used=50, sleep=600, max_tokens=40),
        task("told at the end", tmp_path, tokens=50, max_tokens=40),
        task("enough", tmp_path, tokens=50, max_tokens=50),
    )
    reasons = {name: outcome.reason for name, outcome in found.items()}
    assert reasons == {
        "running": "token_limit",
        "told at the end": "token_limit",
        "enough": "end_turn",
    }


@pytest.mark.parametrize("budget", [{"max_tokens": 100}, {"time_limit": 0.8}], ids=str)
async def test_a_budget_stops_the_fleet_and_what_runs(
    tmp_path: Path, budget: dict[str, float]
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    tasks = [
        task("done", tmp_path, agent, tokens=10),
        task("hangs", tmp_path, agent, used=30, sleep=600),
        task("uses", tmp_path, agent, used=70, sleep=600),
        *(task(f"later{n}", tmp_path, agent, sleep=600) for n in range(3)),
    ]
    found: list[Outcome] = []
    with anyio.fail_after(WAIT):
        async with fleet_of(out, concurrency=3, **budget).map(tasks) as running:
            found += [outcome async for outcome in running]
    assert {outcome.id for outcome in found} <= {"done"}
    assert {"hangs", "uses", "later2"} <= set(running.left)
    assert running.stopped is not None
    assert "for all tasks" in running.stopped
    assert not any(lives(note["pid"]) for note in notes(store))
    quick = [replace(each, time_limit=1.0) for each in tasks]  # which are no other tasks
    again = await outcomes(fleet_of(out, concurrency=3, resume=True), *quick)
    assert set(again) == {each.id for each in tasks}
    assert {again[name].reason for name in running.left} <= {"time_limit", "end_turn"}


async def test_a_budget_counts_all_attempts_and_tasks(tmp_path: Path) -> None:
    tasks = [task(f"t{n}", tmp_path, tokens=40) for n in range(10)]
    with anyio.fail_after(WAIT):
        async with fleet_of(None, concurrency=1, max_tokens=100).map(tasks) as running:
            found = [outcome async for outcome in running]
    assert 2 <= len(found) <= 3
    assert len(running.left) == 10 - len(found)


async def test_an_agent_that_is_lost_is_tried_again_in_its_session(tmp_path: Path) -> None:
    agent = spec(FLEET_AGENT_STORE=str(tmp_path / "store"))
    found = await outcomes(
        fleet_of(None),
        task("once", tmp_path, agent, crash_once=str(tmp_path / "crashed"), say="Done."),
        task("always", tmp_path, spec(), crash=True),
    )
    once, always = found["once"], found["always"]
    assert (once.ok, once.text) == (True, "Done.")
    assert [(a.reason, a.resumed) for a in once.attempts] == [
        ("agent_lost", False),
        ("end_turn", True),
    ]
    assert always.reason == "agent_lost"
    assert len(always.attempts) == 3


OVERLOADED = [
    {"code": -32001},
    {"code": -32603, "data": {"codexErrorInfo": "serverOverloaded"}},
    {"code": -32603, "data": {"codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 503}}}},
    {"code": -32603, "data": {"codexErrorInfo": {"responseStreamDisconnected": {}}}},
]
REFUSED = [
    {"code": -32603},
    {"code": -32602},
    {"code": -32603, "data": {"codexErrorInfo": "usageLimitExceeded"}},
    {"code": -32603, "data": {"codexErrorInfo": "badRequest"}},
    {"code": -32603, "data": {"codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 403}}}},
    {"code": -32603, "data": [1]},
]


async def test_an_overload_is_tried_again_and_a_refusal_is_not(tmp_path: Path) -> None:
    lost = {"code": -32603, "data": {"reason": "agentLost"}}  # whatever agent it is
    tasks = [
        task("lost", tmp_path, error=lost),
        *(task(f"busy{n}", tmp_path, error=error) for n, error in enumerate(OVERLOADED)),
        *(task(f"no{n}", tmp_path, error=error) for n, error in enumerate(REFUSED)),
        task("login", tmp_path, error={"code": -32000}),
    ]
    found = await outcomes(fleet_of(None), *tasks)
    told = {name: (outcome.reason, len(outcome.attempts)) for name, outcome in found.items()}
    assert told == {
        **{f"busy{n}": ("overloaded", 3) for n in range(len(OVERLOADED))},
        **{f"no{n}": ("agent_error", 1) for n in range(len(REFUSED))},
        "login": ("authentication", 1),
        "lost": ("agent_lost", 3),
    }


async def test_an_agent_that_cannot_open_a_session_is_tried_again_with_a_new_process(
    tmp_path: Path,
) -> None:
    agent = spec(FLEET_AGENT_BROKEN=str(tmp_path / "broken"))
    tasks = [task(f"t{n}", tmp_path, agent, say="x") for n in range(3)]
    found = await outcomes(fleet_of(None, concurrency=3), *tasks)
    assert all(outcome.ok for outcome in found.values())
    reasons = sorted(outcome.attempts[0].reason for outcome in found.values())
    assert reasons == ["agent_not_started", "end_turn", "end_turn"]


def test_an_agent_that_ends_before_it_answers_is_tried_again_and_no_agent_is_not() -> None:
    error = AgentStartError("fox", "it is gone")
    assert reason_of(error) == "agent_not_started"
    for cause, reason in (
        (ProcessExited("fox", -11, ""), "agent_lost"),
        (ErrorReply("initialize", -32601, "no"), "agent_error"),
    ):
        error.__cause__ = cause
        assert reason_of(error) == reason


def test_the_words_of_an_error_decide_nothing() -> None:
    said = "serverOverloaded, rate limit, 503, agentLost, codex exited with status -9"
    error = ErrorReply("session/prompt", -32603, said, {"message": said})
    assert reason_of(error) == "agent_error"


def test_a_worker_that_is_killed_because_it_hangs_is_lost_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codex_acp.fleet.engines.importlib.util.find_spec", bool)
    engine = RayEngine()
    killed: list[object] = []
    engine._ray = SimpleNamespace(kill=killed.append)
    actor = _Actor("handle", "node/1", ready=True)
    engine._actors.append(actor)
    engine._handle_loss(actor, "it did not end a task")
    engine._handle_loss(actor, "the actor died")  # as `_fetch` reports a worker that was killed
    assert (killed, engine._actors) == (["handle"], [])
    assert len(caplog.records) == 1


async def test_a_stop_in_a_pause_between_attempts_is_heard(tmp_path: Path) -> None:
    fleet = fleet_of(None, retries=Retries(3, 600.0), time_limit=1.0)
    with anyio.fail_after(WAIT):
        async with fleet.map([task("a", tmp_path, spec(), crash=True)]) as running:
            assert [outcome async for outcome in running] == []
    assert running.left == ("a",)
