"""``codex-acp-sdk chat``: prompts that are typed, commands, Ctrl-C, and going on with a session."""

from __future__ import annotations

import io
import re
import shlex
import signal
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codex_acp.acp.types import BooleanSessionConfigOption
from codex_acp.cli.chat import ChatCommands, _Chat
from codex_acp.cli.command_arguments import ChatOptions, chat_parser
from codex_acp.cli.screen import TextOutput
from codex_acp.errors import MisuseError
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Text
from tests.cli.command import COMMAND, WAIT_SECONDS, environment
from tests.cli.on_terminal import TOO_SMALL, OnTerminal, agent

READY = "Ctrl-D leaves"
CHOOSE = " to choose; Enter rejects: "


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Whose terminal is not asked where its cursor is, since nobody answers here."""
    return environment(
        tmp_path,
        TERM="xterm",
        NO_COLOR="1",
        XDG_STATE_HOME=str(tmp_path / "state"),
        PROMPT_TOOLKIT_NO_CPR="1",
    )


class Chat(OnTerminal):
    """What is typed before a line is read is not a key that was pressed there."""

    lines = 0

    def line(self, text: str) -> None:
        """Type a line at the next prompt."""
        self.lines += 1
        self.until("\x1b[?2004h", times=self.lines)
        self.type(text)


def chat(env: dict[str, str], *behaviours: str, more: tuple[str, ...] = ()) -> Chat:
    return Chat(env, *agent(*behaviours), *more, stdout_too=True, command="chat")


def test_prompts_are_answered_one_after_the_other_and_kept_for_the_user_alone(
    env: dict[str, str], tmp_path: Path
) -> None:
    with chat(env, "echoes", more=("first",)) as terminal:
        terminal.until("You said 'first'.")
        terminal.line("second\r")
        terminal.until("You said 'second'.")
        terminal.line("\x1b[A\x1b[D\x1b[Dx\r")  # the line before, changed
        terminal.until("You said 'secoxnd'.")
        terminal.line("\x04")
        terminal.until(f"Go on with it: codex-acp-sdk chat {shlex.join(agent('echoes'))} --resume=")
        terminal.rest()
        assert terminal.end()[0] == 0
    history = tmp_path / "state" / "codex-acp-sdk" / "history"
    assert "+second\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700


def test_without_a_home_what_is_typed_is_not_kept(env: dict[str, str]) -> None:
    with chat({**env, "XDG_STATE_HOME": "~nobody-of-this-name/state"}, "echoes") as terminal:
        terminal.until("what is typed is not kept")
        terminal.line("first\r")
        terminal.until("You said 'first'.")
        terminal.line("\x04")
        terminal.rest()
        assert terminal.end()[0] == 0


@pytest.mark.attack("agent")
@pytest.mark.parametrize("session_id", ["s", "--allow=all", "-h", "a b; rm $HOME"])
def test_the_hint_to_go_on_leads_to_the_same_session_with_the_same_options(
    tmp_path: Path, session_id: str
) -> None:
    folder = tmp_path / "u v"
    folder.mkdir()
    options = ChatOptions(codex="/a b/codex", trust=(str(tmp_path), str(folder)))
    talk: Any = SimpleNamespace(_options=options)
    for cwd in (str(folder), str(Path.cwd())):
        session: Any = SimpleNamespace(cwd=cwd, session_id=session_id)
        hint = chat_parser().parse_args(shlex.split(_Chat._resume_arguments(talk, session)))
        assert (hint.codex, (*hint.trust,), hint.resume, (*hint.allow,)) == (
            options.codex, options.trust, session_id, options.allow,
        )  # fmt: skip
        assert hint.cwd == (cwd if cwd == str(folder) else None)


def test_ctrl_c_cancels_what_runs_and_twice_at_the_prompt_leaves(env: dict[str, str]) -> None:
    with chat(env, "waits for cancel") as terminal:
        terminal.until(READY)
        for times in (1, 2):
            said = terminal.screen.count("Hello.")  # the live line shows it before the answer does
            terminal.line("Go.\r")
            terminal.until("Hello.", times=said + 1)
            terminal.process.send_signal(signal.SIGINT)
            terminal.until("the agent stopped: cancelled", times=times)
        terminal.line("\x03")
        terminal.until("Ctrl-C again leaves")
        terminal.line("\x03")
        terminal.rest()
        assert terminal.end()[0] == 0


def test_a_second_ctrl_c_ends_an_agent_that_does_not_listen(env: dict[str, str]) -> None:
    with chat(env, "ignores cancel", more=("Go.",)) as terminal:
        terminal.until("Hello.")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("Ctrl-C again ends the agent")
        terminal.process.send_signal(signal.SIGINT)
        terminal.rest()
        assert terminal.end()[0] == 130


def test_commands_are_completed_done_and_never_taken_for_prompts(env: dict[str, str]) -> None:
    with chat(env, "echoes", "has commands") as terminal:
        terminal.until(READY)
        terminal.line("/help\r")
        terminal.until("to bake")
        assert "to exit" not in terminal.screen.partition("of python:")[0]
        terminal.line("/bak")
        terminal.until("to bake", times=2)
        terminal.type("\t now\r")
        terminal.until("You said '/bake now'.")
        terminal.line("/bakke\r")
        terminal.until("there is no command /bakke; did you mean /bake?")
        terminal.line("/model\r")
        terminal.until("python has no model to set")
        terminal.line("/usr/bin is a path\r")
        terminal.until("You said '/usr/bin is a path'.")
        terminal.line("/exit\r")  # an agent that offers one of that name does not keep us
        terminal.rest()
        assert terminal.end()[0] == 0
    assert "You said '/bakke" not in terminal.screen


def test_a_list_is_broken_between_words_on_a_narrow_terminal(env: dict[str, str]) -> None:
    with chat(env, "has commands") as terminal:
        terminal.until(READY)  # which a narrow one breaks, depending on the name of the directory
        terminal.resize(50)
        terminal.line("/help\r")
        terminal.until("set\r\n" + " " * 23 + "one: /options NAME VALUE\r\n")
        terminal.line("/bak\r")
        terminal.until("error: there is no command /bak; did you mean\r\n/bake? A space")


def test_a_list_in_a_window_without_two_columns_is_one_below_the_other(env: dict[str, str]) -> None:
    with chat(env, "has commands") as terminal:
        terminal.until(READY)
        terminal.resize(20)
        terminal.line("/help\r")
        terminal.until("\r\n  /exit\r\n    leave; so does\r\n    Ctrl-D\r\n")


def test_a_line_can_be_typed_in_a_window_of_few_rows(env: dict[str, str]) -> None:
    with chat(env, "echoes") as terminal:
        terminal.until(READY)
        terminal.resize(40, 3)
        terminal.line("hello\r")
        terminal.until("You said 'hello'.")
        terminal.resize(40, 2)
        terminal.line("again\r")
        terminal.until("You said 'again'.")
    assert "too small" not in terminal.screen


def test_7_3_a_question_in_a_window_without_room_waits(env: dict[str, str]) -> None:
    with Chat(
        env, *agent("asks"), "Go.", stdout_too=True, command="chat", size=(11, 8)
    ) as terminal:
        terminal.until(TOO_SMALL)
        terminal.until("Too small:\r\na question\r\nneeds 30\r\ncolumns and\r\n8 rows.\r\n")
        terminal.resize(80)
        terminal.until(CHOOSE)
        terminal.choose(2)
        terminal.until('"optionId": "n"')


@pytest.mark.attack("agent")
def test_7_3_a_question_between_prompts_takes_nothing_that_is_being_typed(
    env: dict[str, str], tmp_path: Path
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    with chat(env | {"GATES": str(gates)}, "asks later", "echoes", more=("Go.",)) as terminal:
        terminal.line("zqx")
        terminal.until("zqx")
        (gates / "ask").touch()
        terminal.until(CHOOSE)
        terminal.type("1\n")
        terminal.until("That is none of the answers.")
        terminal.until(CHOOSE, times=2)
        terminal.choose(1)
        terminal.line("yqz\r")
        terminal.until("You said 'zqxyqz'.")
        assert '"optionId": "y"' in terminal.screen


def test_a_question_is_asked_as_run_asks_it(env: dict[str, str]) -> None:
    with chat(env, "asks", more=("Go.",)) as terminal:
        terminal.until(CHOOSE)
        terminal.choose(2)
        terminal.until('"optionId": "n"')
        terminal.line("")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.rest()
        assert terminal.end()[0] == 143


def test_an_agent_that_dies_is_told_and_started_again(env: dict[str, str]) -> None:
    with chat(env, "exits in a prompt") as terminal:
        terminal.until(READY)
        for times in (1, 2):
            terminal.line("Go.\r")
            terminal.until("exited with status 7", times=times)
        terminal.until("the next prompt tries to open this session again", times=2)
        assert "a new session, since python does not offer session/load" in terminal.screen
        assert "Traceback" not in terminal.screen
        terminal.line("\x04")
        terminal.rest()
        assert terminal.end()[0] == 0


@pytest.mark.parametrize("arguments", [[], ["--resume", "x", "--last"], ["--agent", "fox"]])
def test_without_a_terminal_or_with_arguments_that_make_no_sense_it_says_so(
    env: dict[str, str], arguments: list[str]
) -> None:
    done = subprocess.run(
        [*COMMAND, "chat", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=env,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error: " in done.stderr
    assert b"Traceback" not in done.stderr


class Options:
    """The options of a session, as far as the commands of a chat use them."""

    def __init__(self) -> None:
        self.all = [
            BooleanSessionConfigOption(id="trust", name="Trust", current_value=False),
        ]
        choices = [SimpleNamespace(value=value, name=value.title()) for value in ("low", "xhigh")]
        self.model = self.mode = self.thought_level = SimpleNamespace(choices=choices, set=None)

    def get(self, name: str) -> BooleanSessionConfigOption | None:
        return next((option for option in self.all if option.id == name), None)

    async def set(self, name: str, value: bool) -> None:
        self.all = [self.all[0].model_copy(update={"id": name, "current_value": value})]


def commands(shown: io.StringIO) -> ChatCommands:
    session: Any = SimpleNamespace(options=Options(), commands=(), agent="fox")
    return ChatCommands(TextOutput(io.StringIO(), shown), session)


async def test_an_option_is_shown_as_it_is_typed() -> None:
    for typed, said in (("/options", "off"), ("/options trust yes", "on")):
        assert await commands(shown := io.StringIO()).run_if_ours(typed)
        assert shown.getvalue() == f"  trust                {said}\n"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/options trust maybe", "trust is on or off, not 'maybe'"),
        ("/options trusty", "there is no option 'trusty'; /options lists them"),
        ("/options trusty on", "there is no option 'trusty'; /options lists them"),
        ("/effort high", "there is no 'high' to choose; did you mean 'xhigh'?"),
        ("/effort foo", "there is no 'foo' to choose; use one of low, xhigh"),
    ],
)
async def test_what_could_be_typed_instead_is_said(typed: str, said: str) -> None:
    with pytest.raises(MisuseError, match=re.escape(said)):
        await commands(io.StringIO()).run_if_ours(typed)


@pytest.mark.e2e
def test_a_session_of_codex_is_gone_on_with() -> None:
    said = ModelResponse(Text("I have heard it."), repeat=True)
    with ScriptedModel([said]) as model, CodexHome(model.base_url) as home:
        env = home.env | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"}
        where = ("--cwd", str(home.workspace))
        listed = subprocess.run(
            [*COMMAND, "chat", "--list", *where], env=env, capture_output=True, check=True
        )
        assert listed.stdout == b""
        assert listed.stderr == b"[there is no earlier session in this directory]\n"
        for more, text in (("one",), "two"), (("--last",), "three"):
            with Chat(env, *more, *where, command="chat", stdout_too=True) as terminal:
                terminal.until("I have heard it.")
                terminal.line(f"{text}\r")
                terminal.until("I have heard it.", times=2)
                terminal.line("/mod\t")
                terminal.until("show the model")
                terminal.type("\x03\x04")
                terminal.rest()
                assert terminal.end()[0] == 0
        assert "> two" in terminal.screen, "where it was left"
        assert [t for t in model.requests[-1].user_texts if len(t) < 9] == ["one", "two", "three"]
        listed = subprocess.run(
            [*COMMAND, "chat", "--list", *where], env=env, capture_output=True, check=True
        )
        assert listed.stdout.count(b"\n") == 1
        elsewhere = subprocess.run(
            [*COMMAND, "chat", "--list", "--cwd", "/"], env=env, capture_output=True, check=True
        )
        assert (elsewhere.stdout, b"there is no earlier session" in elsewhere.stderr) == (b"", True)
