"""The benchmarks of many sessions and of long ones run; bytes are judged, no time is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import history, sessions

OURS = "codex-acp-sdk"


@pytest.mark.e2e
def test_history_measures_loads_and_what_is_printed_or_written_is_sent_once(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    sizes = ["-n", "1", "--items", "100", "--output", "200000", "--file", "200000"]

    assert history.main([*sizes, "--json", str(file), "--only", OURS]) == 0

    report = json.loads(file.read_text())
    assert report["benchmark"] == "history"
    rows = {name: values[0] for name, values in report["samples"][OURS].items()}
    assert all(value > 0 for value in rows.values())
    assert rows[history.FIRST_LOAD] > 0
    for name in (history.OUTPUT_BYTES, history.FILE_BYTES):
        # The text once, its escapes, and the messages around it: more of them on a busy machine.
        assert 0.9 < rows[name] < 1.8, name
    assert rows[history.LOADED_BYTES] < 1.2, "of a long output Codex stores a part"


@pytest.mark.e2e
def test_sessions_measures_each_count_of_open_sessions(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    sizes = ["-n", "1", "--open", "1", "12", "--deltas", "20"]

    assert sessions.main([*sizes, "--json", str(file), "--only", OURS]) == 0

    report = json.loads(file.read_text())
    assert report["benchmark"] == "sessions"
    rows = report["samples"][OURS]
    for wanted in (1, 12):
        assert rows[f"CPU of session/new, {wanted} open, ms"][0] > 0
        assert rows[f"CPU per delta, {wanted} open, us"][0] > 0
