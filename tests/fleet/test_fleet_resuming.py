"""Runs that are ended before their time, and those that go on: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.errors import MisuseError
from codex_acp.fleet import (
    Fleet,
    LocalEngine,
    OutcomeNotWritten,
    OutDirectoryError,
    OutDirectoryInUse,
    Retries,
    read_outcomes,
)
from codex_acp.fleet.outcomes import Attempt, History, Outcome, OutDirectory, read_history
from tests.fleet.fleet_bench import WAIT, fleet_of, git, notes, outcomes, repository, spec, task
from tests.support.processes import lives


def prompts_of(store: Path) -> list[str]:
    return [note["text"] for note in notes(store) if not note["text"].startswith("session/")]


async def test_what_has_an_outcome_is_not_run_again(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    tasks = [task(name, tmp_path, agent, say=name) for name in ("a", "b")]
    await outcomes(fleet_of(out), tasks[0])
    found = await outcomes(fleet_of(out, resume=True), *tasks)
    assert {name: outcome.earlier for name, outcome in found.items()} == {"a": True, "b": False}
    assert len(prompts_of(store)) == 2


async def test_what_is_all_done_starts_no_engine(tmp_path: Path) -> None:
    class NoEngine(LocalEngine):
        async def open(self, fleet_id: str, work: Path | None) -> int:
            raise AssertionError(fleet_id, work)

    out = tmp_path / "out"
    one = task("a", tmp_path, say="x")
    await outcomes(fleet_of(out), one)
    with anyio.fail_after(WAIT):
        async with fleet_of(out, resume=True, engine=NoEngine()).map([one]) as running:
            assert [outcome.id async for outcome in running] == ["a"]
    assert (running.stopped, running.left) == (None, ())


async def test_a_used_directory_is_not_used_again_without_being_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await outcomes(fleet_of(out), task("a", tmp_path, say="x"))
    with pytest.raises(OutDirectoryError, match="go on with resume"):
        await outcomes(fleet_of(out), task("b", tmp_path, say="x"))


async def test_a_task_that_was_changed_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await outcomes(fleet_of(out), task("a", tmp_path, say="x"))
    with pytest.raises(OutDirectoryError, match=r"'a' was changed .*; give it another id"):
        await outcomes(fleet_of(out, resume=True), task("a", tmp_path, say="y"))


async def test_of_a_failed_task_that_was_changed_is_said_how_it_is_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await outcomes(fleet_of(out), task("a", tmp_path, stop="refusal"))
    with pytest.raises(OutDirectoryError, match="--retry-failed"):
        await outcomes(fleet_of(out, resume=True), task("a", tmp_path, say="y"))


async def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OutDirectoryError, match="is no output directory"):
        await outcomes(fleet_of(tmp_path), task("a", tmp_path, say="x"))
    with pytest.raises(OutDirectoryError, match="cannot be used"):
        await outcomes(fleet_of(tmp_path / "mine"), task("a", tmp_path, say="x"))
    assert not (tmp_path / "lock").exists()
    (tmp_path / "mine").rename(tmp_path / "lock")  # a file that a fleet has, too
    with pytest.raises(OutDirectoryError, match="holds 'lock' and is no output directory"):
        await outcomes(fleet_of(tmp_path), task("a", tmp_path, say="x"))
    assert (tmp_path / "lock").read_text() == "x"


async def test_a_fleet_that_was_killed_when_it_had_made_its_lock_alone_begins_anew(
    tmp_path: Path,
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/lock").write_text("process 1 on here")
    found = await outcomes(fleet_of(tmp_path / "out"), task("a", tmp_path, say="x"))
    assert found["a"].ok


async def test_a_directory_that_is_in_use_says_by_whom(tmp_path: Path) -> None:
    out = tmp_path / "out"
    held = OutDirectory.open(out, resume=False)
    with pytest.raises(OutDirectoryInUse, match=f"in use by process {os.getpid()} on "):
        await outcomes(fleet_of(out, resume=True), task("a", tmp_path, say="x"))
    held.close()
    await outcomes(fleet_of(out, resume=True), task("a", tmp_path, say="x"))


async def test_an_outcome_is_never_written_over(tmp_path: Path) -> None:
    found = await outcomes(fleet_of(tmp_path / "out"), task("a", tmp_path, say="x"))
    directory = OutDirectory.open(tmp_path / "out", resume=True)
    before = (directory.path / "tasks" / "a" / "outcome.json").read_bytes()
    with pytest.raises(OutcomeNotWritten, match="has an outcome"):
        directory.write(found["a"], None)
    directory.close()
    assert (directory.path / "tasks" / "a" / "outcome.json").read_bytes() == before
    assert [path.name for path in (directory.path / "tasks").iterdir()] == ["a"]


@pytest.mark.parametrize("where", ["outcome.json", "transcript.jsonl", "rename"])
async def test_a_full_disk_stops_the_fleet_and_costs_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    out = tmp_path / "out"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real_open, real_rename = os.open, Path.rename

    def no_open(path: Any, *more: Any, **named: Any) -> int:
        if str(path).endswith(where) and "/.tmp-" in str(path):
            raise full
        return real_open(path, *more, **named)

    def no_rename(self: Path, target: Any) -> Path:
        if where == "rename" and self.name.startswith(".tmp-"):
            raise full
        return real_rename(self, target)

    tasks = [task("a", tmp_path, say="x"), task("b", tmp_path, sleep=600)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_open)
        patch.setattr(Path, "rename", no_rename)
        with pytest.raises(OutcomeNotWritten, match="No space left on device"):
            await outcomes(fleet_of(out, concurrency=2), *tasks)
    assert list((out / "tasks").iterdir()) == []
    found = await outcomes(fleet_of(out, resume=True), tasks[0])
    assert found["a"].ok
    assert len(found["a"].attempts) == 2


async def test_a_journal_that_was_cut_off_is_read_and_written_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await outcomes(fleet_of(out), task("a", tmp_path, say="x"))
    torn = b'{"type": "attempt", "id": "b"'
    with (out / "journal.jsonl").open("ab") as file:
        file.write(torn)
    found = await outcomes(fleet_of(out, resume=True), task("b", tmp_path, say="x"))
    assert len(found["b"].attempts) == 1
    ids, histories = read_history(out / "journal.jsonl")
    assert (ids, set(histories)) == (["a", "b"], {"a", "b"})  # the next line told of this run
    assert histories["b"].attempts == list(found["b"].attempts)
    lines = (out / "journal.jsonl").read_bytes().splitlines()
    assert lines.count(torn) == 1
    assert all(json.loads(line) for line in lines if line != torn)


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    "damaged",
    [
        {"type": "attempt_ended", "reason": "agent_lost", "seconds": 10**400},
        {"type": "attempt_ended", "reason": "agent_lost", "seconds": float("nan")},
        {"type": "prompt", "number": -7},
        {"type": "prompt_ended", "number": -7},
    ],
    ids=["seconds of 401 digits", "seconds that are NaN", "prompt -7", "end of prompt -7"],
)
async def test_a_line_of_the_journal_with_an_impossible_number_is_skipped(
    tmp_path: Path, damaged: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    await outcomes(fleet_of(out), task("a", tmp_path, say="x"))
    (out / "journal.jsonl").write_text(
        "".join(json.dumps(line | {"id": "b"}) + "\n" for line in ({"type": "attempt"}, damaged))
    )
    history = read_history(out / "journal.jsonl")[1]["b"]
    assert (history.first_prompt, history.prompt_sent) == (0, False)
    found = await outcomes(fleet_of(out, resume=True), task("b", tmp_path, say="x"))
    assert [attempt.reason for attempt in found["b"].attempts] == ["interrupted", "end_turn"]


async def test_what_was_interrupted_behind_a_torn_line_is_gone_on_with(tmp_path: Path) -> None:
    """A run that a crash has cut off is followed by one that is stopped, and by one that ends."""
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    one = task("a", tmp_path, agent, hang_once=str(tmp_path / "hung"), say="Done.")
    await outcomes(fleet_of(out), task("first", tmp_path, say="x"))
    with (out / "journal.jsonl").open("ab") as file:
        file.write(b'{"type": "opened", "id": "a", "sessionId": "no')
    with anyio.fail_after(WAIT):
        async with fleet_of(out, resume=True).map([one]):
            while not prompts_of(store):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    found = await outcomes(fleet_of(out, resume=True), one)
    assert [(a.reason, a.resumed) for a in found["a"].attempts] == [
        ("interrupted", False),
        ("end_turn", True),
    ]


async def test_an_interrupted_task_goes_on_in_its_session_and_worktree(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    source = repository(tmp_path / "source")
    prompts = [
        json.dumps({"write": {"first": "1\n"}}),
        json.dumps({"hang_once": str(tmp_path / "hung"), "say": "Done."}),
    ]
    one = task("a", tmp_path, agent, prompt=prompts, repository=str(source))
    with anyio.fail_after(WAIT):
        async with fleet_of(out).map([one]):
            while len(prompts_of(store)) < 2:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    git(source, "commit", "-q", "--allow-empty", "-m", "newer")
    found = await outcomes(fleet_of(out, resume=True), one)
    outcome = found["a"]
    assert (outcome.ok, outcome.text) == (True, "Done.")
    assert [attempt.reason for attempt in outcome.attempts] == ["interrupted", "end_turn"]
    assert outcome.attempts[1].resumed
    assert outcome.attempts[0].session_id == outcome.session_id
    assert len(list(store.iterdir())) == 1
    first, second, again = prompts_of(store)
    assert (first, second) == tuple(prompts)
    assert again.startswith("You were interrupted")
    assert again.endswith(second)
    assert outcome.changes is not None
    assert b"+++ b/first" in outcome.changes


async def test_without_the_worktree_an_interrupted_task_begins_anew(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    source = repository(tmp_path / "source")
    one = task("a", tmp_path, agent, hang_once=str(tmp_path / "hung"), repository=str(source))
    with anyio.fail_after(WAIT):
        async with fleet_of(out).map([one]):
            while not prompts_of(store):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    (tree,) = (path for path in out.glob("work/*/trees/a~json"))
    tree.unlink()
    found = await outcomes(fleet_of(out, resume=True), one)
    assert found["a"].ok
    assert not found["a"].attempts[1].resumed
    assert len(set(prompts_of(store))) == 1


async def test_a_session_that_is_gone_is_a_new_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = tmp_path / "store"
    one = task("a", tmp_path, spec(FLEET_AGENT_STORE=str(store)), hang_once=str(tmp_path / "hung"))
    with anyio.fail_after(WAIT):
        async with fleet_of(out).map([one]):
            while not prompts_of(store):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    for path in store.iterdir():
        path.unlink()
    found = await outcomes(fleet_of(out, resume=True), one)
    assert (found["a"].ok, found["a"].attempts[1].resumed) == (True, False)


async def test_a_task_that_was_done_but_has_no_outcome_says_again_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver ends between the last prompt and the outcome, for example in a long diff."""
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    one = task("a", tmp_path, agent, say='{"n": 1}', output=dict[str, int])
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(OutDirectory, "write", failing(OutcomeNotWritten(str(full))))
        with pytest.raises(OutcomeNotWritten):
            await outcomes(fleet_of(out), one)
    found = await outcomes(fleet_of(out, resume=True), one)
    assert (found["a"].status, found["a"].text) == ("completed", '{"n": 1}')
    assert found["a"].output == {"n": 1}
    first, again = prompts_of(store)
    assert again.startswith("You were interrupted")
    assert again.endswith(first)


