"""The benchmark of fleets runs, and its numbers are sane; no time is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import fleet


@pytest.mark.e2e
def test_a_fleet_is_measured_where_its_tasks_work_and_when_they_start(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    assert fleet.main(["-n", "1", "--tasks", "2", "--at-once", "2", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["benchmark"] == "fleet"
    samples = report["samples"]
    for place in ("a directory", "a directory with git", "a worktree"):
        assert set(samples[place]) == {fleet.CPU}
    assert samples["fleet"][fleet.STARTED][0] > 0
    assert samples["runtime alone"][fleet.STARTED][0] > 0
