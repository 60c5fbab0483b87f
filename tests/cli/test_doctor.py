"""``codex-acp-sdk doctor`` on broken machines: lines with what to do, no traceback, and an end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_acp.cli import doctor, doctor_checks
from codex_acp.cli.editors import EDITORS, settings_for
from codex_acp.cli.main import main
from tests.cli.command import COMMAND, WAIT_SECONDS
from tests.support.processes import lives

PINNED = Path(__file__).resolve().parents[2] / "schema" / "PINNED.json"
HANGS = "sleep 1000 & sleep 1000"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``CODEX_HOME``, and a ``HOME`` around it."""
    path = tmp_path / "home" / ".codex"
    path.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.setenv("CODEX_HOME", str(path))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return path


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a program that stands in for Codex, and names it."""

    def make(app_server: str, *, version: str = "echo codex-cli 0.163.0", login: str = "") -> Path:
        path = tmp_path / "codex"
        case = (
            f"--version) {version};;\nlogin) {login or 'echo Not logged in'};;\n*) {app_server};;"
        )
        path.write_text(f'#!/bin/sh\ncase "$1" in\n{case}\nesac\n')
        path.chmod(0o755)
        monkeypatch.setenv("CODEX_PATH", str(path))
        return path

    return make


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The report; and nothing is left in the temporary folder."""

    def run(*options: str) -> dict[str, Any]:
        code = main(["doctor", "--json", *options])
        out, err = capsys.readouterr()
        report: dict[str, Any] = json.loads(out)
        assert code == (1 if report["problems"] else 0)
        assert err == ""
        assert list((tmp_path / "temporary").iterdir()) == []
        for check in report["checks"]:
            assert check.keys() == {"check", "level", "text", "advice"}
            assert (check["advice"] is None) == (check["level"] == "ok"), check
        return report

    return run


def about(report: dict[str, Any], check: str) -> tuple[str, str]:
    """Level and text of the only line of a check."""
    (found,) = [one for one in report["checks"] if one["check"] == check]
    return found["level"], found["text"]


def test_a_missing_codex_is_a_problem_and_the_rest_is_looked_at(
    home: Path, look: Callable[..., dict[str, Any]]
) -> None:
    (home / "config.toml").write_text('a = "zsecret')
    report = look("--codex", "/none/codex")
    assert report.keys() == {"version", "problems", "warnings", "checks", "editor"}
    assert [one["check"] for one in report["checks"]] == [
        "python", "schemas", "package", "command", "codex", "codex_home", "config", "config",
        "start",
    ]  # fmt: skip
    level, text = about(report, "codex")
    assert level == "problem"
    assert text.endswith("'/none/codex', which does not exist)")
    assert report["checks"][4]["advice"].startswith("install it with `pip install")
    assert report["checks"][7]["text"] == "config.toml is no TOML: a mistake at end of document"
    assert "zsecret" not in json.dumps(report)


