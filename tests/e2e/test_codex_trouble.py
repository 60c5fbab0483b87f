"""A Codex that is missing, broken or dies: the client is told what to do, the adapter lives on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, Gate, ScriptedModel, Step, Text
from tests.e2e.raw_adapter import Message, RawAdapter
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
    codex = program(tmp_path / "codex", f"printf '{words}\\n' >&2; exit 3")
    with RawAdapter({**home.env, "CODEX_PATH": codex}) as adapter:
        message = why_no_session(adapter, home)
        again = adapter.ask("session/new", {"cwd": str(home.workspace), "mcpServers": []})

    assert "status 3" in message
    assert "error: the config is broken" in message
    assert again["error"]["message"] == message


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
        assert "status -9" in error["message"]

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


def _chunk(session: str, text: str, sent: Message) -> Message:
    return {
        "sessionId": session,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "messageId": sent["params"]["update"]["messageId"],
            "content": {"type": "text", "text": text},
        },
    }
