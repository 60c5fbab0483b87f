"""``codex-acp-sdk run``: what it prints, what it asks on a terminal, and its exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import IO, Any, get_args

import pytest

from codex_acp.acp.types import StopReason, ToolKind
from codex_acp.cli import host as run_module
from codex_acp.cli.command_arguments import EXIT_CODES, EXIT_NOBODY_ASKED, KINDS
from codex_acp.cli.main import main
from codex_acp.cli.screen import TextOutput, write_rest
from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.cli.command import COMMAND, WAIT_SECONDS, environment
from tests.cli.on_terminal import GUTTER, STYLES, TERMINAL_SECONDS, OnTerminal, agent
from tests.support.processes import lives


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, TERM="xterm", NO_COLOR="")


@dataclass
class Done:
    """What a run in this process came to."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, without a terminal: the models need not load each time."""
    monkeypatch.setattr(run_module, "start_logging", lambda *_: None)

    def start(arguments: list[str], given: str = "") -> Done:
        given_bytes = io.BytesIO(given.encode(errors="surrogateescape"))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given_bytes))
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return start


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_the_text_goes_to_stdout_and_nothing_else_does(run: Run) -> None:
    done = run(["run", *agent(), "Go."])
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")


def test_a_dash_reads_the_prompt_from_stdin(run: Run) -> None:
    assert run(["run", *agent(), "-"], "Go.\n").stdout == "Hello.\n"
    empty = run(["run", *agent(), "-"])
    assert empty.returncode == 2
    assert "the prompt is empty" in empty.stderr


def test_what_an_agent_adds_to_its_error_is_shown(run: Run) -> None:
    said = run(["run", *agent("refuses"), "Go."]).stderr
    assert said == f"error: {Path(sys.executable).name}: not today: a holiday\n"


@pytest.mark.e2e
def test_codex_is_the_agent_where_none_is_named() -> None:
    with ScriptedModel([[Text("Nothing at all.")]]) as model, CodexHome(model.base_url) as home:
        done = subprocess.run(
            [*COMMAND, "run", "What is here?"],
            cwd=home.workspace,
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=90,
            check=False,
        )
        assert model.requests[0].last_user_text == "What is here?"
    assert (done.returncode, done.stdout) == (0, b"Nothing at all.\n"), done.stderr


def test_what_could_steer_a_terminal_is_shown_and_not_obeyed(run: Run) -> None:
    done = run(["run", *agent("shows odd text"), "Go."])
    shown = done.stdout
    assert shown == "Hello.⟦U+001B⟧]0;owned⟦U+0007⟧ café ⟦U+202E⟧\n"


def test_without_a_terminal_permissions_are_rejected_and_forms_not_offered(run: Run) -> None:
    done = run(["run", *agent("asks"), "Go."])
    assert done.returncode == EXIT_NOBODY_ASKED
    assert run(["run", *agent("asks"), "--json", "Go."]).returncode == EXIT_NOBODY_ASKED
    assert '{"outcome": {"optionId": "n", "outcome": "selected"}}' in done.stdout
    assert "permission for rm -rf build⟦U+001B⟧[2K: rejected" in done.stderr
    assert " null\n" in run(["run", *agent("has a form"), "Go."]).stdout


@pytest.mark.parametrize(
    ("allow", "option"), [("execute", "y"), ("read,execute", "y"), ("all", "y"), ("read", "n")]
)
def test_kinds_that_are_allowed_are_permitted_unasked(run: Run, allow: str, option: str) -> None:
    done = run(["run", *agent("asks"), "--allow", allow, "--json", "Go."])
    asked = [line for line in lines_of(done.stdout) if line["type"] == "permission"]
    assert [line["optionId"] for line in asked] == [option if option == "y" else None]
    assert done.returncode == (0 if option == "y" else EXIT_NOBODY_ASKED)
    assert asked[0]["request"]["toolCall"]["kind"] == "execute"
    by = ("policy", "--allow execute") if option == "y" else ("nobody", None)
    assert (asked[0]["by"], asked[0]["policy"]) == by
    assert f'"optionId": "{option}"' in lines_of(done.stdout)[-1]["text"]


def test_json_is_one_object_a_line_in_plain_ascii(run: Run) -> None:
    done = run(["run", *agent("shows odd text"), "--json", "Go."])
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    lines = lines_of(done.stdout)
    assert [line["type"] for line in lines] == ["session", "update", "update", "result"]
    assert lines[0]["opened"] == "new"
    assert lines[1]["update"]["content"] == {"type": "text", "text": "Hello."}
    assert lines[3]["stopReason"] == "end_turn"
    assert lines[3]["text"] == "Hello.\x1b]0;owned\x07 café \u202e"


@pytest.mark.parametrize(("reason", "code"), list(EXIT_CODES.items()))
def test_each_stop_reason_has_its_exit_code(run: Run, reason: str, code: int) -> None:
    done = run(["run", *agent(f"stops with {reason}"), "Go."])
    assert done.returncode == code
    assert (reason in done.stderr) == (reason != "end_turn")


