"""``codex-acp-sdk --version``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codex_acp import __version__
from codex_acp.cli.main import main
from codex_acp.codex.connection import launch
from codex_acp.testing import ScriptedCodex

PINNED = Path(__file__).resolve().parents[2] / "schema" / "PINNED.json"


def test_it_names_every_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codex = ScriptedCodex(tmp_path, [], version="9.8.7")
    monkeypatch.setenv("CODEX_PATH", str(codex.path))
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"codex-acp-sdk {__version__}",
        "Codex schema  0.171.0 (npm @openai/codex)",
        "ACP schema    v1 and v2 (npm @agentclientprotocol/sdk 2.4.0)",
        f"Codex binary  9.8.7 at {codex.path} (named by CODEX_PATH)",
    ]


def test_the_schema_versions_are_the_pinned_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    out = capsys.readouterr().out
    pinned = json.dumps(json.loads(PINNED.read_text(encoding="utf-8")))
    for version in ("0.163.0", "2.4.0"):
        assert f'"{version}"' in pinned
        assert version in out


@pytest.mark.e2e
def test_it_asks_the_real_binary_of_the_wheel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CODEX_PATH", raising=False)
    assert main(["--version"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Codex binary  0.163.0 at /")
    assert last.endswith("(from the wheel openai-codex-cli-bin)")


def test_an_option_names_the_binary(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [], version="1.2.3")
    assert main(["--codex", str(codex.path), "--version"]) == 0
    assert f"1.2.3 at {codex.path} (named by --codex)" in capsys.readouterr().out


def test_without_a_codex_it_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CODEX_PATH", raising=False)
    monkeypatch.setattr(launch, "WHEEL_MODULE", "there_is_none")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"codex-acp-sdk {__version__}\n")
    assert "no Codex binary was found" in out
    assert "pip install 'codex-acp-sdk[codex]'" in out


@pytest.mark.parametrize("by", ["--codex", "CODEX_PATH"])
def test_a_codex_that_is_named_has_to_be_there(
    by: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "none")
    monkeypatch.setenv("CODEX_PATH", missing)
    assert main(["--version", *(["--codex", missing] if by == "--codex" else [])]) == 1
    label = "codex (--codex)" if by == "--codex" else by
    assert f"{label} names {missing!r}, which does not exist" in capsys.readouterr().out


def test_what_is_no_codex_is_called_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    program.chmod(0o755)
    assert main(["--version", "--codex", str(program)]) == 1
    assert "is not a Codex" in capsys.readouterr().out


def test_a_codex_that_is_too_old_is_called_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    codex = ScriptedCodex(tmp_path, [], version="0.80.0")
    assert main(["--version", "--codex", str(codex.path)]) == 1
    assert f"{codex.path} (named by --codex): Codex 0.80.0 is too old" in capsys.readouterr().out
