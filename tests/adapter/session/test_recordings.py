"""Recorded sessions of the real Codex: each of its events is one that the world can make."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_acp.adapter.session.record import play, read_record
from tests.adapter.session.real_sessions import RECORDINGS, record_sessions

KEPT = sorted(RECORDINGS.glob("*.jsonl"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_recorded_session_is_decided_as_it_was(path: Path) -> None:
    played = play(read_record(path))
    assert (played.differences, played.missing) == ([], 0)
    assert played.sessions > 0


def test_what_the_command_records_of_the_real_codex_plays_without_a_difference(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record.jsonl"
    record_sessions(path)
    played = play(read_record(path))
    assert (played.differences, played.missing, played.sessions) == ([], 0, 14)