def failing(error: Exception) -> Any:
    def fail(*_: object, **_named: object) -> None:
        raise error

    return fail


async def test_what_failed_is_run_once_more_and_its_outcome_is_kept(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    works = tmp_path / "works"
    refused = task("refused", tmp_path, agent, tokens=5, stop="refusal", unless=str(works))
    fine = task("fine", tmp_path, agent, say="Fine.")
    await outcomes(fleet_of(out), refused, fine)
    for number in range(1, 3):
        found = await outcomes(fleet_of(out, resume=True, retry_failed=True), refused, fine)
        assert (found["refused"].reason, found["refused"].earlier) == ("refusal", False)
        assert len(found["refused"].attempts) == found["refused"].usage.total / 5 == number + 1
        assert found["fine"].earlier
    works.touch()
    found = await outcomes(fleet_of(out, resume=True, retry_failed=True), refused, fine)
    assert found["refused"].ok
    assert not any(attempt.resumed for attempt in found["refused"].attempts)
    assert {path.name for path in (out / "tasks").iterdir()} == {"refused", "fine"}
    kept = sorted((out / "retried" / "refused").iterdir())
    assert [path.name for path in kept] == ["1", "2", "3"]
    assert {json.loads((path / "outcome.json").read_text())["reason"] for path in kept} == {
        "refusal"
    }
    assert len(prompts_of(store)) == 5
    again = await outcomes(fleet_of(out, resume=True, retry_failed=True), refused, fine)
    assert all(outcome.earlier for outcome in again.values())


async def test_without_being_asked_what_failed_is_not_run_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = task("a", tmp_path, stop="refusal")
    await outcomes(fleet_of(out), one)
    found = await outcomes(fleet_of(out, resume=True), one)
    assert (found["a"].reason, found["a"].earlier) == ("refusal", True)
    assert not (out / "retried").exists()
    with pytest.raises(MisuseError, match="add resume"):
        fleet_of(out, retry_failed=True)


async def test_a_lost_agent_that_is_run_once_more_goes_on_in_its_session(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    one = task("a", tmp_path, agent, crash_once=str(tmp_path / "crashed"), say="Done.")
    first = await outcomes(fleet_of(out, retries=Retries(1)), one)
    assert (first["a"].status, first["a"].reason) == ("failed", "agent_lost")
    found = await outcomes(fleet_of(out, resume=True, retry_failed=True), one)
    assert (found["a"].ok, found["a"].text) == (True, "Done.")
    assert [attempt.resumed for attempt in found["a"].attempts] == [False, True]
    assert found["a"].session_id == first["a"].session_id


async def test_a_failed_task_that_was_changed_is_run_as_it_is_now(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    await outcomes(fleet_of(out, retries=Retries(1)), task("a", tmp_path, agent, crash=True))
    found = await outcomes(
        fleet_of(out, resume=True, retry_failed=True), task("a", tmp_path, agent, say="New.")
    )
    assert (found["a"].text, found["a"].attempts[1].resumed) == ("New.", False)


async def test_a_retry_that_is_ended_leaves_the_outcome_that_failed(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    one = task("a", tmp_path, agent, stop="refusal", sleep_again=600)
    await outcomes(fleet_of(out), one)
    with anyio.fail_after(WAIT):
        async with fleet_of(out, resume=True, retry_failed=True).map([one]):
            while len(prompts_of(store)) < 2:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
    (left,) = read_outcomes(out)
    assert (left.reason, len(left.attempts)) == ("refusal", 1)
    found = await outcomes(fleet_of(out, resume=True), one)
    assert found["a"].earlier


DRIVER = """
import asyncio, sys
from pathlib import Path
from tests.fleet.fleet_bench import fleet_of, outcomes, spec, task
out, store = Path(sys.argv[1]), sys.argv[2]
agent = spec(FLEET_AGENT_STORE=store)
tasks = [task(f"t{n}", out.parent, agent, sleep=0.2 if n < 2 else 600) for n in range(4)]
asyncio.run(outcomes(fleet_of(out, concurrency=4, resume=True), *tasks))
"""


def test_a_killed_driver_costs_only_what_was_running(tmp_path: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "store"
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", DRIVER, str(out), str(store)]
    end = time.monotonic() + WAIT
    with subprocess.Popen(command, cwd=root) as driver:
        while len(list(out.glob("tasks/t*"))) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        driver.send_signal(signal.SIGKILL)
    pids = {note["pid"] for note in notes(store)}
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(lives, pids))
    agent = spec(FLEET_AGENT_STORE=str(store))
    tasks = [task(f"t{n}", tmp_path, agent, sleep=0.2 if n < 2 else 600) for n in range(2)]
    found = asyncio.run(outcomes(fleet_of(out, resume=True), *tasks))
    assert all(outcome.earlier and len(outcome.attempts) == 1 for outcome in found.values())
    ids, histories = read_history(out / "journal.jsonl")
    assert {name: len(history.attempts) for name, history in histories.items()} == dict.fromkeys(
        ids, 1
    )


def deep(path: Path) -> None:
    path.write_text('{"version": ' + "[" * 200_000)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def vast(path: Path) -> None:
    os.truncate(path, 1 << 40)


@pytest.mark.attack("agent")
@pytest.mark.parametrize("become", [deep, pipe, device, vast])
@pytest.mark.parametrize("name", ["tasks/a/outcome.json", "fleet.json", "journal.jsonl"])
async def test_a_file_that_somebody_has_replaced_is_named_and_nothing_is_lost(
    tmp_path: Path, name: str, become: Any
) -> None:
    out = tmp_path / "out"
    one, other = (task(name, tmp_path, say="x") for name in ("a", "b"))
    await outcomes(fleet_of(out), one, other)
    kept = (out / "tasks" / "b" / "outcome.json").read_bytes()
    become(out / name)
    command = [sys.executable, "-m", "codex_acp", "fleet", "show", str(out)]
    shown = subprocess.run(  # noqa: ASYNC221
        command, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert "Traceback" not in shown.stderr
    if name == "journal.jsonl" and become is deep:  # a line that is none, as one that was cut off
        assert shown.returncode == 0
        found = await outcomes(fleet_of(out, resume=True), one, other)
        assert all(outcome.earlier for outcome in found.values())
    else:
        if name != "fleet.json":  # `show` does not read what is in it
            assert shown.returncode == 2
            assert str(Path(name).parent if "/" in name else name) in shown.stderr
            assert len(shown.stderr.splitlines()) == 1
        with pytest.raises(OutDirectoryError, match=str(out / Path(name).parts[0])):
            await outcomes(fleet_of(out, resume=True), one, other)
    assert (out / "tasks" / "b" / "outcome.json").read_bytes() == kept


@pytest.mark.attack("repository")
@pytest.mark.parametrize("become", ["pipe", "link"])
async def test_a_note_that_an_agent_has_replaced_holds_up_no_fleet_and_leads_nowhere(
    tmp_path: Path, become: str
) -> None:
    """Where it can write beside its worktree, which the sandbox of Codex lets it below /tmp."""
    source = repository(tmp_path / "source")
    mine = tmp_path / "mine"
    mine.write_text("mine")
    replaced = "../a~json $(ls -d ../../repositories/*.git)/fetched-for"
    make = "mkfifo $f" if become == "pipe" else f"ln -s {mine} $f"
    script = f"for f in {replaced}; do rm -f $f; {make}; done"
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    one = task("a", tmp_path, agent, sh=script, sleep=600, repository=str(source))
    quick = task("b", tmp_path, agent, say="x", repository=str(source))
    with anyio.fail_after(WAIT):
        async with fleet_of(out).map([one]):
            while not list(out.glob("work/*/repositories/*.git/fetched-for")) or (  # noqa: ASYNC110
                next(iter(out.glob("work/*/repositories/*.git/fetched-for"))).is_file()
                and become == "pipe"
            ):
                await asyncio.sleep(0.02)
    again = replace(one, time_limit=1.0)  # which is no other task
    found = await outcomes(fleet_of(out, resume=True, concurrency=1), again, quick)
    assert found["a"].reason == "time_limit"
    assert found["b"].ok, found["b"].message
    assert mine.read_text() == "mine"


def test_a_directory_of_outcomes_that_is_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutDirectoryError, match="no output directory"):
        list(read_outcomes(tmp_path))
    directory = OutDirectory.open(tmp_path / "out", resume=False)
    (directory.path / "tasks" / "a").mkdir()
    with pytest.raises(OutDirectoryError, match="remove it to run it again"):
        list(read_outcomes(directory.path))
    (directory.path / "tasks" / "a" / "outcome.json").write_text('{"version": 1}')
    with pytest.raises(OutDirectoryError, match="malformed"):
        list(read_outcomes(directory.path))
    members = Outcome(id="a", status="completed", reason="end_turn").to_json(None)
    members["usage"] = {"total": 3}
    (directory.path / "tasks" / "a" / "outcome.json").write_text(json.dumps(members))
    with pytest.raises(OutDirectoryError, match="malformed outcome: 'input'"):
        list(read_outcomes(directory.path))
    directory.close()
    with pytest.raises(Exception, match="only a fleet with an output directory"):
        Fleet(resume=True)


def test_a_prompt_that_has_ended_is_not_sent_again_and_one_that_has_not_is() -> None:
    history = History([Attempt(started="now", reason="interrupted")])
    for event, first in (
        ("prompt", (0, True)),
        ("prompt_ended", (1, False)),
        ("prompt", (1, True)),
    ):
        history.apply({"type": event, "number": 1 if first == (1, True) else 0})
        assert (history.first_prompt, history.prompt_sent) == first
