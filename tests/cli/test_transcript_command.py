"""``codex-acp-sdk transcript`` in the terminal: filters, following, and hostile files."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from codex_acp.cli.main import main
from codex_acp.cli.terminal import columns_of
from codex_acp.cli.transcript_lines import moment
from codex_acp.fleet.worker import SessionLog
from tests.cli.command import COMMAND, WAIT_SECONDS, environment, run
from tests.support.transcript_samples import HOSTILE, lines, of_every_kind, with_wire


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(lines(of_every_kind())))
    return path


@pytest.fixture
def shown(written: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The rows for some options, without the day."""

    def rows(*options: str) -> list[str]:
        assert main(["transcript", str(written), *options]) == 0
        return [row for row in capsys.readouterr().out.splitlines() if "(UTC)" not in row]

    return rows


def test_everything_is_one_row_with_time_way_and_word(shown: Callable[..., list[str]]) -> None:
    rows = shown()
    assert len(rows) == 18
    assert rows[2].split()[:8] == [
        *("12:00:00.500", "sion-one", "Codex", ">", "client", "\u2b22", "APPROVAL", "asked")
    ]
    assert "shell: touch made" in rows[2]
    assert "by client (Allow once)" in rows[3]
    assert "DECLINED" in rows[11]
    assert "nobody was asked: it asks for a secret" in rows[11]


def test_a_file_of_the_first_version_is_shown_as_it_was_written(
    written: Path, shown: Callable[..., list[str]]
) -> None:
    old = []
    for line in map(json.loads, written.read_text().splitlines()):
        if line["type"] == "agreement.decided":
            continue  # there was none
        was = {k: v for k, v in line.items() if k not in ("subject", "policy")}
        was |= {"by": "person"} if was.get("by") == "client" else {}
        old.append(json.dumps(was | {"schema_version": 1}))
    written.write_text("\n".join(old) + "\n")
    rows = shown()
    assert len(rows) == 17
    assert "by person (Allow once)" in rows[3]
    assert len(shown("--decided", "person")) == 4


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("subject", ["touch made", "\u4e00" * 100 + "forged row"])
def test_a_row_of_a_terminal_is_one_row(
    written: Path, tmp_path: Path, subject: str, columns: int
) -> None:
    written.write_text(written.read_text().replace("touch made", subject))
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = environment(tmp_path, TERM="xterm")
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, "transcript", str(written)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, env=env,
    )  # fmt: skip
    os.close(theirs)
    out = b""
    with suppress(OSError):  # the end of a terminal
        while data := os.read(ours, 4096):
            out += data
    os.close(ours)
    assert process.wait(WAIT_SECONDS) == 0
    rows = re.sub(r"\x1b\[[0-9;]*m", "", out.decode()).splitlines()
    assert len(rows) == 19
    assert all(sum(map(columns_of, row)) < columns for row in rows)
    assert b"\x1b[1;33m" in out
    assert ("Codex > client" in rows[3]) == (columns == 120)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--session", "session-two"], 4),
        (["--session", "session-"], 18),
        (["--session", "no"], 0),
        (["--session", "session-two", "--session", "session-one"], 18),
        (["--kind", "approval"], 6),
        (["--kind", "approval.refused,decline"], 2),
        (["--kind", "approval", "--kind", "prompt"], 10),
        (["--decided", "rejected"], 1),
        (["--decided", "declined"], 1),
        (["--decided", "decline"], 1),
        (["--decided", "accept,accepted"], 3),
        (["--decided", "client", "--kind", "elicitation"], 2),
        (["--decided", "refused"], 1),
        (["--since", "2026-01-31T12:00:02"], 10),
        (["--until", "2026-01-31T12:00:02Z"], 9),
        (["--since", "2026-01-31T13:00:02+01:00", "--until", "2026-01-31T12:00:02"], 1),
        (["--since", "1s"], 0),
    ],
    ids=str,
)
def test_filters(shown: Callable[..., list[str]], options: list[str], count: int) -> None:
    assert len(shown(*options)) == count


def test_what_the_filters_leave_out_is_counted(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["transcript", str(written), "--session", "no"]) == 0
    assert capsys.readouterr().err == "0 events: none; 18 more are left out\n"
    assert main(["transcript", str(written)]) == 0
    assert "left out" not in capsys.readouterr().err


