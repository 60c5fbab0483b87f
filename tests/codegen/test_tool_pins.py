"""Exact pins of tools: found where they stand, and moved there and nowhere else."""

from __future__ import annotations

from pathlib import Path

from codegen.pinned import ROOT
from codegen.tool_pins import _NPM, _PYPI, NPM_FILES, PYPI_FILES, move, pins


def test_the_projects_pins_are_found() -> None:
    pypi = {pin.name for pin in pins(ROOT, PYPI_FILES, _PYPI)}
    npm = {pin.name for pin in pins(ROOT, NPM_FILES, _NPM)}
    assert {"ruff", "mypy", "datamodel-code-generator", "agent-client-protocol"} <= pypi
    assert not pypi & {"pydantic", "openai-codex-cli-bin"}
    assert {"acpx", "@agentclientprotocol/sdk"} <= npm


def test_a_pin_is_moved_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('["ruff==1.0", "mypy==2.0", "pydantic==3", "nox>=4"]\n')
    said = move(tmp_path, ["a.toml"], _PYPI, {"ruff": "1.1", "mypy": "2.0"}.__getitem__)
    assert said == ["a.toml: ruff 1.0 → 1.1"]
    assert (tmp_path / "a.toml").read_text() == (
        '["ruff==1.1", "mypy==2.0", "pydantic==3", "nox>=4"]\n'
    )


def test_npm_packages_too(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"acpx": "0.19.1"}}')
    assert move(tmp_path, ["package.json"], _NPM, lambda _: "0.20.0")
    assert '"acpx": "0.20.0"' in (tmp_path / "package.json").read_text()