def test_no_stop_reason_and_no_kind_is_forgotten() -> None:
    assert set(EXIT_CODES) == set(get_args(StopReason))
    assert set(KINDS) == set(get_args(ToolKind))
    assert len(set(EXIT_CODES.values()) | {1, 2, EXIT_NOBODY_ASKED}) == len(EXIT_CODES) + 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (agent("exits in a prompt"), "exited with status 7"),
        (agent("exits at once"), "no licence"),
        (agent("refuses"), "not today"),
        (["--command", "no-such-agent-here"], "could not be started: there is no such command;"),
        ([*agent(), "--model", "big"], "does not offer --model"),
    ],
)
def test_an_agent_that_fails_is_exit_code_1_and_the_reason(
    run: Run, arguments: list[str], said: str
) -> None:
    done = run(["run", *arguments, "Go."])
    assert done.returncode == 1
    assert said in done.stderr
    done = run(["run", *arguments, "--json", "Go."])
    assert done.returncode == 1
    error = lines_of(done.stdout)[-1]["error"]
    assert said in error["message"]
    assert ("exitCode" in error) == ("exits" in arguments[1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: prompt"),
        (["--agent", "gemini", "Go."], "known are claude, codex, any other has --command"),
        (["--command", " ", "Go."], "the agent's command is empty"),
        (["--connect", "localhost:1", "Go."], "without a scheme it is no address of an agent: ws:"),
        (["--agent", "codex", "--command", "x", "Go."], "not allowed with"),
        (["--command", "x 'y", "Go."], "cannot be split"),
        (["--allow", "reading", "Go."], "'reading' is no kind"),
        (["--cwd", "/no/such/place", "Go."], "is no directory"),
        (["  "], "the prompt is empty"),
        (["h\udce9llo"], "argument prompt: it is not UTF-8"),
        (["--nonsense", "Go."], "unrecognized arguments"),
    ],
)
def test_arguments_that_make_no_sense_are_exit_code_2(
    run: Run, arguments: list[str], said: str
) -> None:
    done = run(["run", *arguments])
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_prompt_of_another_encoding_is_refused(run: Run) -> None:
    done = run(["run", "-"], "h\udce9llo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "codex-acp-sdk run: error: the prompt is not UTF-8\n"


def test_the_help_has_the_exit_codes_and_the_lines_of_json(run: Run) -> None:
    done = run(["run", "--help"])
    assert done.returncode == 0
    for word in (
        "--allow",
        "130 cancelled",
        "3 refusal",
        "nobody could be asked",
        "stopReason",
        "Ctrl-C",
    ):
        assert word in done.stdout
    assert re.search(r"^  run +send one prompt", run(["--help"]).stdout, re.MULTILINE)


def test_a_permission_is_asked_in_full_and_what_was_typed_before_does_not_answer_it(
    env: dict[str, str],
) -> None:
    with OnTerminal(env, *agent("asks", "has a name"), "Go.") as terminal:
        terminal.type("2\n2\n2\n")
        terminal.until("Enter rejects: ")
        screen = STYLES.sub("", terminal.screen)
        for shown in (
            "Raw⟦U+001B⟧[2J Agent asks for permission: run a command",
            "  $ rm\r\n",
            "rm -rf build⟦U+001B⟧[2K",
            "change of /w/a:",
            "| -old",
            "| +new",
            "1) Yes (allow once)",
            "2) No (reject)",
        ):
            assert shown in screen
        assert '"cmd"' not in screen, "that is for --verbose"
        terminal.choose(1)
        code, out = terminal.end()
    assert code == 0
    assert '"optionId": "y"' in out


def test_a_form_is_filled_in_on_the_terminal(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("has a form"), "Go.") as terminal:
        terminal.until("not now: ")
        assert "| Who are you?" in terminal.screen
        terminal.choose(1)
        terminal.until(f"{GUTTER}  answer: ")
        terminal.type("Ann\n")
        terminal.until(f"2) blue\r\n{GUTTER}  a number: ")
        terminal.type("2\n")
        terminal.until(f"{GUTTER}  y or n: ")
        terminal.type("n\n")
        terminal.until(f"{GUTTER}  answer: ", times=2)
        terminal.type("\n")
        terminal.until("1 to choose; Enter: not now: ")
        assert "Your name: Ann" in terminal.screen
        terminal.choose(1)
        _, out = terminal.end()
    content = {"colour": "blue", "name": "Ann", "sure": False}
    assert json.dumps({"action": "accept", "content": content}, sort_keys=True) in out


def test_ctrl_c_cancels_the_prompt(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("waits for cancel"), "Go.") as terminal:
        assert terminal.process.stdout is not None
        assert terminal.process.stdout.read(6) == b"Hello."
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("the agent stopped: cancelled")
        assert terminal.end()[0] == 130


def test_ctrl_c_that_also_ends_the_reader_of_the_text_shows_no_traceback(
    env: dict[str, str],
) -> None:
    with OnTerminal(env, *agent("waits for cancel"), "Go.") as terminal:
        assert terminal.process.stdout is not None
        assert terminal.process.stdout.read(6) == b"Hello."
        terminal.process.stdout.close()
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("the agent stopped: cancelled")
        assert terminal.process.wait(TERMINAL_SECONDS) == 130
        assert "Traceback" not in terminal.screen


def test_ctrl_c_settles_an_open_question(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks"), "Go.") as terminal:
        terminal.until("Enter rejects: ")
        terminal.process.send_signal(signal.SIGINT)
        code, out = terminal.end()
    assert '{"outcome": {"outcome": "cancelled"}}' in out
    assert code == 0, "this agent goes on to its end"


def _word(stream: IO[bytes], number: int) -> bytes:
    """The word of this number, each of which is followed by a space."""
    word = b""
    for _ in range(number):
        word = b""
        while not word.endswith(b" "):
            word += stream.read(1)
    return word


@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143), ((signal.SIGHUP,), 129)],
)
def test_a_second_ctrl_c_and_other_signals_end_the_agent_at_once(
    env: dict[str, str], signals: tuple[signal.Signals, ...], code: int
) -> None:
    with OnTerminal(env, *agent("ignores cancel", "starts others"), "Go.") as terminal:
        assert terminal.process.stdout is not None
        pid = int(_word(terminal.process.stdout, 2))
        terminal.process.send_signal(signals[0])
        for number in signals[1:]:
            terminal.until("Ctrl-C again")
            terminal.process.send_signal(number)
        assert terminal.end()[0] == code
    assert not lives(pid)