def test_the_versions_of_the_schemas_and_a_pydantic_that_was_not_tested_are_said(
    look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    acp, of_codex = (json.loads(PINNED.read_text("utf-8"))["sources"][n] for n in (1, 0))
    monkeypatch.setattr(doctor_checks, "IS_TESTED", False)
    report = look("--codex", "/none/codex")
    said = f"ACP v1 and v2 as in @agentclientprotocol/sdk {acp['version']}"
    assert about(report, "schemas") == ("ok", f"{said}, Codex as in {of_codex['version']}")
    level, text = about(report, "package")
    assert level == "warning"
    assert text.endswith("which was not tested: models load slower")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("echo codex-cli 0.80.0", "Codex 0.80.0 is too old"),
        ("echo hello >&2; exit 7", "is not a Codex: --version exited with status 7, 'hello'"),
        (HANGS, "printed no version within 0.5 seconds"),
        ("kill -9 $$", "is not a Codex: --version was killed (SIGKILL)"),
    ],
    ids=["old", "other", "hangs", "killed"],
)
def test_a_codex_that_cannot_be_used(
    version: str,
    expected: str,
    codex: Callable[..., Path],
    look: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version == HANGS:
        monkeypatch.setattr(doctor_checks, "VERSION_SECONDS", 0.5)
    codex("exit 1", version=version)
    level, text = about(look(), "codex")
    assert level == "problem"
    assert expected in text


@pytest.mark.parametrize(
    ("app_server", "expected"),
    [
        (HANGS, "it said nothing for 0.5 s"),
        ("echo out of ink >&2; exit 3", "out of ink"),
        ("echo hello; sleep 1000", "it said nothing for 0.5 s"),
        ("exec >&-; sleep 1000", "Codex does not start"),
    ],
    ids=["hangs", "dies", "talks", "mute"],
)
def test_a_codex_that_does_not_start(
    app_server: str,
    expected: str,
    codex: Callable[..., Path],
    look: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_checks, "START_SECONDS", 0.5 if "sleep" in app_server else 60)
    codex(app_server)
    level, text = about(look(), "start")
    assert level == "problem"
    assert expected in text


ANSWERS_OTHERS = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    known = asked.get("method") == "initialize"
    answer = {"id": asked.get("id") if known else 4711, "result": {"userAgent": "x/0.163.0"}}
    print(json.dumps(answer), flush=True)
"""


def test_all_checks_together_have_a_bound(
    codex: Callable[..., Path],
    look: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "WHOLE_SECONDS", 5.0)
    monkeypatch.setattr(doctor, "TURN_SECONDS", 0.0)
    (tmp_path / "codex.py").write_text(ANSWERS_OTHERS)
    codex(f"exec {sys.executable} -I {tmp_path / 'codex.py'}")
    began = time.monotonic()
    report = look("--turn")
    assert time.monotonic() - began < 60, "each of five questions has twenty seconds"
    text = "it was not looked at: all checks together have 5 s"
    assert about(report, "turn") == ("warning", text)


def test_a_login_that_hangs_is_a_warning(
    codex: Callable[..., Path], look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOGIN_SECONDS", 0.5)
    codex("exit 3", login=HANGS)
    assert about(look(), "start")[0] == "problem"


def test_a_named_home_that_is_not_there(
    home: Path, look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "none"))
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "does not exist" in text) == ("problem", True)
    monkeypatch.delenv("CODEX_HOME")
    home.rmdir()
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "Codex makes it" in text) == ("ok", True)
    monkeypatch.setenv("HOME", str(home.parent / "none"))
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "cannot be made" in text) == ("problem", True)
    monkeypatch.setenv("HOME", str(home.parent))
    home.write_text("a file")
    assert about(look("--codex", "/none"), "codex_home")[0] == "problem"


def test_no_home_at_all(
    look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CODEX_HOME")
    monkeypatch.delenv("HOME")

    def nobody(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, text) == ("problem", "this user has no home directory")


def test_a_home_of_another_and_one_that_others_may_write_to(
    home: Path, look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.chmod(0o777)
    (home / "auth.json").touch(0o644)
    report = look("--codex", "/none")
    assert about(report, "codex_home")[0] == about(report, "login_file")[0] == "warning"
    monkeypatch.setattr(os, "geteuid", lambda: 12345678)
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "and this is user 12345678" in text) == ("warning", True)
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "cannot be written" in text) == ("problem", True)


def test_a_home_on_a_full_disk(
    look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs("/")
    full = os.statvfs_result((*found[:4], 0, *found[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, "no room left" in text) == ("problem", True)


@pytest.mark.parametrize("kind", ["fifo", "directory", "loop", "large", "bytes", "socket"])
def test_a_configuration_that_is_no_file(
    kind: str, home: Path, look: Callable[..., dict[str, Any]]
) -> None:
    path = home / "config.toml"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "large":
            path.touch()
            os.truncate(path, 2_000_000_000)
        case "socket":
            os.mknod(path, 0o140600)
        case _:
            path.write_bytes(b"\xff\xfe\x00")
    report = look("--codex", "/none")
    levels = [one["level"] for one in report["checks"] if one["check"] == "config"]
    assert levels[-1] == "problem"


@pytest.mark.parametrize("key", ["a." * 400_000 + "a", """'a.b' . "c\\"" .""" * 20_000 + "a"])
def test_a_dotted_key_of_very_many_parts_ends_with_its_line(
    key: str, home: Path, look: Callable[..., dict[str, Any]]
) -> None:
    (home / "config.toml").write_text(f"[b]\n{key} = 1\n")
    level, text = about(look("--codex", "/none"), "config")
    assert level == "problem"
    assert re.match(r"line 2 of .*config.toml has a key of more than 32 parts$", text)


def test_words_with_dots_in_texts_are_no_long_key(
    home: Path, look: Callable[..., dict[str, Any]]
) -> None:
    prose = "Do this. Do that. " * 2_000
    text = f'a = "{prose}"  # {"." * 80}\nb = """\n{prose}"""\n{"c." * 31}c = 1\n'
    (home / "config.toml").write_text(text)
    assert about(look("--codex", "/none"), "config")[0] == "ok"


def test_an_integer_that_is_too_long_to_be_read_is_no_traceback(
    home: Path, look: Callable[..., dict[str, Any]]
) -> None:
    (home / "config.toml").write_text(f"a = {'9' * 5_000}\n")
    checks = look("--codex", "/none")["checks"]
    texts = [one["text"] for one in checks if one["check"] == "config"]
    assert texts[1:] == [
        "config.toml is no TOML: a mistake somewhere (a number too long, or lists too deep)"
    ]


