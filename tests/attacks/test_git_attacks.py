"""Programs of a directory's own git configuration run after a person's yes, or not: 7.1b."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_acp.codex import LaunchOptions
from codex_acp.codex.sync import Codex
from codex_acp.errors import UntrustedGitPrograms
from codex_acp.fleet import Task
from codex_acp.runtime import AgentSpec, allow_kinds
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Text
from tests.codex.codex_bench import CodexBench
from tests.codex.test_git_programs import BAD, LFS, ORDINARY
from tests.e2e.either_version import EitherVersion
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.e2e.test_sessions_codex_lost import kill_codex_and_let_it_be_noticed
from tests.fleet.fleet_bench import fleet_of, outcomes
from tests.support.git_programs import WAYS, Planted
from tests.support.untrusted_repository import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.attack("repository")]

SAYS_NO_MORE = [ModelResponse(Text("Done."), repeat=True)]


def planted(home: CodexHome, name: str = "theirs") -> Planted:
    return Planted(home.root / name, home.root / f"{name}-mark")


def evil(home: CodexHome) -> Planted:
    it = planted(home)
    it.add(it.filter)
    return it


def question(adapter: RawAdapter) -> Message:
    return adapter.wait_for(lambda m: m.get("method") == "session/request_permission")


def asked(adapter: RawAdapter) -> int:
    return sum(m.get("method") == "session/request_permission" for m in adapter.messages)


def call_of(asking: Message) -> dict[str, Any]:
    """The tool call of a question, in either version."""
    params = asking["params"]
    call: dict[str, Any] = params.get("toolCall") or params["subject"]["toolCall"]
    return call


def must_be_refused(answer: Message, it: Planted) -> None:
    """It names the program and its file, and says how to trust."""
    error = answer["error"]
    assert "filter.evil.clean" in error["message"]
    assert str(it.config) in error["message"]
    assert f"--trust {it.path}" in error["message"]
    (named,) = error["data"]["gitPrograms"]
    assert named == {
        "file": str(it.config), "key": "filter.evil.clean", "command": it.program,
    }  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_7_1b_the_first_prompt_asks_for_what_git_would_run(version: int) -> None:
    with EitherVersion(version, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session)
        asking = question(its.adapter)
        call = call_of(asking)
        (brought,) = call["rawInput"]["programs"]
        assert brought == {
            "file": str(it.config), "key": "filter.evil.clean", "command": it.program,
        }  # fmt: skip
        assert all(each in call["content"][0]["content"]["text"] for each in brought.values())
        assert it.program in call["title"]
        assert str(it.path) in call["title"]
        assert call["kind"] == "other"
        assert "runs as it is by then" in call["content"][0]["content"]["text"]
        its.adapter.choose(asking, "reject_once")
        must_be_refused(its.adapter.answer(prompt), it)
        assert its.adapter.updates("tool_call_update", session)[-1]["status"] == "failed"
        assert its.model.requests == ()
        assert not it.ran()


@pytest.mark.parametrize(
    ("option", "outcome"), [("allow_always", "accepted"), ("reject_once", "rejected")]
)
def test_5_1_the_transcript_has_what_was_answered_for_git(
    option: str, outcome: str, tmp_path: Path
) -> None:
    path = tmp_path / "transcript.jsonl"
    with EitherVersion(1, SAYS_NO_MORE, args=("--transcript", str(path))) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session)
        its.adapter.choose(question(its.adapter), option)
        its.adapter.answer(prompt)
    lines = map(json.loads, path.read_text().splitlines())
    (line,) = [each for each in lines if each["type"] == "agreement.decided"]
    assert (line["about"], line["outcome"], line["by"]) == ("git_programs", outcome, "client")
    assert line["session_id"] == session
    (program,) = line["subject"]
    assert program == f"filter.evil.clean in {it.config}: {it.program}"


@pytest.mark.parametrize("version", [1, 2])
def test_7_1b_what_was_agreed_to_is_asked_once_and_what_changes_again(version: int) -> None:
    with EitherVersion(version, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session)
        its.adapter.choose(question(its.adapter), "allow_always")
        assert "result" in its.adapter.answer(prompt)
        wait_for(it.mark)
        another = its.adapter.new_session(it.path)
        its.prompt(another, "Go on.")
        its.prompt(another, "And on.")
        assert asked(its.adapter) == 1
        it.add('[filter "other"]\n\tclean = other\n')
        prompt = its.adapter.start_prompt(another)
        asking = question(its.adapter)
        assert "other" in call_of(asking)["title"]
        assert it.program not in call_of(asking)["title"]
        its.adapter.choose(asking, "reject_once")
        assert "filter.other.clean" in its.adapter.answer(prompt)["error"]["message"]


@pytest.mark.parametrize("command", ["/review", "/compact", "/goal work", "/init", "/plan go"])
def test_7_1b_commands_that_begin_a_turn_ask_as_well(command: str) -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session, command)
        its.adapter.choose(question(its.adapter), "reject_once")
        must_be_refused(its.adapter.answer(prompt), it)
        assert not it.ran()
        assert its.prompt(session, "/status")
        assert asked(its.adapter) == 1


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_7_1b_a_stored_session_that_is_opened_there(method: str) -> None:
    with SessionBench(SAYS_NO_MORE) as bench:
        it = planted(bench.home)
        with bench.adapter() as adapter:
            session = adapter.new_session(it.path)
            adapter.answer(adapter.start_prompt(session))
        it.add(it.filter)
        params = {"sessionId": session, "cwd": str(it.path), "mcpServers": []}
        with bench.adapter() as adapter:
            opening = adapter.start(method, params)
            asking = question(adapter)
            assert asking["params"]["sessionId"] == session
            adapter.choose(asking, "reject_once")
            must_be_refused(adapter.answer(opening), it)
            assert not it.ran()
            opening = adapter.start(method, params)
            adapter.choose(question(adapter), "allow_always")
            assert "result" in adapter.answer(opening)


def test_7_1b_a_fork_asks_in_the_session_that_is_copied_or_nobody() -> None:
    with SessionBench(SAYS_NO_MORE) as bench:
        it = planted(bench.home)
        with bench.adapter() as adapter:
            session = adapter.new_session(it.path)
            adapter.answer(adapter.start_prompt(session))
            it.add(it.filter)
            params = {"sessionId": session, "cwd": str(it.path), "mcpServers": []}
            fork = adapter.start("session/fork", params)
            asking = question(adapter)
            assert asking["params"]["sessionId"] == session
            adapter.choose(asking, "reject_once")
            must_be_refused(adapter.answer(fork), it)
        with bench.adapter() as adapter:
            must_be_refused(adapter.ask("session/fork", params), it)
            assert asked(adapter) == 0
        assert not it.ran()


def test_7_1b_a_session_whose_codex_was_lost_asks_before_it_is_loaded_again() -> None:
    with SessionBench(SAYS_NO_MORE) as bench, bench.adapter() as adapter:
        it = planted(bench.home)
        session = adapter.new_session(it.path)
        adapter.answer(adapter.start_prompt(session))
        it.add(it.filter)
        kill_codex_and_let_it_be_noticed(adapter)
        prompt = adapter.start_prompt(session)
        adapter.choose(question(adapter), "reject_once")
        must_be_refused(adapter.answer(prompt), it)
        assert not it.ran()


def test_7_1b_a_prompt_that_is_cancelled_takes_its_question_back() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session)
        asking = question(its.adapter)
        its.adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
        answer = its.adapter.answer(prompt)
        assert answer["result"]["stopReason"] == "cancelled"
        its.adapter.choose(asking, "allow_always")  # too late
        again = its.adapter.start_prompt(session)
        its.adapter.choose(question(its.adapter), "reject_once")
        must_be_refused(its.adapter.answer(again), it)
        assert not it.ran()


def test_7_1b_a_client_that_cannot_be_asked_is_told_the_sentence() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        prompt = its.adapter.start_prompt(session)
        error = {"code": -32601, "message": "not offered"}
        its.adapter.send({"id": question(its.adapter)["id"], "error": error})
        must_be_refused(its.adapter.answer(prompt), it)
        assert not it.ran()


def by_configuration(its: EitherVersion, it: Planted) -> None:
    with its.home.config_file.open("a") as config:
        config.write(f'\n[projects."{it.path}"]\ntrust_level = "trusted"\n')


@pytest.mark.parametrize("inside", ["", "a/b"])
def test_a_directory_that_the_user_trusts_is_not_asked_about(inside: str) -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        by_configuration(its, it)
        (it.path / inside).mkdir(parents=True, exist_ok=True)
        its.prompt(its.adapter.new_session(it.path / inside), "Go.")
        wait_for(it.mark)
        assert asked(its.adapter) == 0


def test_a_directory_that_is_trusted_by_option_is_not_asked_about() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        session = its.adapter.new_session(it.path)
        choice = {"sessionId": session, "configId": "trust", "value": "trusted"}
        its.adapter.result("session/set_config_option", choice)
        its.prompt(session, "Go.")
        wait_for(it.mark)
        assert asked(its.adapter) == 0


def test_a_directory_that_is_trusted_for_the_run_is_not_asked_about(tmp_path: Path) -> None:
    it = Planted(tmp_path / "theirs", tmp_path / "mark")
    it.add(it.filter)
    with EitherVersion(1, SAYS_NO_MORE, args=("--trust", str(it.path))) as its:
        its.prompt(its.adapter.new_session(it.path), "Go.")
        wait_for(it.mark)
        assert asked(its.adapter) == 0


def test_7_1b_a_directory_that_the_user_calls_untrusted_is_asked_about() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = evil(its.home)
        with its.home.config_file.open("a") as config:
            config.write(f'\n[projects."{it.path}"]\ntrust_level = "untrusted"\n')
        prompt = its.adapter.start_prompt(its.adapter.new_session(it.path))
        its.adapter.choose(question(its.adapter), "reject_once")
        must_be_refused(its.adapter.answer(prompt), it)
        assert not it.ran()


def test_ordinary_repositories_and_git_lfs_are_not_asked_about() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        for number, config in enumerate((LFS, ORDINARY, "")):
            it = planted(its.home, f"theirs-{number}")
            it.add(config)
            its.prompt(its.adapter.new_session(it.path), "Go.")
        assert asked(its.adapter) == 0


def test_7_1b_each_way_and_all_that_cannot_be_read_is_asked_about() -> None:
    with EitherVersion(2, SAYS_NO_MORE) as its:
        for number, way in enumerate((*WAYS.values(), *BAD[:2])):
            it = planted(its.home, f"theirs-{number}")
            directory = way(it) or it.path
            session = its.adapter.new_session(directory)
            prompt = its.adapter.start_prompt(session)
            its.adapter.choose(question(its.adapter), "reject_once")
            answer = its.adapter.answer(prompt)
            assert answer["error"]["data"]["gitPrograms"], way
            assert not it.ran(), way
        assert its.model.requests == ()


def test_7_1b_an_agent_that_is_started_in_such_a_directory() -> None:
    """Codex 0.147 has git ask for plugins as it starts."""
    with SessionBench(SAYS_NO_MORE, config={"features": {"plugins": True}}) as bench:
        it = planted(bench.home)
        it.add(
            "[protocol]\n\tallow = always\n"
            f'[url "ext::sh -c touch% {it.mark}% #"]\n\tinsteadOf = https://\n'
        )
        with contextlib.chdir(it.path), bench.adapter() as adapter:
            bench.run(adapter, bench.new(adapter), "Go.")
            bench.run(adapter, bench.new(adapter), "And on.")
            assert asked(adapter) == 0
        assert not it.ran()


def test_7_1b_more_than_can_be_seen_is_refused_unasked() -> None:
    with EitherVersion(1, SAYS_NO_MORE) as its:
        it = planted(its.home)
        it.add("".join(f'[filter "{n}"]\n\tclean = program-{n}\n' for n in range(1000)))
        answer = its.adapter.answer(its.adapter.start_prompt(its.adapter.new_session(it.path)))
        assert "filter.0.clean" in answer["error"]["message"]
        assert "cut; there are 1000" in answer["error"]["message"]
        assert asked(its.adapter) == 0


# Programs without a person.


async def test_7_1b_the_library_refuses_with_a_typed_error() -> None:
    async with CodexBench(SAYS_NO_MORE) as bench:
        it = planted(bench.home)
        thread = await bench.codex.threads.start(cwd=it.path)
        assert (await thread.run("Go.")).text == "Done."
        it.add(it.filter)
        refused: list[Callable[[], Any]] = [
            lambda: thread.run("Go."),
            thread.compact,
            thread.fork,
            thread.resume,
            lambda: bench.codex.threads.fork(thread.id, cwd=it.path),
            lambda: bench.codex.threads.get(thread.id).run("Go."),
        ]
        for begin in refused:
            with pytest.raises(UntrustedGitPrograms, match=r"filter\.evil\.clean") as info:
                await begin()
            assert info.value.directory == str(it.path)
            assert info.value.programs == ((str(it.config), "filter.evil.clean", it.program),)
            assert "trust=True" in str(info.value)
        elsewhere = await bench.codex.threads.start(cwd=bench.home.workspace)
        with pytest.raises(UntrustedGitPrograms):
            await elsewhere.run("Go.", cwd=it.path)
        assert len(bench.model.requests) == 1
        assert not it.ran()


async def test_the_library_runs_where_the_program_trusts() -> None:
    async with CodexBench(SAYS_NO_MORE) as bench:
        it = evil(bench.home)
        thread = await bench.codex.threads.start(cwd=it.path, trust=True)
        await thread.run("Go.")
        wait_for(it.mark)
        fork = await thread.fork(cwd=it.path, trust=True)
        await fork.run("Go.")
        with pytest.raises(UntrustedGitPrograms):
            await thread.fork()


def test_7_1b_the_library_without_async() -> None:
    with ScriptedModel(SAYS_NO_MORE) as model, CodexHome(model.base_url) as home:
        it = evil(home)
        with Codex(LaunchOptions(env=home.env)) as codex:
            thread = codex.threads.start(cwd=it.path)
            with pytest.raises(UntrustedGitPrograms):
                thread.run("Go.")
        assert not it.ran()


@pytest.mark.parametrize("permissions", [None, allow_kinds("execute", "edit", "read")])
async def test_7_1b_a_fleets_task_in_such_a_directory_fails(
    tmp_path: Path, permissions: Any
) -> None:
    with ScriptedModel(SAYS_NO_MORE) as model, CodexHome(model.base_url) as home:
        it = evil(home)
        agent = AgentSpec.codex(env=home.env, inherit_env=False)
        more = {} if permissions is None else {"permissions": permissions}
        fleet = fleet_of(tmp_path / "out", **more)
        task = Task(id="a", prompt="Go.", agent=agent, cwd=str(it.path))
        (outcome,) = (await outcomes(fleet, task)).values()
        assert not outcome.ok
        assert "filter.evil.clean" in str(outcome)
        assert not it.ran()
        assert model.requests == ()


@pytest.mark.parametrize("version", [1, 2])
def test_7_1b_a_link_to_a_directory_is_asked_for_again_once_it_leads_elsewhere(
    version: int,
) -> None:
    with EitherVersion(version, SAYS_NO_MORE) as its:
        clean, it = planted(its.home, "clean"), evil(its.home)
        link = its.home.root / "link"
        link.symlink_to(clean.path)
        session = its.adapter.new_session(link)
        its.prompt(session, "Hello.")
        assert asked(its.adapter) == 0
        link.unlink()
        link.symlink_to(it.path)
        prompt = its.adapter.start_prompt(session)
        its.adapter.choose(question(its.adapter), "reject_once")
        assert "filter.evil.clean" in its.adapter.answer(prompt)["error"]["message"]
        assert not it.ran()
