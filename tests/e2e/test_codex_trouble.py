"""A Codex that is missing, broken or dies: the client is told what to do, the adapter lives on."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_acp.codex import CodexClient, LaunchOptions
from codex_acp.testing import CodexHome, Gate, ScriptedModel, Step, Text
from tests.cli.command import run
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.support.processes import kill_without_a_last_read
from tests.testing.codex_driver import codex_binary


@pytest.fixture
def home() -> Iterator[CodexHome]:
    with CodexHome() as home:
        yield home


def why_no_session(adapter: RawAdapter, home: CodexHome) -> str:
    """The message of the error that session/new gives, after an initialize that works."""
    adapter.initialize()
    answer = adapter.ask("session/new", {"cwd": str(home.workspace), "mcpServers": []})
    assert answer["error"]["code"] == -32603
    message: str = answer["error"]["message"]
    return message


def program(path: Path, text: str) -> str:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_missing_codex_is_told_by_session_new_with_how_to_get_one(
    home: CodexHome, tmp_path: Path
) -> None:
    missing = str(tmp_path / "nowhere" / "codex")
    with RawAdapter({**home.env, "CODEX_PATH": missing}) as adapter:
        message = why_no_session(adapter, home)

    assert missing in message
    assert "pip install" in message


def test_a_codex_that_appears_later_is_used(home: CodexHome, tmp_path: Path) -> None:
    later = tmp_path / "codex"
    with RawAdapter({**home.env, "CODEX_PATH": str(later)}) as adapter:
        why_no_session(adapter, home)
        later.symlink_to(codex_binary())

        assert adapter.new_session(home.workspace)


def test_a_codex_that_is_not_executable_is_told_with_the_cure(
    home: CodexHome, tmp_path: Path
) -> None:
    file = tmp_path / "codex"
    file.write_text("not a program")
    with RawAdapter({**home.env, "CODEX_PATH": str(file)}) as adapter:
        message = why_no_session(adapter, home)

    assert str(file) in message
    assert "chmod +x" in message


def test_a_codex_of_another_system_is_told(home: CodexHome, tmp_path: Path) -> None:
    file = tmp_path / "codex"
    file.write_bytes(b"\x7fELF but not really")
    file.chmod(0o755)
    with RawAdapter({**home.env, "CODEX_PATH": str(file)}) as adapter:
        message = why_no_session(adapter, home)

    assert str(file) in message
    assert "cannot be run" in message


def test_a_codex_that_dies_at_its_start_is_told_with_the_tail_of_its_stderr(
    home: CodexHome, tmp_path: Path
) -> None:
    words = r"\033[31merror:\033[0m \033]0;x\007the config is broken"
    starts = tmp_path / "starts"
    said = f'test "$1" = app-server && echo start >> {starts}\n'
    said += f"printf '{words}\\n' >&2; exit 3"
    codex = program(tmp_path / "codex", said)
    with RawAdapter({**home.env, "CODEX_PATH": codex}) as adapter:
        message = why_no_session(adapter, home)
        again = adapter.ask("session/new", {"cwd": str(home.workspace), "mcpServers": []})

    assert "status 3" in message
    assert message.count("error: the config is broken") == 1
    assert again["error"]["message"] == message
    assert starts.read_text().split() == ["start"] * 4, "each once more"


def test_a_real_codex_with_a_broken_config_is_told(home: CodexHome) -> None:
    home.config_file.write_text("model = [broken")
    with RawAdapter(home.env) as adapter:
        message = why_no_session(adapter, home)

    assert "config.toml" in message


def test_a_codex_that_dies_in_mid_turn_ends_the_prompt_and_the_adapter_lives_on() -> None:
    script: list[list[Step]] = [
        [Text("Begin. "), Gate("never"), Text("Not heard.")],
        [Text("Heard.")],
    ]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url) as home,
        RawAdapter(home.env) as adapter,
    ):
        adapter.initialize()
        lost = adapter.new_session(home.workspace)
        prompt = adapter.start_prompt(lost)
        adapter.wait_for(lambda m: "Begin. " in str(m))
        os.kill(adapter.codex(), signal.SIGKILL)
        error = adapter.answer(prompt)["error"]

        assert error["code"] == -32603
        assert "was killed (SIGKILL), as the system does when memory" in error["message"]
        assert "the next prompt starts it again" in error["message"]

        fresh = adapter.new_session(home.workspace)
        result = adapter.answer(adapter.start_prompt(fresh))["result"]
        assert result["stopReason"] == "end_turn"
        assert adapter.messages[-2]["params"] == _chunk(fresh, "Heard.", adapter.messages[-2])


def test_a_codex_that_writes_no_protocol_is_told(home: CodexHome, tmp_path: Path) -> None:
    said = f"exec {sys.executable} -c 'print(\"Hello, I am a shell.\")'"
    with RawAdapter({**home.env, "CODEX_PATH": program(tmp_path / "codex", said)}) as adapter:
        assert "is not a Codex" in why_no_session(adapter, home)


def test_a_codex_that_is_too_old_to_start_is_told_as_that(home: CodexHome, tmp_path: Path) -> None:
    old = 'test "$1" = --version && { echo codex-cli 0.80.0; exit 0; }; echo no config >&2; exit 1'
    with RawAdapter({**home.env, "CODEX_PATH": program(tmp_path / "codex", old)}) as adapter:
        assert why_no_session(adapter, home).startswith("Codex 0.80.0 is too old: ")


def test_a_codex_that_cannot_start_is_told_with_the_next_step(
    home: CodexHome, tmp_path: Path
) -> None:
    said = (
        'test "$1" = --version && { echo codex-cli 0.163.0; exit 0; }; '
        'printf "Error: no room for sqlite\\n\\nStack backtrace:\\n   0: <unknown>\\n" >&2; exit 1'
    )
    with RawAdapter({**home.env, "CODEX_PATH": program(tmp_path / "codex", said)}) as adapter:
        why = why_no_session(adapter, home)
    assert "`codex-acp-sdk doctor` in a terminal looks for the reason" in why
    assert why.endswith("Error: no room for sqlite")


def every_other_start_fails(folder: Path) -> str:
    """The real Codex, whose first start, third start, … ends as one in a new CODEX_HOME may."""
    failed, starts = folder / "failed", folder / "starts"
    return program(
        folder / "codex",
        f'test "$1" = --version && exec {codex_binary()} --version\n'
        f"echo start >> {starts}\n"
        f'if rm {failed} 2>/dev/null; then exec {codex_binary()} "$@"; fi\n'
        f": > {failed}\n"
        "echo Error: failed to initialize sqlite state runtime >&2; exit 1",
    )


def test_a_codex_that_ends_at_once_is_started_once_more_and_that_is_one_start(
    tmp_path: Path,
) -> None:
    codex = every_other_start_fails(tmp_path)
    with (
        ScriptedModel([[Text("Hello.")]] * 3) as model,
        CodexHome(model.base_url) as home,
        RawAdapter({**home.env, "CODEX_PATH": codex}) as adapter,
    ):
        adapter.initialize()
        session = adapter.new_session(home.workspace)
        for number in range(3):  # starts: the most in a minute
            if number:
                kill_without_a_last_read(adapter.codex())
            answer = adapter.answer(adapter.start_prompt(session))
            assert answer.get("result", {}).get("stopReason") == "end_turn", answer
    assert len((tmp_path / "starts").read_text().split()) == 6


async def test_a_client_for_programs_starts_a_codex_that_ends_at_once_once_more(
    home: CodexHome, tmp_path: Path
) -> None:
    options = LaunchOptions(every_other_start_fails(tmp_path), env=home.env)
    async with CodexClient.start(options) as codex:
        thread = await codex.threads.start(cwd=str(home.workspace))
        assert thread.id


def test_the_doctor_starts_a_codex_that_ends_at_once_once_more(
    home: CodexHome, tmp_path: Path
) -> None:
    codex = every_other_start_fails(tmp_path)
    done = run(["doctor", "--json"], {**home.env, "CODEX_PATH": codex})
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["start"]["level"] == "ok", checks


def test_two_adapters_that_start_at_once_in_a_new_codex_home_both_have_a_codex() -> None:
    for _ in range(3):
        with CodexHome() as home:
            for database in home.codex_home.glob("*.sqlite*"):
                database.unlink()
            with RawAdapter(home.env) as one, RawAdapter(home.env) as other:
                asked = []
                for adapter in (one, other):
                    adapter.initialize()
                    new = {"cwd": str(home.workspace), "mcpServers": []}
                    asked.append(adapter.start("session/new", new))
                for adapter, request in zip((one, other), asked, strict=True):
                    answer = adapter.answer(request)
                    assert "result" in answer, answer


async def test_two_clients_that_start_at_once_in_a_new_codex_home_both_have_a_codex() -> None:
    for _ in range(3):
        with CodexHome() as home:
            for database in home.codex_home.glob("*.sqlite*"):
                database.unlink()
            options = LaunchOptions(env=home.env)
            one, other = CodexClient.start(options), CodexClient.start(options)
            async with one, other:
                assert one.server.user_agent == other.server.user_agent


def _chunk(session: str, text: str, sent: Message) -> Message:
    return {
        "sessionId": session,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "messageId": sent["params"]["update"]["messageId"],
            "content": {"type": "text", "text": text},
        },
    }
