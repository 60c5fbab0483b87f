"""The benchmark of the network runs, and its numbers are sane; no time is judged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import network

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.e2e
def test_deltas_and_sessions_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SETTLE_SECONDS", 0.1)
    file = tmp_path / "network.json"
    arguments = ["-n", "1", "--deltas", "20", "--sessions", "3", "--json", str(file)]
    assert network.main(arguments) == 0
    samples = json.loads(file.read_text())["samples"]
    for way in (network.STDIO, network.WEBSOCKET):
        (microseconds,) = samples[way][network.LATENCY]
        assert microseconds > 0
    assert samples[network.WEBSOCKET][network.MEMORY.format(3)][0] > 1
