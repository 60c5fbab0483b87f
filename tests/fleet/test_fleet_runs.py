"""Fleets on the local engine: what comes of tasks, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel

from codex_acp.errors import MisuseError
from codex_acp.fleet import LocalEngine, Task, read_outcomes
from codex_acp.runtime import AgentSpec
from tests.fleet.fleet_bench import (
    WAIT,
    commit,
    fleet_of,
    git,
    notes,
    outcomes,
    repository,
    spec,
    task,
)
from tests.support.processes import lives


async def test_each_task_has_its_outcome_with_what_it_said_used_and_changed(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", a_txt="one\n")
    out = tmp_path / "out"
    tasks = [
        task("one", tmp_path, say="Done.", tokens=12, write={"a.txt": "two\n", "new": "x\n"},
             repository=str(source)),
        task("two", tmp_path, say="Here."),
    ]  # fmt: skip
    found = await outcomes(fleet_of(out), *tasks)
    one, two = found["one"], found["two"]
    assert (one.status, one.reason, one.text, one.usage.total) == (
        "completed",
        "end_turn",
        "Done.",
        12,
    )
    assert one.changes is not None
    assert b"-one\n+two\n" in one.changes
    assert b"+++ b/new\n" in one.changes
    assert (source / "a.txt").read_text() == "one\n"
    assert (two.ok, two.changes, two.changes_note) == (
        True,
        None,
        "the directory is in no git repository",
    )
    assert one.path == out / "tasks" / "one"
    assert (one.path / "changes.patch").read_bytes() == one.changes
    lines = [json.loads(line) for line in (one.path / "transcript.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["session", "prompt", "update", "end"]
    assert not (out / "work").exists()
    kept = {outcome.id: outcome for outcome in read_outcomes(out)}
    assert kept["one"].usage == one.usage
    assert kept["one"].earlier
    for path in (out, one.path, one.path / "outcome.json"):
        assert not path.stat().st_mode & 0o077, path


async def test_without_a_directory_outcomes_are_in_memory(tmp_path: Path) -> None:
    found = await outcomes(fleet_of(None), task("a", tmp_path, say="Hi."))
    assert found["a"].path is None
    assert b'"Hi."' in found["a"].transcript


async def test_several_prompts_are_one_conversation(tmp_path: Path) -> None:
    agent = spec(FLEET_AGENT_STORE=str(tmp_path / "store"))
    prompts = [json.dumps({"say": text, "tokens": 5}) for text in ("One.", "Two.")]
    found = await outcomes(fleet_of(None), task("a", tmp_path, agent, prompt=prompts))
    assert (found["a"].text, found["a"].usage.total) == ("Two.", 10)
    (session,) = (tmp_path / "store").iterdir()
    assert len(session.read_text().splitlines()) == 3


async def test_tokens_are_the_agents_own_count_where_it_has_one(tmp_path: Path) -> None:
    found = await outcomes(
        fleet_of(None),
        task("in _meta", tmp_path, used=70, tokens=12),
        task("as the draft has it", tmp_path, used=70, counted=13),
        task("estimated", tmp_path, used=70),
    )
    told = {name: (o.usage.total, o.usage.counted) for name, o in found.items()}
    assert told == {
        "in _meta": (12, True),
        "as the draft has it": (13, True),
        "estimated": (70, False),
    }


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "max_turn_requests", "cancelled"])
async def test_a_stop_reason_that_is_no_end_is_a_failure_and_not_tried_again(
    tmp_path: Path, reason: str
) -> None:
    said = {"says": "No.", "says nothing": ""}
    tasks = [task(name, tmp_path, say=text, stop=reason) for name, text in said.items()]
    found = await outcomes(fleet_of(None), *tasks)
    for outcome in found.values():
        assert (outcome.status, outcome.reason, len(outcome.attempts)) == ("failed", reason, 1)
    assert found["says"].message == "No."
    assert found["says nothing"].message


async def test_tasks_of_a_shared_agent_share_a_process_and_others_do_not(tmp_path: Path) -> None:
    counts = {}
    for shared in (True, False):
        store = tmp_path / f"store-{shared}"
        agent = spec(shared=shared, FLEET_AGENT_STORE=str(store))
        tasks = [task(f"t{n}", tmp_path, agent, sleep=0.3) for n in range(4)]
        found = await outcomes(fleet_of(None, concurrency=4), *tasks)
        assert all(outcome.ok for outcome in found.values())
        counts[shared] = len({note["pid"] for note in notes(store)})
    assert counts == {True: 1, False: 4}


async def test_a_process_takes_no_more_tasks_than_it_may(tmp_path: Path) -> None:
    agent = spec(FLEET_AGENT_STORE=str(tmp_path / "store"))
    tasks = [task(f"t{n}", tmp_path, agent, sleep=0.5) for n in range(4)]
    engine = LocalEngine(tasks_per_agent=2)
    await outcomes(fleet_of(None, engine=engine, concurrency=4), *tasks)
    assert len({note["pid"] for note in notes(tmp_path / "store")}) == 2


class Answer(BaseModel):
    colour: str
    count: int


async def test_the_answer_is_of_the_type_that_was_wanted(tmp_path: Path) -> None:
    good = '```json\n{"colour": "red", "count": 2}\n```'
    found = await outcomes(fleet_of(tmp_path / "o"), task("a", tmp_path, say=good, output=Answer))
    assert found["a"].output == Answer(colour="red", count=2)
    (kept,) = read_outcomes(tmp_path / "o")
    assert kept.output == {"colour": "red", "count": 2}


async def test_an_answer_that_does_not_fit_is_corrected_and_else_a_failure(tmp_path: Path) -> None:
    wrong = '{"colour": "red"}'
    corrects = spec(FLEET_AGENT_CORRECTION='{"colour": "red", "count": 3}')
    tasks = [
        task("corrected", tmp_path, corrects, say=wrong, output=Answer),
        task("never", tmp_path, spec(), say=wrong, output=Answer.model_json_schema()),
    ]
    found = await outcomes(fleet_of(None), *tasks)
    assert found["corrected"].output == Answer(colour="red", count=3)
    assert (found["never"].status, found["never"].reason) == ("failed", "output_invalid")


async def test_what_makes_no_sense_is_said_of_its_task_alone(tmp_path: Path) -> None:
    tasks = [
        task("no directory", tmp_path / "gone", say="x"),
        task("no model", tmp_path, say="x", model="big"),
        task("no agent", tmp_path, AgentSpec((str(tmp_path / "nothing"),)), say="x"),
        task("good", tmp_path, say="x"),
    ]
    found = await outcomes(fleet_of(None), *tasks)
    reasons = {name: outcome.reason for name, outcome in found.items()}
    assert reasons == {
        "no directory": "directory",
        "no model": "settings",
        "no agent": "agent_not_found",
        "good": "end_turn",
    }


async def test_leaving_early_leaves_no_agent(tmp_path: Path) -> None:
    store = tmp_path / "store"
    agent = spec(FLEET_AGENT_STORE=str(store))
    with anyio.fail_after(WAIT):
        run = fleet_of(tmp_path / "out").map([task("a", tmp_path, agent, sleep=600)])
        async with run:
            while len(notes(store)) < 2:  # noqa: ASYNC110 - another process writes them
                await asyncio.sleep(0.02)
    assert not lives(notes(store)[0]["pid"])
    assert (run.left, run.stopped) == (("a",), "the program left the fleet")


def test_ids_that_are_not_different_are_named() -> None:
    tasks = [Task(id=name, prompt="x", cwd=".") for name in ("a", "b", "a", "B")]
    with pytest.raises(MisuseError, match=r"two tasks have the id 'a'; the ids 'b' and 'B' differ"):
        fleet_of(None).map(tasks)


@pytest.mark.parametrize(
    "name", ["../up", ".", "..", "a/b", "\x00", "x" * 500, "-rf", "ü", ".tmp-x"]
)
async def test_any_id_is_kept_under_a_safe_name(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    found = await outcomes(fleet_of(out), task(name, tmp_path, say="x"))
    path = found[name].path
    assert path is not None
    assert path.parent == out / "tasks"
    assert [outcome.id for outcome in read_outcomes(out)] == [name]


async def test_revisions_are_checked_out_each_for_itself(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", v_txt="first\n")
    first = commit(source, v_txt="second\n")
    git(source, "branch", "old", "HEAD~1")
    git(source, "tag", "v1", "HEAD~1")
    last = commit(source, v_txt="third\n")
    revisions = {"none": None, "branch": "old", "tag": "v1", "commit": first, "head": "HEAD"}
    tasks = [
        task(name, tmp_path, say="x", repository=str(source), revision=revision)
        for name, revision in revisions.items()
    ]
    found = await outcomes(fleet_of(None), *tasks)
    old = git(source, "rev-parse", "old")
    expected = {"none": last, "branch": old, "tag": old, "commit": first, "head": last}
    assert {name: outcome.commit for name, outcome in found.items()} == expected
