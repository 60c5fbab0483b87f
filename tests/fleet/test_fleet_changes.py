"""What a task changed is in its patch, or its outcome says what is not: nothing vanishes unsaid."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_acp.fleet import Outcome, Task, changes
from tests.fleet.fleet_bench import commit, fleet_of, git, outcomes, repository, task

pytestmark = pytest.mark.attack("agent")

REFUSED = (
    ".GIT",
    ".gIt",
    ".git ",
    ".git.",
    "git~1",
    ".g\u200cit",
    ".git\u200d",
    ".git::$INDEX_ALLOCATION",
)
"""Names of directories that git takes for its own on some file system, and never commits."""

PYTHON = shlex.quote(sys.executable)

DEEP = f"""{PYTHON} -c '
import os
for _ in range(20):
    os.mkdir("d" * 250); os.chdir("d" * 250)
open("lost", "w").write("work")
'"""
"""Directories whose path is longer than the system takes at once."""


async def both(tmp_path: Path, **told: Any) -> dict[str, Outcome]:
    """The same done in a worktree of a repository, and in a directory."""
    source = repository(tmp_path / "source", a_txt="1\n")
    place = repository(tmp_path / "place", a_txt="1\n")
    tasks: list[Task] = [
        task("worktree", tmp_path, repository=str(source), **told),
        task("directory", place, **told),
    ]
    return await outcomes(fleet_of(tmp_path / "out"), *tasks)


def lacks(outcome: Outcome, *names: str) -> None:
    """It is not plainly completed, and names what its patch lacks."""
    assert (outcome.status, outcome.reason) == ("failed", "changes_incomplete"), outcome
    assert len(outcome.attempts) == 1
    for name in names:
        assert name in str(outcome.message)
        assert name in str(outcome.changes_note)


def has(outcome: Outcome, *lines: bytes) -> None:
    """Its patch has them, and is one that git takes."""
    assert outcome.changes is not None, outcome.changes_note
    for line in lines:
        assert line in outcome.changes


@pytest.mark.parametrize("name", REFUSED)
async def test_a_directory_that_git_takes_for_its_own_costs_the_patch_nothing_else(
    tmp_path: Path, name: str
) -> None:
    hidden = f"mkdir -p {shlex.quote(name)} && echo x > {shlex.quote(name)}/config"
    found = await both(tmp_path, write={"a.txt": "2\n", "new": "n\n"}, sh=hidden)
    for outcome in found.values():
        has(outcome, b"+2\n", b"+++ b/new\n")
        lacks(outcome, f"{name}/config")


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("git init -q inner && echo x > inner/work", "inner/"),
        ("cp -r .repository inner && echo x > inner/work", "inner/"),
        ("rm a.txt && cp -r .repository a.txt && echo x > a.txt/work", "a.txt/"),
        ("mkfifo fifo && rm a.txt && mkfifo a.txt", "a.txt"),
        ("truncate -s 3G huge", "huge"),
        ("rm a.txt && truncate -s 3G a.txt", "a.txt"),
        (DEEP, "d" * 50),
    ],
    ids=[
        "empty-repository",
        "repository",
        "repository-for-a-file",
        "pipe",
        "huge",
        "grown",
        "deep",
    ],
)
async def test_what_git_cannot_take_is_named_and_the_rest_is_in_the_patch(
    tmp_path: Path, made: str, named: str
) -> None:
    other = repository(tmp_path / "other", b_txt="1\n")
    made = made.replace(".repository", shlex.quote(str(other)))
    found = await both(tmp_path, write={"new": "n\n"}, sh=made)
    for outcome in found.values():
        has(outcome, b"+++ b/new\n")
        lacks(outcome, named)


@pytest.mark.parametrize(
    "attributes",
    ["* working-tree-encoding=UTF-16", "* working-tree-encoding=no-such", "* filter=x diff=x"],
)
async def test_no_attribute_that_an_agent_writes_costs_the_patch(
    tmp_path: Path, attributes: str
) -> None:
    written = {".gitattributes": f"{attributes}\n", "a.txt": "2\n", "odd": "o"}
    found = await both(tmp_path, write=written)
    for outcome in found.values():
        assert outcome.ok, outcome.message
        has(outcome, b"+2\n", b"+++ b/odd\n", b"+++ b/.gitattributes\n")


async def test_what_an_agent_has_git_ignore_is_named(tmp_path: Path) -> None:
    found = await both(tmp_path, write={".gitignore": "*\n", "a.txt": "2\n", "work": "w\n"})
    for outcome in found.values():
        assert outcome.ok
        has(outcome, b"+2\n")
        assert "work" in str(outcome.changes_note)


async def test_what_the_repository_ignores_and_caches_that_ignore_themselves_are_no_news(
    tmp_path: Path,
) -> None:
    source = repository(tmp_path / "source")
    (source / ".gitignore").write_text("*.o\n")
    commit(source)
    cache = "mkdir -p .cache build && echo '*' > .cache/.gitignore && touch .cache/x build/a.o"
    one = task("a", tmp_path, repository=str(source), sh=cache, write={"new": "n\n"})
    found = await outcomes(fleet_of(None), one)
    assert (found["a"].ok, found["a"].changes_note) == (True, None)
    has(found["a"], b"+++ b/new\n")


