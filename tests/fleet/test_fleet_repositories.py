"""Repositories that are not what they seem: a checkout or a diff runs nothing that they bring."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from asyncio.subprocess import Process
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.errors import MisuseError
from codex_acp.fleet import CheckoutError, checkout
from codex_acp.fleet.changes import Baseline, directory_baseline
from codex_acp.fleet.checkout import Checkouts, _digest
from codex_acp.fleet.git_commands import MAX_STDERR, GitFailed
from codex_acp.fleet.git_commands import git as safe_git
from codex_acp.fleet.jobs import Job
from codex_acp.transport import process_tree
from codex_acp.transport.process_table import read_process
from tests.fleet.fleet_bench import (
    WAIT,
    commit,
    fleet_of,
    git,
    outcomes,
    repository,
    spec,
    task,
)
from tests.support.processes import lives

pytestmark = pytest.mark.attack("repository")

EVIL = "* filter=evil diff=evil\n"


def marking(folder: Path, mark: Path) -> Path:
    script = folder / "mark.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    return script


def make_hostile(folder: Path, script: Path) -> None:
    """All of git's configuration that starts a program."""
    for name in (
        "core.fsmonitor", "core.sshCommand", "diff.external", "filter.evil.clean",
        "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "core.pager",
        "core.alternateRefsCommand", "uploadpack.packObjectsHook", "core.editor",
    ):  # fmt: skip
        git(folder, "config", name, str(script))
    git(folder, "config", "core.hooksPath", str(script.parent / "hooks"))
    hooks = script.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    for place in (hooks, folder / ".git" / "hooks"):
        place.mkdir(exist_ok=True)
        for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
            (place / name).write_text(script.read_text())
            (place / name).chmod(0o755)


async def test_nothing_of_a_fetched_repository_runs(tmp_path: Path) -> None:
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    source = repository(
        tmp_path / "source", _gitattributes="* filter=evil diff=evil\n", a_txt="1\n"
    )
    make_hostile(source, script)
    found = await outcomes(
        fleet_of(tmp_path / "out"),
        task("a", tmp_path, write={"a.txt": "2\n"}, repository=str(source)),
    )
    assert found["a"].ok, found["a"].message
    assert found["a"].changes is not None
    assert b"+2\n" in found["a"].changes
    assert not mark.exists()


async def test_nothing_of_a_directory_runs_for_its_diff(tmp_path: Path) -> None:
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    place = repository(tmp_path / "place", _gitattributes=EVIL, a_txt="1\n")
    inner = repository(place / "inner", b_txt="1\n")
    commit(place)  # `inner` is like a submodule now
    make_hostile(place, script)
    make_hostile(inner, script)
    (inner / ".gitattributes").write_text("* filter=evil\n")
    (inner / "b.txt").write_text("2\n")
    (place / "mine").write_text("not the task's\n")
    found = await outcomes(fleet_of(None), task("a", place, write={"a.txt": "2\n"}))
    assert found["a"].ok, found["a"].message
    assert not mark.exists()
    assert found["a"].changes is not None
    assert b"+2\n" in found["a"].changes
    assert b"mine" not in found["a"].changes


async def test_an_agent_that_forges_its_worktrees_git_is_not_followed(tmp_path: Path) -> None:
    """It can write anything in its worktree, a ``.git`` of its own too."""
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    source = repository(tmp_path / "source", a_txt="1\n")
    evil = repository(tmp_path / "evil", x="1\n")
    make_hostile(evil, script)
    written = {".git": f"gitdir: {evil / '.git'}\n", ".gitattributes": "* filter=evil\n"}
    found = await outcomes(
        fleet_of(None),
        task("a", tmp_path, write={**written, "a.txt": "2\n"}, repository=str(source)),
    )
    assert not mark.exists()
    assert found["a"].changes is not None
    assert b"+2\n" in found["a"].changes


