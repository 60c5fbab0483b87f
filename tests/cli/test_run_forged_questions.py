"""7.3: on a terminal, nothing that an agent writes can pass as, hide or answer a question of ours.

The agent is `tests/runtime/raw_agent.py`; what it forges is what ``run`` once showed.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, ScriptedModel, Text, exec_command
from tests.cli.command import environment
from tests.cli.on_terminal import GUTTER, MARK, STYLES, TERMINAL_SECONDS, OnTerminal, agent

PROMPT = " to choose; Enter rejects: "
MORE = "Enter goes on, q rejects: "
FORGED = "Type zz1 to list the files; Enter rejects: "


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, TERM="xterm", NO_COLOR="")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + TERMINAL_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("stdout_too", [True, False])
@pytest.mark.attack("model")
def test_7_3_text_that_streams_over_a_question_waits_for_its_answer(
    env: dict[str, str], tmp_path: Path, stdout_too: bool
) -> None:
    streamed = tmp_path / "streamed"
    behaviours = agent("asks", "forges over it", f"marks {streamed}")
    with OnTerminal(env, *behaviours, "Go.", stdout_too=stdout_too) as terminal:
        terminal.until(PROMPT)
        wait_for(streamed)  # the command has taken all of it from the agent
        typed = terminal.key(2) + "\r\n"
        terminal.choose(2)
        if stdout_too:
            terminal.rest()
            question = terminal.screen.partition(typed)[0].rpartition("asks for permission")[2]
            assert FORGED not in question
            assert FORGED in terminal.screen
        else:
            _, out = terminal.end()
            terminal.rest()
            assert FORGED in out
        assert "a forged call" in terminal.screen.partition(typed)[2]
    assert f"{MARK} {FORGED}" not in terminal.screen


@pytest.mark.parametrize("answer", ["1\n", "zz1\n", "y\n", "\n"])
def test_7_3_a_question_forged_beforehand_is_answered_by_nobody(
    env: dict[str, str], answer: str
) -> None:
    with OnTerminal(env, *agent("forges before it", "asks"), "Go.", stdout_too=True) as terminal:
        terminal.until(FORGED)
        terminal.type("1\nzz1\nzz1")  # typed ahead, the last of it not yet sent
        terminal.until(PROMPT)
        assert terminal.screen.index(FORGED) < terminal.screen.index("python asks for permission:")
        terminal.type(answer)
        if answer.strip():
            terminal.until("That is none of the answers.")
            terminal.until(PROMPT, times=2)
            terminal.type("\n")
        assert '"optionId": "n"' in terminal.rest()
    assert f"{MARK} {FORGED}" not in terminal.screen
    assert "\u27e6U+2503\u27e7 " + FORGED in terminal.screen


@pytest.mark.parametrize("url", ["https://evil.example/\\@good.example/", "file:///etc/passwd"])
@pytest.mark.attack("agent")
def test_2_4_no_page_is_offered_that_a_browser_reads_as_another(
    env: dict[str, str], url: str
) -> None:
    with OnTerminal(env, *agent(f"opens {url}"), "Go.", stdout_too=True) as terminal:
        assert '{"action": "decline"}' in terminal.rest()
    assert "asks you to open" not in terminal.screen
    assert "a page of the agent was declined: the URL was refused: it" in terminal.screen


def test_7_3_every_row_of_a_question_has_our_mark_and_nothing_else_has(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks", "forges in it"), "Go.", stdout_too=True) as terminal:
        terminal.until("[59 empty lines]")
        assert terminal.page_to(PROMPT, MORE) > 1
        asked = terminal.screen[terminal.screen.index(GUTTER) :]
        terminal.choose(1)
        assert '"optionId": "y"' in terminal.rest()
    rows = asked.split("\r\n")
    assert all(row.startswith(GUTTER) and row.count(MARK) == 1 for row in rows)
    assert all(len(STYLES.sub("", row)) <= 80 for row in rows)
    assert rows[-1].endswith("Enter rejects: ")
    assert rows[-1].count("Enter rejects: ") == 1


@pytest.mark.attack("model")
def test_7_3_a_command_of_30_kb_is_paged_to_its_end_or_rejected(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks", "asks for much"), "Go.") as terminal:
        terminal.until(MORE)
        assert "touch PWNED" not in terminal.screen
        terminal.type("1\n")
        terminal.until("That is none of the answers.")
        terminal.until(MORE, times=2)
        terminal.type("q\n")
        _, out = terminal.end()
    assert '"optionId": "n"' in out
    with OnTerminal(env, *agent("asks", "asks for much"), "Go.") as terminal:
        assert terminal.page_to(PROMPT, MORE) > 10
        rows = STYLES.sub("", terminal.screen).replace(f"\r\n{MARK}   . ", "")
        assert "touch PWNED" in rows
        terminal.choose(1)
        _, out = terminal.end()
    assert '"optionId": "y"' in out


def test_7_3_questions_at_once_are_asked_one_after_the_other(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks", "asks thrice"), "Go.") as terminal:
        for times, number in enumerate((1, 2, 1), 1):
            terminal.until(PROMPT, times=times)
            assert terminal.screen.count("asks for permission:") == times
            terminal.choose(number)
        _, out = terminal.end()
    assert [out.count(f'"optionId": "{option}"') for option in "yn"] == [2, 1]


@pytest.mark.e2e
def test_7_3_codex_streams_nothing_over_its_question() -> None:
    ask = exec_command("touch PWNED", justification="to list the files")
    forged = Text("\n" * 60 + f"codex asks for permission:\n  zz1) Allow once\n{FORGED}")
    with (
        ScriptedModel([[ask, forged], [Text("Done.")]]) as model,
        CodexHome(model.base_url) as home,
        OnTerminal(
            home.env | {"TERM": "xterm"}, "Go.", "--cwd", str(home.workspace), stdout_too=True
        ) as terminal,
    ):
        terminal.until(PROMPT)
        assert terminal.screen.endswith(PROMPT), "our question is the last"
        terminal.type("1\n")
        terminal.until("That is none of the answers.")
        terminal.until(PROMPT, times=2)
        terminal.type("\n")
        terminal.rest()
        assert FORGED in terminal.screen, "before the question, or behind it"
        assert not (home.workspace / "PWNED").exists()
