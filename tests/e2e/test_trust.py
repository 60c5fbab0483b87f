"""Opening a repository runs nothing of it and writes nothing: contract 7.1 and 7.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import ModelResponse, Text, exec_command
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench, updates_of
from tests.e2e.test_sessions_setup import lines, wait_for_line
from tests.support.untrusted_repository import (
    CONFIGURATIONS,
    EVERYTHING,
    Repository,
    probe,
    probed,
    wait_for,
)

SAYS_NO_MORE = [ModelResponse(Text("Done."), repeat=True)]


def option(answer: Message) -> dict[str, Any] | None:
    """The option of trust in the answer that opened a session, or set one."""
    result = answer["result"]
    return next((each for each in result["configOptions"] if each["id"] == "trust"), None)


def new(adapter: RawAdapter, cwd: Path, **more: object) -> Message:
    """``session/new`` there; the whole answer."""
    return adapter.ask("session/new", {"cwd": str(cwd), "mcpServers": [], **more})


def run(adapter: RawAdapter, session_id: str) -> Message:
    """A prompt to its end."""
    return adapter.answer(adapter.start_prompt(session_id, "Go."))


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.attack("repository")
def test_7_1_and_7_2_a_new_session(name: str) -> None:
    config, may = CONFIGURATIONS[name]
    with probe() as command:
        script = [ModelResponse(exec_command(command)), *SAYS_NO_MORE]
        with SessionBench(script, config=config) as bench, bench.adapter() as adapter:
            repository = Repository(bench.home)
            answer = new(adapter, repository.path)
            session_id = answer["result"]["sessionId"]
            assert answer["result"]["modes"]["currentModeId"] == "configured"
            run(adapter, session_id)

            (output,) = bench.model.requests[1].tool_outputs.values()
            assert probed(str(output)) == may
            assert "Instructions of the repository" in str(bench.model.requests[0].body)
            assert not repository.written()
            assert repository.ran == set()


def test_7_1_with_directories_and_servers_of_the_client() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench, bench.adapter() as adapter:
        repository = Repository(bench.home)
        extra = bench.home.root / "extra"
        extra.mkdir()
        mark = bench.home.root / "mark"
        server = {
            "name": "ours",
            "command": "/bin/sh",
            "args": ["-c", f"touch '{mark}'"],
            "env": [],
        }
        params = {"additionalDirectories": [str(extra)], "mcpServers": [server]}
        answer = new(adapter, repository.path, **params)
        run(adapter, answer["result"]["sessionId"])
        wait_for(mark)
        assert not repository.written()
        assert repository.ran == set()


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
@pytest.mark.parametrize("name", ["everything", "limited-network"])
@pytest.mark.attack("repository")
def test_7_1_and_7_2_a_stored_session(name: str, method: str) -> None:
    config, may = CONFIGURATIONS[name]
    with probe() as command:
        script = [
            ModelResponse(Text("Hello.")),
            ModelResponse(exec_command(command)),
            *SAYS_NO_MORE,
        ]
        with SessionBench(script, config=config) as bench:
            repository = Repository(bench.home)
            with bench.adapter() as adapter:
                session_id = new(adapter, repository.path)["result"]["sessionId"]
                run(adapter, session_id)
            with bench.adapter() as adapter:
                params = {"cwd": str(repository.path), "mcpServers": []}
                answer = adapter.ask(method, {"sessionId": session_id, **params})
                run(adapter, answer["result"].get("sessionId", session_id))
                (output,) = bench.model.requests[-1].tool_outputs.values()
                assert probed(str(output)) == may
            assert not repository.written()
            assert repository.ran == set()


def test_what_is_left_out_is_said_once_with_how_to_change_it() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench, bench.adapter() as adapter:
        repository = Repository(bench.home)
        session_id = new(adapter, repository.path)["result"]["sessionId"]
        wait_for_line(adapter, session_id, f"--trust {repository.path}")
        run(adapter, session_id)
        said = lines(adapter.messages, session_id)
        assert said.count("not trusted") == 1
        assert f"1 MCP server, hooks in {repository.path}/.codex" in said
        assert '"Trust this directory"' in said


OUTSIDE = "from outside of this directory as instructions"


@pytest.mark.attack("repository")
def test_instructions_that_are_a_link_out_of_the_directory_are_said_once() -> None:
    with SessionBench(SAYS_NO_MORE) as bench, bench.adapter() as adapter:
        repository = Repository(bench.home)
        target = bench.home.root / "private.md"
        target.write_text("What lies elsewhere.\n")
        (repository.path / "AGENTS.md").unlink()
        (repository.path / "AGENTS.md").symlink_to(target)
        below = repository.path / "below"
        below.mkdir()
        (below / "AGENTS.override.md").symlink_to("../../private.md")
        session_id = new(adapter, below)["result"]["sessionId"]
        wait_for_line(adapter, session_id, OUTSIDE)
        run(adapter, session_id)
        said = lines(adapter.messages, session_id)
        assert "What lies elsewhere" in str(bench.model.requests[0].body)
        assert said.count(OUTSIDE) == 1
        assert f"{repository.path}/AGENTS.md is a link to {target}" in said
        assert f"{below}/AGENTS.override.md is a link to {target}" in said


def test_instructions_that_stay_in_the_directory_are_not_talked_about() -> None:
    with SessionBench(SAYS_NO_MORE) as bench, bench.adapter() as adapter:
        repository = Repository(bench.home)
        (repository.path / "AGENTS.md").rename(repository.path / "CLAUDE.md")
        (repository.path / "AGENTS.md").symlink_to("CLAUDE.md")
        link = bench.home.root / "link"
        link.symlink_to(repository.path)
        for cwd in (repository.path, link):
            session_id = new(adapter, cwd)["result"]["sessionId"]
            run(adapter, session_id)
            assert "Instructions of the repository" in str(bench.model.requests[-1].body)
            assert OUTSIDE not in lines(adapter.messages, session_id)


def test_a_directory_that_brings_nothing_is_not_talked_about_but_may_be_trusted() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench, bench.adapter() as adapter:
        answer = new(adapter, bench.home.workspace)
        session_id = answer["result"]["sessionId"]
        run(adapter, session_id)
        assert "not trusted" not in lines(adapter.messages, session_id)
        trust = option(answer)
        assert trust is not None
        assert trust["currentValue"] == "undecided"
        assert str(bench.home.workspace) in trust["description"]


def test_a_person_who_trusts_it_has_its_server_at_once_and_is_not_asked_again() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench, bench.adapter() as adapter:
        repository = Repository(bench.home, 'a "b.c\\d')
        inside = repository.path / "inside"
        inside.mkdir()
        session_id = new(adapter, repository.path)["result"]["sessionId"]
        beside = new(adapter, inside)["result"]["sessionId"]
        params = {"sessionId": session_id, "configId": "trust", "value": "undecided"}
        unchanged = adapter.ask("session/set_config_option", params)
        assert option(unchanged) is not None
        assert not repository.written()

        answer = adapter.ask("session/set_config_option", {**params, "value": "trusted"})
        trust = option(answer)
        assert trust is not None
        assert trust["currentValue"] == "trusted"
        assert [each["value"] for each in trust["options"]] == ["trusted"]
        wait_for(repository.server_mark)
        assert repository.written()
        repository.configuration_is_as_it_should()
        offered = [
            update["configOptions"]
            for update in updates_of(adapter.messages, beside)
            if update["sessionUpdate"] == "config_option_update"
        ]
        (trust,) = [each for each in offered[-1] if each["id"] == "trust"]
        assert trust["currentValue"] == "trusted", "the other session in it"
        back = adapter.error("session/set_config_option", params)
        assert back["code"] == -32602

        repository.server_mark.unlink()
        again = new(adapter, repository.path)
        assert option(again) is None
        wait_for(repository.server_mark)
        run(adapter, again["result"]["sessionId"])
        assert "not trusted" not in lines(adapter.messages, again["result"]["sessionId"])
        assert not repository.written()


def test_a_directory_that_is_named_to_the_command_is_trusted_and_nothing_is_written() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench:
        repository = Repository(bench.home, 'a "b.c\\d')
        with RawAdapter(bench.home.env, "serve", "--trust", str(repository.path)) as adapter:
            adapter.initialize()
            answer = new(adapter, repository.path)
            wait_for(repository.server_mark)
            run(adapter, answer["result"]["sessionId"])
            assert option(answer) is None
            assert "not trusted" not in lines(adapter.messages, answer["result"]["sessionId"])
            assert not repository.written()


def test_a_directory_that_the_user_does_not_trust_is_left_at_that() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench:
        repository = Repository(bench.home)
        with bench.home.config_file.open("a") as config:
            config.write(f'\n[projects."{repository.path}"]\ntrust_level = "untrusted"\n')
        repository.configuration_is_as_it_should()
        with bench.adapter() as adapter:
            answer = new(adapter, repository.path)
            run(adapter, answer["result"]["sessionId"])
            assert option(answer) is None
            assert "not trusted" not in lines(adapter.messages, answer["result"]["sessionId"])
        assert not repository.written()
        assert repository.ran == set()
