"""Fleets on the local engine: what comes of tasks, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from codex_acp.errors import MisuseError
from codex_acp.fleet import LocalEngine, Task, read_outcomes
from codex_acp.fleet.task import OutputCheck
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
    for path in (out, *out.rglob("*")):
        assert not path.stat().st_mode & 0o077, path
    assert {path.name for path in one.path.iterdir()} == {
        *("outcome.json", "transcript.jsonl", "changes.patch")
    }


async def test_git_takes_the_patch_of_whatever_was_changed(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", a_txt="one\n", b_txt="two\n" * 50, c_txt="three\n")
    script = (
        "mv b.txt moved.txt && echo more >> moved.txt && rm c.txt && chmod +x a.txt && "
        "ln -s a.txt link && mkdir -p deep/er && printf 'no end' > 'deep/er/a name' && "
        "head -c 3000 /dev/urandom > binary && printf 'x\\r\\ny\\n' > ends"
    )
    one = task("a", tmp_path, sh=script, repository=str(source))
    found = await outcomes(fleet_of(tmp_path / "out"), one)
    assert found["a"].path is not None
    work = tmp_path / "again"
    git(tmp_path, "clone", "-q", str(source), str(work))
    git(work, "apply", "--index", str(found["a"].path / "changes.patch"))
    assert sorted(git(work, "ls-files").splitlines()) == [
        *("a.txt", "binary", "deep/er/a name", "ends", "link", "moved.txt")
    ]
    assert (work / "a.txt").stat().st_mode & 0o100
    assert (work / "link").is_symlink()
    assert (work / "ends").read_bytes() == b"x\r\ny\n"
    assert (work / "moved.txt").read_text() == "two\n" * 50 + "more\n"
    assert (work / "binary").stat().st_size == 3000


async def test_tasks_that_share_a_directory_see_each_others_changes(tmp_path: Path) -> None:
    place = repository(tmp_path / "place", a_txt="1\n")
    tasks = [
        task("first", place, write={"made": "by the first\n"}),
        task("second", place, sh="cat made > seen", write={"a.txt": "2\n"}),
    ]
    found = await outcomes(fleet_of(None, concurrency=1), *tasks)
    assert (place / "seen").read_text() == "by the first\n"
    assert b"+++ b/made" in (found["first"].changes or b"")
    assert b"+++ b/made" not in (found["second"].changes or b"")


async def test_paths_are_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "source", a_txt="1\n")
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path)
    tasks = [
        Task(id="directory", agent=spec(), cwd="place", prompt='{"write": {"here": "x"}}'),
        Task(id="path", agent=spec(), repository="source", prompt='{"sh": "test -e a.txt"}'),
        Task(id="url", agent=spec(), repository=(tmp_path / "source").as_uri(), prompt="x"),
    ]
    found = await outcomes(fleet_of(None), *tasks)
    assert all(outcome.ok for outcome in found.values()), found
    assert (tmp_path / "place" / "here").exists()


async def test_what_is_wrong_for_good_is_tried_once(tmp_path: Path) -> None:
    tasks = [
        task("settings", tmp_path, model="big"),
        task("directory", tmp_path / "gone"),
        task("token_limit", tmp_path, tokens=50, max_tokens=40),
        task("agent_not_found", tmp_path, AgentSpec((str(tmp_path / "nothing"),))),
    ]
    for outcome in (await outcomes(fleet_of(None), *tasks)).values():
        assert (outcome.reason, len(outcome.attempts)) == (outcome.id, 1)
        assert outcome.message


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


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    "tokens", [10**4300 - 1, -1_000_000, True], ids=["long", "below 0", "true"]
)
async def test_a_number_that_counts_no_tokens_is_not_told(tmp_path: Path, tokens: int) -> None:
    told = ({"used": 70, "tokens": tokens}, {"used": 10**4300 - 1}, {"counted": 5})
    prompts = [json.dumps(each) for each in told]
    found = await outcomes(fleet_of(tmp_path / "out"), task("a", tmp_path, prompt=prompts))
    assert (found["a"].usage.total, found["a"].usage.counted) == (75, False)


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
        (tmp_path / f"meet-{shared}").mkdir()
        meet = {"folder": str(tmp_path / f"meet-{shared}"), "count": 4}
        tasks = [task(f"t{n}", tmp_path, agent, meet=meet) for n in range(4)]
        found = await outcomes(fleet_of(None, concurrency=4), *tasks)
        assert all(outcome.ok for outcome in found.values())
        counts[shared] = len({note["pid"] for note in notes(store)})
    assert counts == {True: 1, False: 4}


async def test_a_process_takes_no_more_tasks_than_it_may(tmp_path: Path) -> None:
    agent = spec(FLEET_AGENT_STORE=str(tmp_path / "store"))
    (tmp_path / "meet").mkdir()
    meet = {"folder": str(tmp_path / "meet"), "count": 4}
    tasks = [task(f"t{n}", tmp_path, agent, meet=meet) for n in range(4)]
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
    (kept,) = read_outcomes(str(tmp_path / "o"))
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


NUMBER = {"type": "number", "multipleOf": 0.01}


@pytest.mark.attack("agent")
@pytest.mark.parametrize("output", [NUMBER, float], ids=["schema", "type"])
@pytest.mark.parametrize("answer", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_no_output(answer: str, output: Any) -> None:
    (problem,) = OutputCheck(output).check(answer)[1]
    assert "it is not JSON" in problem


@pytest.mark.attack("agent")
async def test_an_answer_on_which_the_validator_fails_is_corrected(tmp_path: Path) -> None:
    corrects = spec(FLEET_AGENT_CORRECTION="0.5")
    wanted = task("a", tmp_path, corrects, say=f"1{0:0400}", output=NUMBER)
    assert (await outcomes(fleet_of(None), wanted))["a"].output == 0.5


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