@pytest.mark.attack("agent")
@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143), ((signal.SIGHUP,), 129)],
)
def test_signals_end_a_run_whose_stdout_nobody_reads(
    env: dict[str, str], more: tuple[str, ...], signals: tuple[signal.Signals, ...], code: int
) -> None:
    agent_code = f"""
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {{"initialize": {{"protocolVersion": 1, "agentCapabilities": {{}}}},
               "session/new": {{"sessionId": "s"}}}}
    if asked["method"] in results:
        answer = {{"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}}
        print(json.dumps(answer), flush=True)
    if asked["method"] == "session/prompt":
        text = {{"type": "text", "text": "x" * {2**20}}}
        update = {{"sessionUpdate": "agent_message_chunk", "content": text}}
        said = {{"method": "session/update", "params": {{"sessionId": "s", "update": update}}}}
        print(json.dumps({{"jsonrpc": "2.0", **said}}), flush=True)
"""
    words = shlex.join([sys.executable, "-c", agent_code])
    with subprocess.Popen(
        [*COMMAND, "run", *more, "--command", words, "Go."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
    ) as process:
        assert process.stdout is not None
        read = b""
        while b"xx" not in read:
            read += process.stdout.read(100)
        for number in signals:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        assert process.wait(WAIT_SECONDS) == code


@pytest.mark.attack("agent")
async def test_what_a_full_pipe_does_not_take_is_written_later_in_its_order() -> None:
    read_end, write_end = os.pipe()
    with open(write_end, "w", encoding="utf-8") as out, open(write_end, "w", closefd=False) as err:  # noqa: ASYNC230, PTH123 - pipes
        screen = TextOutput(out, err)
        for number in range(300):
            screen.print(out if number % 2 else err, f"{number} {'ü' * 1000}")
        waiting = asyncio.ensure_future(screen.until_room())
        read = bytearray()
        while not waiting.done() or select([read_end], [], [], 0)[0]:
            if select([read_end], [], [], 0)[0]:
                read += os.read(read_end, 2**16)
            await asyncio.sleep(0)
        await waiting
    os.close(read_end)
    assert read.decode() == "".join(f"{number} {'ü' * 1000}\n" for number in range(300))


@pytest.mark.attack("agent")
async def test_a_log_without_end_is_not_kept_for_a_stderr_that_nobody_reads() -> None:
    read_end, write_end = os.pipe()
    with open(write_end, "w", encoding="utf-8") as err:  # noqa: ASYNC230, PTH123 - a pipe
        screen = TextOutput(err, err)
        for number in range(20_000):
            screen.write_log(f"WARNING the agent answered id {number}, which is not open\n")
        read = os.read(read_end, 2**16)
        while not write_rest():
            read += os.read(read_end, 2**16)
        screen.write_log("WARNING again\n")
        read += os.read(read_end, 2**16)
    os.close(read_end)
    kept = read.count(b"which is not open")
    assert kept < 3_000
    assert read.endswith(b"[%d records of the log are left out]\nWARNING again\n" % (20_000 - kept))
