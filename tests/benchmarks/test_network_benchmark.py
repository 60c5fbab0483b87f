"""The benchmarks of a delta's way run, and their numbers are sane; no time is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import latency, network
from benchmarks.stamped_deltas import LATENCY


@pytest.mark.e2e
def test_deltas_and_sessions_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SETTLE_SECONDS", 0.1)
    file = tmp_path / "network.json"
    arguments = ["-n", "1", "--deltas", "20", "--sessions", "3", "--json", str(file)]
    assert network.main(arguments) == 0
    samples = json.loads(file.read_text())["samples"]
    for way in (network.STDIO, network.WEBSOCKET):
        (microseconds,) = samples[way][LATENCY]
        assert microseconds > 0
    assert samples[network.WEBSOCKET][network.MEMORY.format(3)][0] > 1


@pytest.mark.e2e
def test_agents_are_measured_side_by_side_and_beside_codex_alone(tmp_path: Path) -> None:
    file = tmp_path / "latency.json"
    arguments = ["-n", "1", "--deltas", "3", "--only", "codex-acp-sdk", "--json", str(file)]
    assert latency.main(arguments) == 0
    samples = json.loads(file.read_text())["samples"]
    assert set(samples) == {"codex-acp-sdk", latency.ALONE}
    ours, alone = (samples[name][LATENCY][0] for name in samples)
    assert samples["codex-acp-sdk"][latency.ADDED] == [ours - alone]
    assert samples["codex-acp-sdk"][latency.CPU][0] > 0
