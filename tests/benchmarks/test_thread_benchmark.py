"""The benchmark of the first thread runs, and its numbers are sane; no time is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import thread


@pytest.mark.e2e
def test_every_program_is_measured_beside_the_bare_binary(tmp_path: Path) -> None:
    file = tmp_path / "thread.json"
    assert thread.main(["-n", "1", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["benchmark"] == "thread"
    assert set(report["samples"]) == {thread.BARE, *thread.PROGRAMS}
    for name, rows in report["samples"].items():
        (milliseconds,) = rows[thread.THREAD]
        assert milliseconds > 0
        if name not in (thread.BARE, "Python and asyncio alone"):
            assert 0 < rows[thread.SPAWNED][0] < milliseconds