@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
async def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(
    tmp_path: Path, bit: str
) -> None:
    place = repository(tmp_path / "place", a_txt="1\n")
    git(place, "update-index", bit, "a.txt")
    found = await outcomes(fleet_of(None), task("a", place, write={"a.txt": "2\n"}))
    has(found["a"], b"-1\n+2\n")


async def test_an_index_that_an_agent_could_forge_is_not_believed(tmp_path: Path) -> None:
    """It would tell git that a file is as it was; see where all lies below /tmp."""
    source = repository(tmp_path / "source", a_txt="1\n")
    forge = (
        "i=$(ls -d ../a~git) && echo 2 > a.txt && GIT_DIR=$i GIT_WORK_TREE=. "
        "git update-index --assume-unchanged a.txt"
    )
    junk = "echo junk > ../b~git/index"
    tasks = [
        task("a", tmp_path, repository=str(source), sh=forge),
        task("b", tmp_path, repository=str(source), sh=junk, write={"a.txt": "2\n"}),
    ]
    found = await outcomes(fleet_of(tmp_path / "out"), *tasks)
    for outcome in found.values():
        assert outcome.ok, outcome.message
        has(outcome, b"-1\n+2\n")


@pytest.mark.parametrize("name", [".gitignore", "sub/.gitattributes"])
async def test_a_pipe_that_git_would_read_is_said_at_once(tmp_path: Path, name: str) -> None:
    found = await both(tmp_path, write={"a.txt": "2\n"}, sh=f"mkdir sub && mkfifo {name}")
    for outcome in found.values():
        lacks(outcome, name)


async def test_a_pipe_among_the_objects_costs_the_patch_alone(tmp_path: Path) -> None:
    place = repository(tmp_path / "place")
    pipe = "mkfifo .git/objects/info/alternates"
    found = await outcomes(fleet_of(None), task("a", place, say="Done.", sh=pipe))
    lacks(found["a"], "info/alternates is a pipe")
    assert found["a"].text == "Done."


async def test_a_git_that_is_busy_for_ever_costs_the_patch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PATCH_SECONDS", 0.0)
    deep = "/".join("d" * 40)
    rules = f"mkdir -p {deep} && touch {deep}/x && echo '{'**/' * 10}b' > .gitignore"
    found = await both(tmp_path, say="Done.", sh=rules)
    lacks(found["worktree"], "it took longer")
    assert found["directory"].ok  # it had no baseline
    assert "longer than 0 seconds to read the files" in str(found["directory"].changes_note)
    for outcome in found.values():
        assert (outcome.text, len(outcome.attempts)) == ("Done.", 1)
        assert b"Done." in outcome.transcript


async def test_many_changes_that_are_too_long_together_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PATCH_LIMIT", 4000)
    found = await both(tmp_path, write={f"f{n}": "x\n" for n in range(300)})
    for outcome in found.values():
        assert outcome.changes is None
        lacks(outcome, "not kept")


async def test_a_patch_that_is_too_long_lacks_its_largest_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PATCH_LIMIT", 4000)
    found = await both(tmp_path, write={"big": "line\n" * 1000, "small": "s\n", "a.txt": "2\n"})
    for outcome in found.values():
        has(outcome, b"+2\n", b"+++ b/small\n")
        assert b"big" not in (outcome.changes or b"")
        lacks(outcome, "big")


async def test_a_worktree_that_is_gone_is_no_empty_patch(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    gone = 'here=$(pwd) && cd / && rm -rf "$here"'
    one = task("a", tmp_path, repository=str(source), sh=gone)
    found = await outcomes(fleet_of(tmp_path / "out"), one)
    lacks(found["a"])
    elsewhere = repository(tmp_path / "elsewhere", secret_txt="not the task's\n")
    swap = f'here=$(pwd) && cd / && rm -rf "$here" && ln -s {elsewhere} "$here"'
    one = task("b", tmp_path, repository=str(source), sh=swap)
    found = await outcomes(fleet_of(tmp_path / "out2"), one)
    lacks(found["b"])
    assert b"secret" not in (found["b"].changes or b"")
    assert (elsewhere / "secret.txt").exists()


async def test_directories_as_deep_as_they_come_stop_no_fleet(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    deep = f"""{PYTHON} -c '
import os
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
open("found", "w").write("work")
'"""
    one = task("a", tmp_path, repository=str(source), sh=deep, write={"new": "n\n"})
    out = tmp_path / "out"
    try:
        found = await outcomes(fleet_of(out), one)
        has(found["a"], b"+++ b/new\n")
        assert not (out / "work").exists()
    finally:  # pytest could not remove it
        subprocess.run(["/bin/rm", "-rf", out], check=True)  # noqa: ASYNC221


async def test_what_was_so_before_the_task_is_not_the_tasks(tmp_path: Path) -> None:
    place = repository(tmp_path / "place", a_txt="1\n")
    shutil.copytree(repository(tmp_path / "other"), place / "inner")
    (place / ".GIT").mkdir()
    (place / ".GIT" / "x").write_text("x")
    found = await outcomes(fleet_of(None), task("a", place, write={"a.txt": "2\n"}))
    assert found["a"].ok, found["a"].message
    has(found["a"], b"-1\n+2\n")


async def test_a_task_that_failed_anyway_keeps_its_reason(tmp_path: Path) -> None:
    found = await both(tmp_path, stop="refusal", sh="git init -q inner && touch inner/x")
    for outcome in found.values():
        assert outcome.reason == "refusal"
        assert "inner/" in str(outcome.changes_note)