async def test_an_agent_that_can_write_beside_its_worktree_is_not_followed(tmp_path: Path) -> None:
    """Where all lies below /tmp, Codex's sandbox lets it."""
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    source = repository(tmp_path / "source", a_txt="1\n")
    evil = f'[filter "evil"]\n\tclean = {script}\n[core]\n\tfsmonitor = {script}\n'
    note = {"repository": str(source), "revision": None, "commit": f"--output={mark}",
            "administration": "../../../../../kept"}  # fmt: skip
    (tmp_path / "kept").mkdir()
    store, out = tmp_path / "store", tmp_path / "out"
    agent = spec(FLEET_AGENT_STORE=str(store))
    written = {"../a~git/config": evil, "../a~json": json.dumps(note), "a.txt": "2\n",
               ".gitattributes": EVIL}  # fmt: skip
    one = task("a", tmp_path, agent, write=written, hang_once=str(tmp_path / "hung"),
               repository=str(source))  # fmt: skip
    with anyio.fail_after(WAIT):
        async with fleet_of(out).map([one]):
            while not list(out.glob("work/*/trees/a/.gitattributes")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    found = await outcomes(fleet_of(out, resume=True), one)
    assert found["a"].ok, found["a"].message
    assert found["a"].changes is not None
    assert b"+2\n" in found["a"].changes
    assert not mark.exists()
    assert (tmp_path / "kept").exists()


async def test_an_agent_that_can_write_in_the_shared_repository_is_not_followed(
    tmp_path: Path,
) -> None:
    """The next task of the same repository is checked out outside of any sandbox."""
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    source = repository(tmp_path / "source", _gitattributes=EVIL, a_txt="1\n")
    bare = f"../../repositories/{_digest(str(source))}.git"
    evil = f'[core]\n\tbare = true\n[filter "evil"]\n\tsmudge = {script}\n'
    evil += f"[credential]\n\thelper = {script}\n[extensions]\n\tworktreeConfig = true\n"
    for name in ("config", "config.worktree"):
        mark.unlink(missing_ok=True)
        written = {f"{bare}/config": evil, f"{bare}/{name}": evil}
        tasks = [
            task("a", tmp_path, write=written, repository=str(source)),
            task("b", tmp_path, write={"a.txt": "2\n"}, repository=str(source)),
        ]
        found = await outcomes(fleet_of(tmp_path / name, concurrency=1), *tasks)
        assert found["b"].ok, found["b"].message
        assert found["b"].changes is not None
        assert b"+2\n" in found["b"].changes
        assert not mark.exists(), name


async def test_what_an_agent_configures_in_its_worktree_is_not_there_for_the_next_attempt(
    tmp_path: Path,
) -> None:
    """Which Codex's own git would read, outside of its sandbox, as ours does not."""
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    source = repository(tmp_path / "source", _gitattributes=EVIL, a_txt="1\n")
    configure = (
        f"git config filter.evil.clean {script}; git config core.fsmonitor {script}; "
        f"printf '#!/bin/sh\\ntouch {mark}' > $(git rev-parse --git-common-dir)/hooks/x || true"
    )
    look = "git config --get-regexp 'filter|core.fsm' > found || true"
    agent = spec(FLEET_AGENT_STORE=str(tmp_path / "store"))
    prompts = [
        json.dumps({"sh": configure, "write": {"a.txt": "2\n"}}),
        json.dumps({"crash_once": str(tmp_path / "crashed"), "sh": look}),
    ]
    one = task("a", tmp_path, agent, prompt=prompts, repository=str(source))
    found = await outcomes(fleet_of(tmp_path / "out"), one)
    assert [attempt.resumed for attempt in found["a"].attempts] == [False, True]
    assert found["a"].changes is not None
    assert b"+2\n" in found["a"].changes
    assert b"+++ b/found\n@@" not in found["a"].changes
    assert not mark.exists()


@pytest.mark.parametrize("key", ["fsmonitor", "filter", "hooks", "include", "pipe"])
async def test_what_an_agent_configures_in_a_directory_runs_for_no_later_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("codex_acp.fleet.changes.LOOK_SECONDS", 2.0)
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    place = repository(tmp_path / "place", a_txt="1\n")
    evil = tmp_path / "evil"
    evil.write_text(f'[filter "evil"]\nclean = {script}\n[core]\nfsmonitor = {script}\n')
    configured = {
        "fsmonitor": f"git config core.fsmonitor {script}",
        "filter": f"git config filter.evil.clean {script}; echo '{EVIL.strip()}' > .gitattributes",
        "hooks": f"mkdir h; cp {script} h/post-index-change; git config core.hooksPath $(pwd)/h",
        "include": f"git config include.path {evil}; echo '{EVIL.strip()}' > .gitattributes",
        "pipe": "mkfifo p; git config include.path $(pwd)/p",
    }[key]
    tasks = [
        task("first", place, sh=configured, write={"a.txt": "2\n"}),
        task("second", place, write={"a.txt": "3\n"}),
    ]
    found = await outcomes(fleet_of(None, concurrency=1), *tasks)
    assert not mark.exists()
    patch, note = found["second"].changes, found["second"].changes_note
    assert "longer than" in str(note) if key == "pipe" else b"+3\n" in (patch or b"")


async def test_no_name_of_a_task_is_a_file_of_another_one(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", a_txt="1\n")
    (tmp_path / "meet").mkdir()
    meet = {"folder": str(tmp_path / "meet"), "count": 5}
    tasks = [
        task(name, tmp_path, write={"a.txt": f"{name}\n"}, meet=meet, repository=str(source))
        for name in ("a", "a.git", "a.json", "a.lock", "a.git.lock")
    ]
    found = await outcomes(fleet_of(tmp_path / "out", concurrency=9), *tasks)
    for name, outcome in found.items():
        assert outcome.ok, f"{name}: {outcome.message}"
        assert outcome.changes is not None, f"{name}: {outcome.changes_note}"
        assert f"+{name}\n".encode() in outcome.changes


async def test_worktrees_do_not_lie_where_codex_lets_every_agent_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is the directory for temporary files, besides its own worktree."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = repository(tmp_path / "source", a_txt="1\n")
    one = task("a", tmp_path, repository=str(source), sleep=60.0)
    with anyio.fail_after(WAIT):
        async with fleet_of(None).map([one]):
            while not list((tmp_path / "cache").glob("**/trees/a/a.txt")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert not list((tmp_path / "cache" / "codex-acp-sdk" / "fleet").iterdir())
    (tmp_path / "cache" / "codex-acp-sdk").rename(tmp_path / "moved")
    (tmp_path / "cache" / "codex-acp-sdk").touch()
    with pytest.raises(MisuseError, match="XDG_CACHE_HOME"):
        await outcomes(fleet_of(None), one)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as without HOME and user
    with pytest.raises(MisuseError, match="no home directory; set XDG_CACHE_HOME"):
        await outcomes(fleet_of(None), task("c", tmp_path))


async def test_a_directory_that_claims_another_worktree_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    place = repository(tmp_path / "home" / "place")
    git(place, "config", "core.worktree", str(tmp_path / "home"))
    found = await directory_baseline(place, tmp_path / "scratch")
    assert not isinstance(found, Baseline)


async def test_files_of_lfs_stay_pointers_whatever_the_user_has_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "MARK"
    script = marking(tmp_path, mark)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    source = repository(
        tmp_path / "source",
        _gitattributes="*.bin filter=lfs diff=lfs\n",
        a_bin=pointer,
        b_txt="1\n",
    )
    configured = tmp_path / "gitconfig"
    configured.write_text(
        f'[filter "lfs"]\nclean = {script}\nsmudge = {script}\nprocess = {script}\n'
        f'[diff "lfs"]\ntextconv = {script}\n[core]\nfsmonitor = {script}\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configured))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_bytes(configured.read_bytes())
    one = task("a", tmp_path, sh="cp a.bin seen", repository=str(source))
    found = await outcomes(fleet_of(tmp_path / "out"), one)
    assert found["a"].ok, found["a"].message
    assert b"+oid sha256:0\n" in (found["a"].changes or b"")
    assert not mark.exists()


async def test_submodules_are_not_fetched(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    (source / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% {tmp_path}/MARK\n'
    )
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},x")
    git(source, "add", ".gitmodules")
    git(source, "commit", "-q", "-m", "sub")
    found = await outcomes(fleet_of(None), task("a", tmp_path, say="x", repository=str(source)))
    assert found["a"].ok, found["a"].message
    assert not (tmp_path / "MARK").exists()


@pytest.mark.parametrize("url", ["ext::sh -c touch% MARK", "fd::3", "--upload-pack=touch MARK;"])
async def test_a_transport_is_refused_by_git_too(tmp_path: Path, url: str) -> None:
    """Whatever the checks of names let through."""
    await safe_git("init", "--bare", "-q", "--", str(tmp_path / "r"))
    env = {"GIT_DIR": str(tmp_path / "r"), "GIT_CONFIG_COUNT": "1"}
    env |= {"GIT_CONFIG_KEY_0": "protocol.ext.allow", "GIT_CONFIG_VALUE_0": "always"}
    with pytest.raises(GitFailed):
        await safe_git("fetch", "--end-of-options", url, env=env, cwd=tmp_path, user_config=True)
    assert not (tmp_path / "MARK").exists()


async def test_what_cannot_be_cloned_fails_its_task_alone(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    tasks = [
        task("gone", tmp_path, repository=str(tmp_path / "gone")),
        task("secret", tmp_path, repository="https://user:hunter2secret@127.0.0.1:9/x"),
        task("revision", tmp_path, repository=str(source), revision="nowhere"),
        task("commit", tmp_path, repository=str(source), revision="1" * 40),
        task("empty", tmp_path, repository=str(empty)),
        task("good", tmp_path, repository=str(source)),
    ]
    found = await outcomes(fleet_of(None), *tasks)
    reasons = {name: outcome.reason for name, outcome in found.items()}
    assert reasons.pop("good") == "end_turn"
    assert set(reasons.values()) == {"checkout"}
    assert all(len(outcome.attempts) == 1 for outcome in found.values())
    assert "hunter2secret" not in repr(found["secret"])
    assert "no revision 'nowhere'" in str(found["revision"].message)


async def test_a_worktree_is_removed_with_what_it_was_made_of(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    job = Job(
        attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", prompts=("x",),
        agent=spec(), repository=str(source),
    )  # fmt: skip
    checkouts = Checkouts(tmp_path / "root")
    made = await checkouts.make(job, resume=False)
    other = await checkouts.make(job, resume=False)
    assert other.path.name == "t@2"
    locked = made.path / "locked"
    locked.mkdir()
    (locked / "file").touch()
    locked.chmod(0o500)
    await checkouts.remove(made)
    await checkouts.remove(other)
    assert list((tmp_path / "root" / "f" / "trees").iterdir()) == []
    (bare,) = (tmp_path / "root" / "f" / "repositories").glob("*.git")
    assert list((bare / "worktrees").iterdir()) == []


async def test_a_branch_may_take_the_place_of_another_between_two_runs(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    git(source, "checkout", "-q", "-b", "release")
    pinned = commit(source, b_txt="pinned\n")
    git(source, "tag", "v1")
    git(source, "checkout", "-q", "main")
    job = Job(
        attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", prompts=("x",),
        agent=spec(), repository=str(source), revision="release",
    )  # fmt: skip
    checkouts = Checkouts(tmp_path / "root")
    left = await checkouts.make(job, resume=False)
    left.lock.release()
    git(source, "branch", "-q", "-m", "release", "release/1.0")
    git(source, "tag", "-d", "v1")
    git(source, "tag", "v1/rc", "main")
    head = commit(source, a_txt="two\n")
    git(source, "branch", "-q", "-f", "release/1.0", "main")
    expected = {"HEAD": head, "release/1.0": head, pinned: pinned}
    expected["v1/rc"] = git(source, "rev-parse", "v1/rc")
    for revision, wanted in expected.items():
        again = replace(job, run_id="r2", task_id=revision, name="u", revision=revision)
        made = await checkouts.make(again, resume=True)
        assert made.commit == wanted
        await checkouts.remove(made)
    assert (await checkouts.make(replace(job, run_id="r2"), resume=True)).commit == pinned
    with pytest.raises(CheckoutError, match="no revision 'release'"):
        await checkouts.make(replace(job, run_id="r2", name="new"), resume=False)


async def test_a_worktree_is_gone_as_soon_as_its_task_has_its_outcome(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    waits = "until [ -e ../a ]; do sleep 0.02; done; touch ../seen; "
    waits += "while [ -e ../a ]; do sleep 0.02; done"
    first = "until [ -e ../seen ]; do sleep 0.02; done"
    tasks = [
        task("a", tmp_path, repository=str(source), sh=first),
        task("b", tmp_path, repository=str(source), sh=waits),
    ]
    found = await outcomes(fleet_of(tmp_path / "out", concurrency=2), *tasks)
    assert (found["a"].ok, found["b"].ok) == (True, True)


async def test_a_worktree_whose_making_was_killed_is_made_again(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    job = Job(
        attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", prompts=("x",),
        agent=spec(), repository=str(source),
    )  # fmt: skip
    made = await Checkouts(tmp_path / "root").make(job, resume=False)
    (made.git_dir / "locked").write_text("initializing")
    shutil.rmtree(made.path)
    made.lock.release()
    again = await Checkouts(tmp_path / "root").make(job, resume=False)
    assert (again.path, again.left_over) == (made.path, False)
    again.lock.release()


async def test_a_task_has_as_many_worktrees_as_the_refusal_of_one_more_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "MOST_TREES", 2)
    job = Job(
        attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", prompts=("x",),
        agent=spec(), repository=str(repository(tmp_path / "source")),
    )  # fmt: skip
    made = [await Checkouts(tmp_path / "root").make(job, resume=False) for _ in range(2)]
    assert [each.path.name for each in made] == ["t", "t@2"]
    with pytest.raises(CheckoutError, match="2 workers have a worktree"):
        await Checkouts(tmp_path / "root").make(job, resume=False)
    for each in made:
        each.lock.release()


@pytest.mark.attack("repository")
def test_no_half_of_a_secret_stands_in_a_complaint_of_git() -> None:
    for behind in range(MAX_STDERR - 60, MAX_STDERR):
        said = f"unable to access https://user:hunter2secret@127.0.0.1/x\n{'remote: no' * 300}"
        assert "secret" not in str(GitFailed("fetch", 1, said[: 55 + behind]))


async def test_a_git_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="longer than"):
        await safe_git("x", before=("-c", "alias.x=!sleep 600"), seconds=0.2, cwd=tmp_path)


async def test_a_cancelled_git_leaves_no_process(tmp_path: Path) -> None:
    running = asyncio.ensure_future(
        safe_git("x", before=("-c", f"alias.x=!echo $$ > {tmp_path}/pid; sleep 600"), cwd=tmp_path)
    )
    pid = tmp_path / "pid"
    while not pid.exists() or not pid.read_text().strip():  # noqa: ASYNC110 - of a process
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})
    with anyio.fail_after(30):
        while lives(int(pid.read_text())):  # noqa: ASYNC110 - killed, the kernel needs a moment
            await anyio.sleep(0.01)


@pytest.mark.attack("repository")
async def test_a_cancelled_git_does_not_wait_for_what_left_it_with_its_pipes(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    alias = f"alias.x=!setsid sh -c 'echo $$ > {pid}; exec sleep 600' & sleep 600"
    running = asyncio.ensure_future(safe_git("x", before=("-c", alias), cwd=tmp_path))
    while not pid.exists() or not pid.read_text().strip():  # noqa: ASYNC110 - of a process
        await asyncio.sleep(0.01)
    running.cancel()
    try:
        await asyncio.wait({running}, timeout=60)
        assert running.cancelled()
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_git_that_is_cancelled_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    running = asyncio.ensure_future(
        safe_git("x", before=("-c", f"alias.x=!echo $$ > {tmp_path}/pid; sleep 600"), cwd=tmp_path)
    )
    for _ in range(2):
        await asyncio.sleep(0)  # it is there, and asyncio has not said so yet
    pid = tmp_path / "pid"
    while not pid.exists() or not pid.read_text().strip():
        time.sleep(0.01)  # noqa: ASYNC251 - so that it cannot say so
    running.cancel()
    await asyncio.wait({running}, timeout=30)
    assert running.cancelled()
    with anyio.fail_after(30):
        while lives(int(pid.read_text())):  # noqa: ASYNC110 - killed, the kernel needs a moment
            await anyio.sleep(0.01)


async def test_a_git_that_runs_is_no_orphan_of_an_agent(tmp_path: Path) -> None:
    """The command takes in orphans: it would take git's status, or end it with the last agent."""
    pid = tmp_path / "pid"
    assert process_tree.adopt_orphans(asyncio.get_running_loop())
    hangs = f"alias.x=!echo $PPID > {pid}; sleep 600"
    running = asyncio.ensure_future(safe_git("x", before=("-c", hangs), cwd=tmp_path))
    try:
        with anyio.fail_after(WAIT):
            while not pid.exists() or not pid.read_text().strip():  # noqa: ASYNC110 - of a process
                await asyncio.sleep(0.01)
            info = read_process(int(pid.read_text()))
            assert info is not None
            assert info.parent == os.getpid()
            while process_tree._open_roots <= {1}:  # git can be sooner than its start ends
                assert not process_tree.is_orphan_here(info)
                await asyncio.sleep(0.01)
        assert not process_tree.is_orphan_here(info)
        running.cancel()
        await asyncio.wait({running})
        assert process_tree._open_roots <= {1}
    finally:
        running.cancel()
        await asyncio.wait({running})
        process_tree.leave_orphans()


async def test_a_git_whose_start_is_given_up_twice_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    started: list[Process] = []

    async def late(*words: str, **how: Any) -> Process:
        await go_on.wait()
        started.append(await start(*words, **how))
        return started[-1]

    start = asyncio.create_subprocess_exec
    monkeypatch.setattr(asyncio, "create_subprocess_exec", late)
    running = asyncio.ensure_future(
        safe_git("x", before=("-c", "alias.x=!sleep 600"), cwd=tmp_path)
    )
    await asyncio.sleep(0)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    go_on.set()
    with anyio.fail_after(WAIT):
        await asyncio.wait({running})
    assert running.cancelled()
    assert started[0].returncode is not None


async def test_the_checks_hold_in_the_worker_too(tmp_path: Path) -> None:
    """A job may come from somewhere else than a `Task`."""
    for repository_, revision in (("-x", None), ("ext::x", None), ("/x", "-x")):
        job = Job(
            attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", prompts=("x",),
            agent=spec(), repository=repository_, revision=revision,
        )  # fmt: skip
        with pytest.raises(CheckoutError):
            await Checkouts(tmp_path / "root").make(job, resume=False)