def test_a_disk_that_has_stopped_is_given_up(
    look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(doctor, "check_home", lambda: time.sleep(5))
    level, text = about(look("--codex", "/none"), "codex_home")
    assert (level, text) == ("problem", "Codex's home gave no answer for 0.2 s")


def test_what_nobody_thought_of_is_a_line_too(
    codex: Callable[..., Path], look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "collect_answers", broken)
    codex("exit 1")
    assert about(look(), "start") == ("problem", "looking failed: ZeroDivisionError:")


def test_no_place_for_temporary_files(
    codex: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/none/there")
    codex("exit 1")
    assert main(["doctor", "--turn"]) == 1
    out, err = capsys.readouterr()
    assert "PROBLEM  temporary: no temporary file can be made: No such file or directory" in out
    assert err == ""


def test_a_directory_that_is_gone(
    tmp_path: Path, look: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert about(look("--codex", "./codex"), "codex")[0] == "problem"
    monkeypatch.chdir(tmp_path)


def test_a_home_that_cannot_be_used_is_no_missing_login(
    home: Path,
    codex: Callable[..., Path],
    look: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "none"))
    codex("exit 1")
    report = look()
    assert about(report, "codex_home")[0] == "problem"
    assert [one for one in report["checks"] if one["check"] == "login"] == []


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("unknown variant `zsecret`, expected one of `a`, `b`", "expected one of `a`, `b`"),
        ('invalid type: string "zsecret 1", expected i64', "expected i64"),
        ("duplicate key `zsecret-two` in `features`", "in `features`"),
    ],
)
def test_what_is_configured_is_not_repeated(said: str, kept: str) -> None:
    values = doctor_checks.values_in(b"a = 'zsecret-two'\n[broken")
    told = doctor_checks.without_values(said, values)
    assert "zsecret" not in told
    assert kept in told


def test_a_quote_that_is_never_closed_costs_no_more_than_its_length() -> None:
    open_quote = '"' + r"\"" * 400_000
    assert len(doctor_checks.values_in(f"a = {open_quote}\nb = 'value'".encode())) == 2


def test_a_line_is_visible_short_and_without_secrets() -> None:
    told = doctor_checks.safe_line("a\nb\u202e\x1b[2J token=abcdef " + "x " * 1_000)
    assert told.isprintable()
    assert len(told) == 500
    assert "abcdef" not in told


def test_a_program_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {shlex.quote(str(tmp_path / 'pid'))}; sleep 1000"
    with pytest.raises(doctor_checks.TooSlow):
        doctor_checks.run_program(["/bin/sh", "-c", script], os.environ, str(tmp_path), 0.5)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_leaves_nothing_behind(codex: Callable[..., Path], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    quoted = shlex.quote(str(pids))
    codex(f"sleep 1000 & echo $! > {quoted}.new; mv {quoted}.new {quoted}; sleep 1000")
    process = subprocess.Popen(
        [*COMMAND, "doctor"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not pids.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert b"Traceback" not in out
    assert not lives(int(pids.read_text()))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_no_part_of_a_secret_is_left_where_an_error_is_cut() -> None:
    answers, key = doctor_checks.Answers(), "sk-" + "A1b2" * 12
    answers.results["config"] = {"config": {"mcp_servers": {"notes": {"command": "notes"}}}}
    answers.servers["notes"] = {"status": "failed", "error": "x" * 209 + f" {key}"}
    found = list(doctor_checks.codex_findings(answers, [], {}, []))
    assert "A1b2" not in json.dumps(doctor_checks.as_json(found, None))


def test_a_long_error_of_an_mcp_server_is_searched_in_part() -> None:
    answers = doctor_checks.Answers()
    answers.results["config"] = {"config": {"mcp_servers": {"notes": {"command": "notes"}}}}
    answers.servers["notes"] = {"status": "failed", "error": "no port" + " [::" * 500_000}
    (_, *found) = doctor_checks.codex_findings(answers, [], {}, [])
    assert found[-1].text.startswith("MCP server 'notes' does not start: no port")


@pytest.mark.parametrize("name", EDITORS)
def test_settings_of_an_editor_name_the_whole_command(name: str) -> None:
    words = ["/a place/codex-acp-sdk", "--codex", 'a"b']
    settings = settings_for(name, words)
    assert settings["name"] == name
    text = str(settings["settings"])
    if name in ("zed", "jetbrains"):
        (agent,) = json.loads(text)["agent_servers"].values()
        assert [agent["command"], *agent["args"]] == words
    elif name in ("toad", "acpx"):
        assert shlex.split(shlex.split(text)[2]) == words
        assert ("exec" in text) == (name == "acpx"), "acpx itself begins no session"
    else:
        assert '"/a place/codex-acp-sdk"' in text
        assert '"a\\"b"' in text


def test_the_settings_of_an_editor_stand_alone_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--editor", "zed"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out).keys() == {"agent_servers"}
    assert shown.err == "Zed, in settings.json:\n\n"


def test_an_editor_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--editor", "ed"])
    assert end.value.code == 2
    assert "codecompanion" in capsys.readouterr().err
