"""Forms in ``codex-acp-sdk chat`` of an agent that does not wait for the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, Gate, ModelResponse, ScriptedModel, Text, ToolCall
from tests.cli.command import environment
from tests.cli.on_terminal import OnTerminal, agent

AT_THE_LINE = "\x1b[?2004h"
NOT_NOW = "; Enter: not now: "
QUESTIONS = {"questions": [{"title": "Which color?", "options": ["Red", "Blue"]}]}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    state = str(tmp_path / "state")
    return environment(tmp_path, TERM="xterm", NO_COLOR="1", XDG_STATE_HOME=state)


def test_a_turn_that_says_much_beside_a_form_is_heard_to_its_end(
    env: dict[str, str], tmp_path: Path
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    command = agent("goes on beside a form")
    with OnTerminal(
        env | {"GATES": str(gates)}, *command, "Go.", command="chat", stdout_too=True
    ) as terminal:
        terminal.until(NOT_NOW)
        (gates / "say").touch()
        terminal.type("half an ans")
        terminal.until("half an ans")
        assert " 7" not in terminal.screen.partition("Hello.")[2], "beside the open question"
        (gates / "withdraw").touch()
        terminal.until("the question was withdrawn")
        terminal.until(" 2999")
        terminal.until(AT_THE_LINE)
        assert terminal.screen.index("was withdrawn") < terminal.screen.index(" 2999")
        terminal.type("anew\r")
        terminal.until(NOT_NOW, times=2)
        assert terminal.screen.count("half an ans") == 1, "it was no part of the next prompt"


@pytest.mark.e2e
def test_codex_reads_the_answer_while_its_turn_goes_on() -> None:
    asks = [
        ToolCall("request_user_input_async", QUESTIONS, "functions", call_id=name)
        for name in ("first", "second")
    ]
    script = [
        ModelResponse(*asks),
        ModelResponse(Text("Working."), Gate("left for the answer")),
        ModelResponse(Gate("answered"), Text("Thanks."), Gate("ended")),
    ]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, model="gpt-6-astra") as home,
    ):
        env = home.env | {"TERM": "xterm", "NO_COLOR": "1"}
        where = ("--cwd", str(home.workspace), "Go.")
        with OnTerminal(env, *where, command="chat", stdout_too=True) as terminal:
            terminal.until("(1 more question waits)")
            model.wait_for_gate("left for the answer")
            terminal.until(NOT_NOW)
            terminal.choose(1)
            terminal.until("a number: ")
            terminal.type("2\n")
            terminal.until("answer: ")
            terminal.type("a dark one\n")
            terminal.until("Question: Blue")
            terminal.until(NOT_NOW, times=2)
            terminal.choose(1)
            terminal.until(NOT_NOW, times=3)
            model.open("answered")
            model.open("ended")
            terminal.until("the question was withdrawn")
            terminal.until(AT_THE_LINE)
            shown = terminal.screen
            assert shown.index("was withdrawn") < shown.index("Thanks."), "beside the question"
            assert "Blue\\n\\na dark one" in model.requests[-1].last_user_text
            terminal.type("\x04")
            terminal.rest()
            assert terminal.end()[0] == 0
