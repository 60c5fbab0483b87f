"""What `serve --record` writes, and what `play` makes of it."""

from __future__ import annotations

import json
import logging
import os
import stat
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session import record
from codex_acp.adapter.session.machine import SessionMachine
from codex_acp.adapter.session.record import (
    EFFECTS,
    EVENTS,
    SessionRecorder,
    UnreadableRecord,
    as_test,
    from_json,
    play,
    read_record,
    to_json,
)
from codex_acp.cli.main import main
from codex_acp.mapping.events import PromptFailure, PromptStop
from codex_acp.transcript.secrets import REDACTED

LOG = logging.getLogger(__name__)
HEAD = json.dumps({"record": 1, "version": "0"}) + "\n"
DEEP = '{"map": {"a": ' * 400 + "1" + "}}" * 400
DONE = PromptStop("end_turn")
TURN: list[ev.Event] = [
    ev.Prompted("p"), ev.Prepared("p", "message"), ev.TurnBegan("t", "t"), ev.Started(1, "t"),
    ev.MessageRead("p", "t"), ev.CommandBegan("c"), ev.CommandEnded("c"), ev.TurnEnded("t", DONE),
]  # fmt: skip


def _values(hint: Any) -> list[Any]:
    """Some of the values of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return list(inner)
    if origin in (Union, UnionType):
        return [value for each in inner for value in _values(each)]
    if origin is frozenset:
        return [frozenset(), frozenset(_values(inner[0]))]
    if origin is tuple:
        return [(), tuple(_values(inner[0]))]
    samples: dict[Any, list[Any]] = {
        str: ["a", "b" * 32], int: [0, 7], bool: [True, False], type(None): [None],
        PromptStop: [DONE, PromptStop("refusal", "why")],
        PromptFailure: [PromptFailure(-1, "no", {"a": [1, {"is": None}], "b": {"set": 2.5}})],
    }  # fmt: skip
    return samples[hint]


def _samples(made: Any) -> Iterator[Any]:
    hints = record._hints(made)
    first = {name: _values(hint)[0] for name, hint in hints.items()}
    yield made(**first)
    for name, hint in hints.items():
        for value in _values(hint):
            yield made(**first | {name: value})


@pytest.mark.parametrize("name", sorted(EVENTS | EFFECTS))
def test_every_event_and_effect_is_the_same_once_it_was_written_and_read(name: str) -> None:
    for sample in _samples((EVENTS | EFFECTS)[name]):
        again = from_json(json.loads(json.dumps(to_json(sample))))
        assert again == sample
        assert type(again) is type(sample)


def _recorded(path: Path, *events: ev.Event) -> None:
    machine = SessionMachine()
    with SessionRecorder(path, LOG) as recorder:
        for event in events:
            recorder.write_step(machine, event, machine.handle(event))


def test_a_record_is_private_plays_without_difference_and_another_process_appends_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.jsonl"
    _recorded(path, *TURN)
    _recorded(path, *TURN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["play", str(path)]) == 0
    assert capsys.readouterr().out == f"{2 * len(TURN)} events of 2 sessions: no differences\n"


def test_what_differs_today_is_printed_and_is_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.jsonl"
    _recorded(path, *TURN)
    path.write_text(path.read_text().replace('"is": "Insert"', '"is": "RefuseToJoin"'))
    assert main(["play", str(path)]) == 1
    told = capsys.readouterr().out
    assert "  then:  RefuseToJoin(prompt='p')" in told
    assert "  today: Insert(prompt='p')" in told
    assert told.endswith("1 difference\n")


def test_a_session_of_a_record_becomes_a_test_without_its_names_and_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kept = tmp_path / "record.jsonl", tmp_path / "kept.jsonl"
    failed = PromptFailure(-32603, "no such file: /srv/thesis", {"cwd": "/srv"})
    _recorded(path, *TURN, ev.Prompted("secret"), ev.Prepared("secret", "turn"), ev.Lost(failed))
    assert main(["play", "--session", "1", str(path)]) == 0
    kept.write_text(capsys.readouterr().out)
    assert "/srv" not in kept.read_text()
    assert "secret" not in kept.read_text()
    assert [step.event and type(step.event) for step in read_record(kept)] == [
        step.event and type(step.event) for step in read_record(path)
    ]
    assert main(["play", str(kept)]) == 0
    capsys.readouterr()
    assert main(["play", "--session", "2", str(path)]) == 2
    assert capsys.readouterr().err.endswith(" has no session 2; the last is 1\n")


def test_secrets_are_taken_out_and_names_are_kept(tmp_path: Path) -> None:
    path, key = tmp_path / "record.jsonl", "sk-proj-" + "a1B2c3D4" * 5
    turn = "0123456789abcdef" * 2
    failed = PromptFailure(-32603, f"Bearer {key}", {"url": f"https://u:{key}@h/", "x": key})
    _recorded(path, ev.Prompted(turn), ev.Lost(failed), ev.Prepared(turn, "message"))
    text = path.read_text()
    assert key not in text
    assert REDACTED in text
    assert turn in text
    assert play(read_record(path)).differences == []


def test_what_cannot_be_written_as_json_is_missing_and_the_rest_is_played_up_to_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record.jsonl"
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    broken = PromptFailure(-1, "x", {"deep": deep})
    _recorded(path, *TURN, ev.Lost(broken), ev.Moved())
    played = play(read_record(path))
    assert (played.events, played.missing, played.differences) == (len(TURN), 1, [])


def test_an_event_whose_line_would_be_too_long_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    large = PromptFailure(-1, "x", {"large": list(range(400_000))})
    _recorded(path, *TURN, ev.Lost(large), ev.Moved())
    assert play(read_record(path)).missing == 1


def test_a_record_is_played_without_holding_the_steps_of_all_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    _recorded(path, *TURN)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "".join(lines[1:]) * 2_000)
    tracemalloc.start()
    try:
        play(read_record(path))
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert highest < 3 * path.stat().st_size


def test_a_record_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record, "MAX_BYTES", 1000)
    path = tmp_path / "record.jsonl"
    _recorded(path, *TURN)
    assert path.stat().st_size < 1200
    assert "is full" in caplog.text
    assert play(read_record(path)).missing == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{}\n", "line 1: it is no record"),
        ("null\n", "line 1"),
        (HEAD + '{"session": 1, "ev', "line 2: it is cut off"),
        (HEAD + '{"session": 1, "ev\n{}\n', "line 2"),
        (HEAD + '{"session": 1, "event": {"is": "Teleported"}, "effects": []}\n', "Teleported"),
        (HEAD + '{"session": 1, "event": {"is": "Moved", "to": 1}, "effects": []}\n', "no 'to'"),
        (HEAD + '{"session": 1, "event": {"is": "Prompted"}, "effects": []}\n', "lacks one"),
        (HEAD + '{"session": 1, "event": {"is": "Warn", "text": "x"}, "effects": []}\n', "event"),
        (
            HEAD + '{"session": 1, "event": {"is": "Due", "timer": "x"}, "effects": []}\n',
            "timer of Due cannot be 'x'",
        ),
        (HEAD + '{"session": 1, "event": {"is": "Prompted", "prompt": 3}, "effects": []}\n', "'3'"),
        ('{"record": 2, "version": "9.9"}\n', "recorded by version '9.9'"),
        ('{"record": 2, "version": "\\u001b[2J"}\n', r"recorded by version '\x1b[2J'"),
        (json.dumps({"record": "x" * 9_000}) + "\n", f"it is of format '{'x' * 39}, not 1"),
        (HEAD + "[" * 100_000 + "\n", "too deep"),
        (HEAD + " " * 1_048_576 + "{}\n", "line 2 (recorded by version '0'): it is longer than"),
        (f'{HEAD}{{"event": {DEEP}, "effects": []}}\n', "line 2"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_played_is_refused_with_its_line(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(text)
    assert main(["play", str(path)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert why in said.err


def test_no_pipe_device_or_missing_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link", "missing", "."):
        with pytest.raises(UnreadableRecord, match="cannot be read"):
            [*read_record(tmp_path / name)]


def test_a_test_of_a_session_that_has_a_gap_is_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    _recorded(path, *TURN)
    lines = [*as_test(read_record(path), 1)]
    assert len(lines) == 1 + len(TURN)
