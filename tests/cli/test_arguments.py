"""What may be written behind the command's name, and what it starts."""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import codex_acp.cli.demo as demo_module
import codex_acp.cli.serve as serve_module
from codex_acp.cli.arguments import subcommands
from codex_acp.cli.command_arguments import remote_token
from codex_acp.cli.commands import COMMANDS, run
from codex_acp.cli.main import main
from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex.connection.launch import LaunchOptions
from tests.cli.command import environment
from tests.cli.command import run as run_process
from tests.cli.on_terminal import OnTerminal

DEFAULTS: dict[str, object] = {
    "line_limit": None,
    "log_level": None,
    "log_file": None,
    "transcript": None,
    "transcript_wire": False,
    "record": None,
    "network": None,
    "protocol": "auto",
}
PLAIN = LaunchOptions()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What would have been started; its exit code is 7."""
    calls: list[object] = []

    def serve(options: LaunchOptions, **more: Any) -> int:
        calls.append((options, {**DEFAULTS, **more}))
        return 7

    def demo(options: Namespace) -> int:
        calls.append(vars(options))
        return 7

    monkeypatch.setattr(serve_module, "serve", serve)
    monkeypatch.setattr(demo_module, "demo", demo)
    return calls


@pytest.mark.parametrize("word", [[], ["serve"]], ids=["alone", "serve"])
@pytest.mark.parametrize(
    ("options", "launch", "more"),
    [
        ([], PLAIN, {}),
        (["--codex", "/c"], LaunchOptions("/c"), {}),
        (["--codex=/c"], LaunchOptions("/c"), {}),
        (["-c", "a=1", "-c", "b.c="], LaunchOptions(args=("-c", "a=1", "-c", "b.c=")), {}),
        (["--config", 'x="y=z"'], LaunchOptions(args=("-c", 'x="y=z"')), {}),
        (["--line-limit", "1000"], PLAIN, {"line_limit": 1000}),
        (["--log-file", "f.log"], PLAIN, {"log_file": "f.log"}),
        (["--record", "r.jsonl"], PLAIN, {"record": "r.jsonl"}),
        (["--transcript", "t.jsonl"], PLAIN, {"transcript": "t.jsonl"}),
        (
            ["--transcript", "t", "--transcript-wire"],
            PLAIN,
            {"transcript": "t", "transcript_wire": True},
        ),
        (["--log-level", "debug"], PLAIN, {"log_level": "DEBUG"}),
        (["--protocol", "v1"], PLAIN, {"protocol": "v1"}),
    ],
)
def test_options_of_the_agent(
    started: list[object],
    word: list[str],
    options: list[str],
    launch: LaunchOptions,
    more: dict[str, object],
) -> None:
    assert main([*word, *options]) == 7
    assert started == [(launch, {**DEFAULTS, **more})]


def test_the_word_may_follow_the_options(started: list[object]) -> None:
    assert run(["--codex", "/c", "serve"]) == 7
    assert started == [(LaunchOptions("/c"), DEFAULTS)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (["--yes", "--ask"], {"yes": True, "ask": True}),
        (["-y", "--wire", "--codex", "c"], {"codex": "c", "yes": True, "wire": True}),
    ],
)
def test_options_of_the_demonstration(
    started: list[object], options: list[str], expected: dict[str, object]
) -> None:
    assert main(["demo", *options]) == 7
    defaults = {"codex": None, "yes": False, "wire": False, "ask": False, "agent": False}
    assert started == [{**defaults, **expected}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sreve"], "there is no command 'sreve'; did you mean 'serve'?"),
        (["ruN", "hello"], "there is no command 'ruN'; did you mean 'run'?"),
        (["xyzzy", "--yes"], "there is no command 'xyzzy'; use serve, demo, run, chat"),
        (["help", "fleet", "rum"], "fleet has no command 'rum'"),
        (["--codecs", "x"], "unrecognized arguments: --codecs"),
        (["--log", "x"], "unrecognized arguments: --log"),
        (["--codex"], "--codex: expected one argument"),
        (["--codex", ""], "--codex: the path is empty"),
        (["-c", "model"], "'model' is not of the form KEY=VALUE"),
        (["-c", "=x"], "'=x' is not of the form KEY=VALUE"),
        (["--transcript-wire"], "name one with --transcript FILE"),
        (["--line-limit", "0"], "'0' is not a positive whole number of bytes"),
        (["play", "x", "--session", "0"], "'0' is not a positive whole number\n"),
        (["--line-limit", "64M"], "'64M' is not a positive whole number of bytes"),
        (["--log-level", "loud"], "'loud' is not a log level; use one of DEBUG, INFO, WARNING"),
        (["serve", "more"], "unrecognized arguments: more"),
        (["--codex", "c", "demo"], "write them behind it: demo [options]"),
        (["demo", "--log-level", "INFO"], "unrecognized arguments: --log-level INFO\n"),
        (["run", "Say", "hello"], "arguments: hello; put a prompt of several words in quotes\n"),
        (["run", "Say", "--hello"], "unrecognized arguments: --hello\n"),
    ],
)
def test_bad_arguments_start_nothing_and_are_explained(
    started: list[object], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert started == []
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "--help" in err


@pytest.mark.parametrize("words", [[], ["fleet", "run"], *([word] for word in COMMANDS)])
def test_help_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["help", *words]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: codex-acp-sdk")
    assert [line for line in text.splitlines() if len(line) > 80 or line.endswith("-")] == []


NAME = "x\x1b]8;;http://evil\x07\u202e\nerror: forged"


@pytest.mark.parametrize(
    "arguments",
    [
        ["play", NAME], ["transcript", NAME], ["fleet", "show", NAME], ["routes", NAME],
        ["run", "x", NAME], ["--record", f"/none/{NAME}"], ["--transcript", f"/none/{NAME}"],
        ["--log-file", f"/none/{NAME}"],
    ],
)  # fmt: skip
def test_an_error_shows_the_control_characters_of_a_name(
    arguments: list[str], tmp_path: Path
) -> None:
    shown = run_process(arguments, environment(tmp_path)).stderr.decode()
    assert "forged" in shown
    assert not any(line.startswith("error:") for line in shown.splitlines())
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)


@pytest.mark.parametrize("arguments", [["transcript", "x", "--kind", "y"], ["play", "x " * 60]])
def test_an_error_is_broken_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", err := Terminal())
    with suppress(SystemExit):
        assert main(arguments) == 2
    rows = err.getvalue().splitlines()
    assert len(rows) > 2
    assert all(len(row) <= 80 for row in rows)


def test_the_help_of_the_program_begins_with_its_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help"]) == 0
    before, _, _ = capsys.readouterr().out.partition("options:")
    for word, command in COMMANDS.items():
        assert word in before
        assert command.summary in before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full, as Linux has it")
@pytest.mark.parametrize("word", ["routes", "version"])
def test_an_output_that_takes_no_more_is_told_in_one_sentence(word: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "codex_acp", word],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "codex-acp-sdk: error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full, as Linux has it")
def test_an_output_that_takes_no_more_is_told_once_of_a_command_that_failed_too() -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "codex_acp", "version"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env={**env, "CODEX_PATH": "/bin/false"},
        )  # fmt: skip
    said = "codex-acp-sdk: error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_terminal_of_another_encoding_gets_its_help_too() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "codex_acp", "help"], capture_output=True, check=False, env=env
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"ws://\\u2026" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "-h"], ["demo", "--help"]])
def test_help_names_every_option(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    text = capsys.readouterr().out
    mine = ("--yes", "--wire") if arguments[0] == "demo" else ("--config KEY=VALUE", "--log-file")
    for option in ("--codex", *mine):
        assert option in text


def test_a_log_level_that_is_none_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve_module, "spawn_app_server", None)  # calling it would raise
    monkeypatch.setenv("CODEX_ACP_LOG", "loud")
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "CODEX_ACP_LOG: 'loud' is not a log level; use one of DEBUG" in err


def test_a_log_file_that_cannot_be_written_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(serve_module, "spawn_app_server", None)
    assert main(["--log-file", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"--log-file: cannot write {str(tmp_path)!r}: Is a directory" in err


def test_ctrl_c_has_the_exit_code_of_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(serve_module, "serve", interrupted)
    assert main([]) == 130


def test_a_transcript_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_PATH", str(tmp_path / "none"))
    done = subprocess.run(
        [sys.executable, "-m", "codex_acp", "--transcript", str(tmp_path / "no" / "t.jsonl")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "t.jsonl cannot be written" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["markdown", "json"])
def test_routes_prints_every_server_request(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["routes", *options]) == 0
    printed = capsys.readouterr().out
    if options:
        read = json.loads(printed)
        assert {row["method"] for row in read["cases"]} == SERVER_REQUESTS.keys()
        assert {"list", "key", "approval", "elicitation", "decline", "why"} == read["table"][
            0
        ].keys()
    for method in SERVER_REQUESTS:
        assert method in printed


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    whole = capsys.readouterr().out
    for word, command in COMMANDS.items():
        assert f"  {word} " in whole
        assert command.summary in whole
        assert main(["help", word]) == 0
        of_command = capsys.readouterr().out
        assert (of_command == whole) == (word == "serve")
        with pytest.raises(SystemExit) as end:
            command.parser().parse_args(["--help"] if word != "login" else ["--none"])
        assert end.value.code == (0 if word != "login" else 2)
        assert capsys.readouterr().out in (of_command, "")


def test_help_of_what_is_no_command_names_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["help", "sreve"])
    assert end.value.code == 2
    assert "serve" in capsys.readouterr().err.replace("sreve", "")


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["serve", "--version"]])
def test_version_is_a_word_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setenv("CODEX_PATH", "/none/codex")
    assert main(arguments) == 1
    assert capsys.readouterr().out.startswith("codex-acp-sdk ")


def test_the_version_of_another_codex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--codex", "/none/other"]) == 1
    assert "'/none/other', which does not exist" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("demo", ["demo"]), ("doctor", ["doctor"]), ("fleet", ["fleet"]),
        ("small_commands", ["play", "version"]), ("transcript_command", ["transcript"]),
    ],
)  # fmt: skip
def test_commands_read_the_options_of_their_parsers(module: str, words: list[str]) -> None:
    parsers = [COMMANDS[word].parser() for word in words]
    parsers += [each for parser in parsers for each in subcommands(parser).values()]
    taken = {action.dest for parser in parsers for action in parser._actions} - {"help"}
    tree = ast.parse(inspect.getsource(import_module(f"codex_acp.cli.{module}")))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    holders = ("options", "self._options")
    assert {node.attr for node in attributes if ast.unparse(node.value) in holders} == taken


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("serve", ["--listen", "ws://127.0.0.1:8765/acp"]),  # of the parser
        ("serve", ["--listen", "ws://198.51.100.1:1/acp", "--expose", "--token-file", "tokens"]),
        ("fleet", ["run", "no-such-file-of-tasks-in-this-directory.jsonl", "--out", "results"]),
    ],
)
def test_a_terminal_breaks_what_is_wrong_between_words(
    tmp_path: Path, command: str, words: list[str]
) -> None:
    (tmp_path / "tokens").write_text("a-token-of-enough-characters\n")
    (tmp_path / "tokens").chmod(0o600)
    arguments = [str(tmp_path / word) if word == "tokens" else word for word in words]
    env = environment(tmp_path) | {"TERM": "xterm"}
    with OnTerminal(env, *arguments, command=command, size=(64, 24)) as terminal:
        rows = terminal.rest().splitlines()
        assert terminal.end()[0] != 0
    assert len(rows) > 1
    assert all(len(row) <= 64 and row == row.strip() for row in rows)


@pytest.mark.parametrize(
    "content", [b"\n  # a note\nT0KEN\n", b"#\nme T0KEN\n", b"# \xff\nme T0KEN 2099-01-01T00:00Z"]
)
def test_the_token_of_a_file_is_read_as_the_server_reads_it(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    assert remote_token(str(file)) == "T0KEN"
