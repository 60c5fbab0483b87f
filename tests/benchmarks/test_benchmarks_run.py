"""Each benchmark runs with tiny parameters and gives sane numbers; no time is judged."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import imports, start, stream
from benchmarks.agents import Agent, add_agent_options, agents_from
from benchmarks.process import AgentProcess
from benchmarks.report import quartiles, table

OURS = "codex-acp-sdk"
TRANSLATOR = "python-translator"
MEASURES = (start.INITIALIZE, start.SESSION, start.PROMPT_ANSWERED)


def _samples(path: Path, benchmark: str) -> dict[str, dict[str, list[float]]]:
    report: dict[str, Any] = json.loads(path.read_text())
    assert report["benchmark"] == benchmark
    samples: dict[str, dict[str, list[float]]] = report["samples"]
    for name, rows in samples.items():
        for measure, values in rows.items():
            assert report["summary"][name][measure]["median"] == quartiles(values).median
            assert all(math.isfinite(value) for value in values)
    return samples


@pytest.mark.e2e
def test_start_measures_each_agent_and_a_session_comes_after_initialize(tmp_path: Path) -> None:
    file = tmp_path / "start.json"
    codex = "codex app-server"
    names = (OURS, TRANSLATOR, codex)
    only = [part for name in names for part in ("--only", name)]

    assert start.main(["-n", "1", "--json", str(file), *only]) == 0

    samples = _samples(file, "start")
    assert tuple(samples) == names
    for rows in samples.values():
        initialized, session, prompt = (rows[name][0] for name in MEASURES)
        assert 0 < initialized < session < prompt


@pytest.mark.e2e
def test_stream_checks_the_text_and_measures_cpu_and_memory(tmp_path: Path) -> None:
    file = tmp_path / "stream.json"
    sizes = ["-n", "1", "--deltas", "50", "--paced-deltas", "5"]
    only = ["--only", OURS, "--only", TRANSLATOR]

    assert stream.main([*sizes, "--json", str(file), *only]) == 0

    samples = _samples(file, "stream")
    assert tuple(samples) == (OURS, TRANSLATOR)
    for rows in samples.values():
        assert all(value > 0 for values in rows.values() for value in values)
        rss, uss = (rows[f"{kind} at rest before a prompt, MB"][0] for kind in ("RSS", "USS"))
        assert uss <= rss
        assert rows["CPU per delta, burst, us"]
        assert rows["CPU per delta, paced, us"]


@pytest.mark.e2e
def test_stream_refuses_an_agent_whose_text_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    real = stream.deltas
    monkeypatch.setattr(stream, "_chunk", lambda line: real(1)[0] if b"chunk" in line else "")
    with pytest.raises(RuntimeError, match="not what the model said"):
        stream.main(["-n", "1", "--deltas", "3", "--paced-deltas", "1", "--only", TRANSLATOR])


def test_imports_takes_bare_python_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "imports.json"
    chosen = {name: imports.STATEMENTS[name] for name in (imports.BARE, "codex_acp")}
    monkeypatch.setattr(imports, "STATEMENTS", chosen)

    assert imports.main(["-n", "1", "--json", str(file)]) == 0

    samples = _samples(file, "imports")
    assert samples[imports.BARE][imports.WALL] == [0.0]
    assert tuple(samples) == (imports.BARE, "codex_acp")


@pytest.mark.parametrize("statement", imports.STATEMENTS.values())
def test_every_import_that_is_measured_exists(statement: str) -> None:
    assert all(value > 0 for value in imports.measure_import(statement).values())


def test_the_table_has_medians_quartiles_and_ratios() -> None:
    text = table({"a": {"x": [1.0, 2.0, 3.0]}, "b": {"x": [4.0]}}, reference="a")
    assert text.splitlines() == [
        "x",
        "  a       2.00  (1.50 to 2.50)  x 1.00",
        "  b       4.00  (4.00 to 4.00)  x 2.00",
        "",
        "median (quartiles) x ratio to a",
    ]


def _options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_agent_options(parser)
    return parser.parse_args(argv)


def test_the_official_adapter_is_left_out_with_a_message_when_node_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = agents_from(_options("--official", "somewhere"), tmp_path, with_codex=False)
    assert [agent.name for agent in found] == [OURS, TRANSLATOR]
    assert "node is not on PATH" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "@agentclientprotocol/codex-acp", "dist/index.js"])
def test_the_official_adapter_is_found_wherever_the_option_points(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "@agentclientprotocol" / "codex-acp"
    (package / "dist").mkdir(parents=True)
    script = package / "dist" / "index.js"
    script.write_text("")
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = package / below if below.startswith("dist") else tmp_path / below
    found = agents_from(
        _options("--official", str(path), "--only", "official"), tmp_path, with_codex=False
    )
    assert [agent.argv for agent in found] == [(str(node), str(script.resolve()))]


def test_an_unknown_name_or_agent_ends_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=OURS):
        agents_from(_options("--only", "nobody"), tmp_path, with_codex=False)
    with pytest.raises(SystemExit, match="NAME=COMMAND"):
        agents_from(_options("--agent", "nobody"), tmp_path, with_codex=False)


def test_a_process_that_ends_early_is_reported_with_its_stderr(tmp_path: Path) -> None:
    agent = Agent("dies", (sys.executable, "-c", "import sys; sys.exit('no such luck')"))
    with (
        AgentProcess(agent, {}, tmp_path) as process,
        pytest.raises(RuntimeError, match=r"dies ended before it answered(?s:.*)no such luck"),
    ):
        process.request("initialize", {})
