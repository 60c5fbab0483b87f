"""The transcript's file: whole lines, private, and never in the way."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_acp.errors import MisuseError
from codex_acp.transcript import (
    Entry,
    Transcript,
    TranscriptEvent,
    TranscriptWriter,
    from_json,
    transcript_path,
)
from codex_acp.transcript import writer as writer_module
from codex_acp.transcript.writer import ENVIRONMENT_VARIABLE
from tests.transcript.event_strategies import TIME, answered, closed


def entry(reason: str = "bye") -> Entry:
    return Entry(TIME, closed(reason))


def events_in(path: Path) -> list[TranscriptEvent]:
    text = path.read_text(encoding="ascii")
    assert text == "" or text.endswith("\n")
    return [from_json(json.loads(line)).event for line in text.splitlines()]


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def test_each_event_is_one_line_that_is_there_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TranscriptWriter(path) as writer:
        for count in range(1, 4):
            writer.write(entry(f"line\n{count}\u2028\u202e\x00"))
            assert len(events_in(path)) == count
    assert events_in(path)[0] == closed("line\n1\u2028\u202e\x00")


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for reason in ("a", "b"):
        with TranscriptWriter(path) as writer:
            writer.write(entry(reason))
    assert events_in(path) == [closed("a"), closed("b")]


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with umask(0), TranscriptWriter(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.touch()
    path.chmod(0o640)
    with TranscriptWriter(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["missing/t.jsonl", ".", "nul\0byte", "x" * 300])
def test_a_file_that_cannot_be_opened_is_a_clear_error_at_start(name: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"cannot be written: .*name a file"):
        TranscriptWriter(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_nobody_reads_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(MisuseError, match="cannot be written"):
        TranscriptWriter(path)


def test_a_full_disk_is_logged_once_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.jsonl"

    def no_space(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    transcript = Transcript()
    with TranscriptWriter(path) as writer:
        transcript.subscribe(writer.write)
        transcript.record(closed("before"))
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(os, "write", no_space)
            for _ in range(3):
                transcript.record(closed("secret reason"))
            (record,) = caplog.records
        transcript.record(closed("after"))
        assert writer.lost == 3
    assert "No space left on device" in record.getMessage()
    assert "lacks 3 entries" in caplog.records[-1].getMessage()
    assert "secret reason" not in caplog.text
    assert events_in(path) == [closed("before"), closed("after")]


def test_a_disk_that_has_stopped_holds_up_one_event_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.jsonl"
    real, goes_on = os.write, threading.Event()

    def stopped(fd: int, data: bytes) -> int:
        goes_on.wait()
        return real(fd, data)

    monkeypatch.setattr(writer_module, "HAND_OVER_SECONDS", 0.01)
    monkeypatch.setattr(writer_module, "CLOSE_SECONDS", 30.0)
    monkeypatch.setattr(os, "write", stopped)
    with TranscriptWriter(path) as writer, caplog.at_level(logging.WARNING):
        for reason in ("a", "b", "c"):
            writer.write(entry(reason))
        assert path.read_bytes() == b""
        (record,) = caplog.records
        goes_on.set()
    assert "takes no line" in record.getMessage()
    assert events_in(path) == [closed("a"), closed("b"), closed("c")]
    assert writer.lost == 0


def test_what_a_disk_does_not_take_until_the_end_is_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, goes_on = os.write, threading.Event()

    def stopped(fd: int, data: bytes) -> int:
        goes_on.wait()
        return real(fd, data)

    monkeypatch.setattr(writer_module, "HAND_OVER_SECONDS", 0.01)
    monkeypatch.setattr(writer_module, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(os, "write", stopped)
    with TranscriptWriter(tmp_path / "t.jsonl") as writer:
        for _ in range(3):
            writer.write(entry())
    try:
        assert "lacks 3 entries" in caplog.records[-1].getMessage()
        assert writer.lost == 3
    finally:
        goes_on.set()


def test_a_line_written_in_part_does_not_spoil_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    real, calls = os.write, 0

    def ten_bytes_then_nothing(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return real(fd, data[:10])
        raise OSError(28, "No space left on device")

    with TranscriptWriter(path) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", ten_bytes_then_nothing)
            writer.write(entry("lost"))
        writer.write(entry("whole"))
        writer.write(entry("again"))
    torn, *lines = path.read_text().splitlines()
    assert len(torn) == 10
    assert [from_json(json.loads(line)).event for line in lines] == [
        closed("whole"),
        closed("again"),
    ]


def test_a_line_that_the_system_takes_in_pieces_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    real = os.write
    with TranscriptWriter(path) as writer, monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        writer.write(entry("in pieces"))
        writer.write(entry("too"))
    assert events_in(path) == [closed("in pieces"), closed("too")]


def test_what_a_killed_process_left_unfinished_is_closed_first(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"schema_version": 1, "ti')
    with TranscriptWriter(path) as writer:
        writer.write(entry("a"))
    torn, line = path.read_text().splitlines()
    assert torn == '{"schema_version": 1, "ti'
    assert from_json(json.loads(line)).event == closed("a")


def test_an_event_that_is_no_json_is_lost_and_the_next_is_not(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TranscriptWriter(path) as writer:
        writer.write(Entry(TIME, answered({"n": float("nan")})))
        assert writer.lost == 1
        writer.write(entry("next"))
    assert events_in(path) == [closed("next")]


def test_after_closing_nothing_is_written_and_closing_again_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = TranscriptWriter(path)
    writer.close()
    writer.close()
    writer.write(entry())
    assert path.read_bytes() == b""
    assert writer.lost == 0


@pytest.mark.parametrize(
    ("argument", "environ", "path"),
    [
        (None, {}, None),
        (None, {ENVIRONMENT_VARIABLE: ""}, None),
        (None, {ENVIRONMENT_VARIABLE: "env.jsonl"}, Path("env.jsonl")),
        ("arg.jsonl", {}, Path("arg.jsonl")),
        ("arg.jsonl", {ENVIRONMENT_VARIABLE: "env.jsonl"}, Path("arg.jsonl")),
    ],
)
def test_the_argument_wins_over_the_environment(
    argument: str | None, environ: dict[str, str], path: Path | None
) -> None:
    assert transcript_path(argument, environ) == path
    assert ENVIRONMENT_VARIABLE == "CODEX_ACP_TRANSCRIPT"


def test_an_empty_argument_does_not_quietly_turn_the_transcript_off() -> None:
    path = transcript_path("", {})
    assert path is not None
    with pytest.raises(MisuseError):
        TranscriptWriter(path)