def test_the_wire_is_shown_when_it_is_asked_for(
    written: Path, shown: Callable[..., list[str]]
) -> None:
    written.write_text("".join(lines(with_wire())))
    assert len(shown()) == 3
    assert len(shown("--kind", "wire")) == 8
    assert "session/request_permission id 1" in shown("--kind", "wire.message")[4]


def test_json_gives_the_lines_as_they_are(shown: Callable[..., list[str]], written: Path) -> None:
    rows = shown("--json", "--kind", "decline")
    assert rows == [line for line in written.read_text().splitlines() if "request.declined" in line]
    assert json.loads(rows[0])["type"] == "request.declined"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "approvals"], "'approvals' is no kind; use approval, elicitation"),
        (["--decided", "ok"], "'ok' is no decision; use accepted, rejected"),
        (["--since", "yesterday"], "'yesterday' is no time; use 2026-01-31T12:00 or 10m"),
        (["--since", "999999999d"], "is no time"),
        (["-f", "--html", "x"], "not allowed with"),
    ],
)
def test_bad_arguments_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["transcript", "x", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_moment_is_a_time_or_some_time_ago() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("90s", now) == "2026-01-31T11:58:30.000Z"
    assert moment("2d", now) == "2026-01-29T12:00:00.000Z"
    assert moment("2026-01-31", now) == "2026-01-31T00:00:00.000Z"


@pytest.mark.attack(by="MCP server")
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_transcript_steers_the_terminal(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(lines(of_every_kind(text))))
    assert main(["transcript", str(path)]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 19
    assert out.replace("\n", "").isprintable()


def test_lines_that_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    good = "".join(lines(of_every_kind()))
    broken = (
        b'{"torn\n\xff\xfe\x00\nnull\n' + b"[" * 100_000 + b"\n" + b"x" * 10_000_000 + b"\n\n\r\n"
    )
    path = tmp_path / "t.jsonl"
    path.write_bytes(good.encode() + broken + good.encode() + good.encode()[:100])
    done = run(["transcript", str(path)], environment(tmp_path))
    assert done.returncode == 1
    rows = done.stdout.decode().splitlines()
    assert sum("cannot be read" in row for row in rows) == 6
    assert "it is not finished" in rows[-1]
    assert len(rows) == 1 + 18 * 2 + 6
    assert max(map(len, rows)) < 5_000
    assert b"36 events" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["none", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["transcript", name]) == 2
    err = capsys.readouterr().err
    assert err.startswith("codex-acp-sdk transcript: error: the transcript ")
    assert err.count("\n") == 1


def test_the_transcript_of_a_fleet_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "transcript.jsonl"
    log = SessionLog()
    log.note("session", session_id="s")
    log.note("prompt", text="Go.")
    path.write_bytes(log.data())
    assert main(["transcript", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "the log of a fleet's task" in err
    assert "schema_version" not in err


def test_standard_input_is_a_file_too(tmp_path: Path) -> None:
    given = "".join(lines(of_every_kind())).encode()
    done = run(["transcript", "-", "--kind", "decline"], environment(tmp_path), given)
    assert done.returncode == 0
    assert done.stdout.count(b"DECLINED") == 1


def test_following_shows_what_is_appended_and_a_file_that_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first, *rest = lines(of_every_kind())
    path.write_text(first)
    process = subprocess.Popen(
        [*COMMAND, "transcript", "-f", str(path)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(tmp_path),
    )  # fmt: skip
    killer = threading.Timer(WAIT_SECONDS, process.kill)
    killer.start()
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert "(UTC)" in process.stdout.readline()
            assert "opened" in process.stdout.readline()
            with path.open("a") as file:
                file.write(rest[0][:50])
                file.flush()
                file.write(rest[0][50:])
            assert "started" in process.stdout.readline()
            other = tmp_path / "other"
            other.write_text(rest[-1])
            other.replace(path)
            assert "closed" in process.stdout.readline()
            process.send_signal(2)
            assert process.wait(WAIT_SECONDS) == 130
            assert process.stderr.read() == ""
        finally:
            killer.cancel()
            process.kill()
