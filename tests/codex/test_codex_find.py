"""Finding the binary: the order of the places, and what is said when none has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_acp.codex.connection import launch
from codex_acp.codex.connection.launch import find_codex
from codex_acp.errors import CodexNotExecutable, CodexNotFound


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    return str(path)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{launch.__name__}.WHEEL_MODULE", "no_such_codex_wheel")


def test_an_explicit_path_comes_first(tmp_path: Path) -> None:
    first, second = program(tmp_path / "one"), program(tmp_path / "two")
    found = find_codex(first, {"CODEX_PATH": second})
    assert (found.path, found.source, found.path_dir) == (first, "argument", None)


def test_codex_path_comes_before_the_wheel(tmp_path: Path) -> None:
    path = program(tmp_path / "one")
    found = find_codex(None, {"CODEX_PATH": path})
    assert (found.path, found.source) == (path, "CODEX_PATH")


def test_the_wheel_comes_before_the_path_and_brings_its_helpers(tmp_path: Path) -> None:
    import codex_cli_bin  # type: ignore[import-untyped]

    program(tmp_path / "codex")
    found = find_codex(None, {"PATH": str(tmp_path)})
    assert found.source == "wheel"
    assert Path(found.path).samefile(codex_cli_bin.bundled_codex_path())
    helpers = codex_cli_bin.bundled_path_dir()
    assert helpers is not None
    assert found.path_dir is not None
    assert Path(found.path_dir).samefile(helpers)
    assert (helpers / "rg").exists()


def test_a_wheel_with_another_layout_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = program(tmp_path / "elsewhere" / "codex")
    (tmp_path / "codex_wheel_of_tomorrow.py").write_text(
        f"def bundled_codex_path(): return {binary!r}\ndef bundled_path_dir(): return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(f"{launch.__name__}.WHEEL_MODULE", "codex_wheel_of_tomorrow")
    found = find_codex(None, {})
    assert (found.path, found.source, found.path_dir) == (binary, "wheel", None)


@pytest.mark.usefixtures("no_wheel")
def test_without_a_wheel_codex_on_the_path_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "a" / "codex", mode=0o644)
    path = program(tmp_path / "b" / "codex")
    env = {"PATH": os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])}
    found = find_codex(None, env)
    assert (found.path, found.source) == (path, "PATH")


def test_a_bare_name_is_looked_up_on_the_path(tmp_path: Path) -> None:
    path = program(tmp_path / "codex-nightly")
    assert find_codex("codex-nightly", {"PATH": str(tmp_path)}).path == path


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "bin" / "codex")
    monkeypatch.chdir(tmp_path)
    assert find_codex("bin/codex", {}).path == path


@pytest.mark.usefixtures("no_wheel")
def test_nothing_found_names_each_place_and_the_cure(tmp_path: Path) -> None:
    with pytest.raises(CodexNotFound) as caught:
        find_codex(None, {"PATH": str(tmp_path)})
    text = str(caught.value)
    for part in (
        "CODEX_PATH is not set",
        "openai-codex-cli-bin is not installed",
        "no 'codex' on PATH",
        "pip install 'codex-acp-sdk[codex]'",
        "npm install -g @openai/codex",
        "--codex",
    ):
        assert part in text


@pytest.mark.parametrize("named_by", ["--codex", "CODEX_PATH"])
@pytest.mark.parametrize("shape", ["{dir}/missing/codex", "codex-nightly"])
def test_a_named_binary_that_is_missing_is_never_replaced(
    tmp_path: Path, named_by: str, shape: str
) -> None:
    program(tmp_path / "codex")
    given = shape.format(dir=tmp_path)
    env = {"PATH": str(tmp_path)} | ({"CODEX_PATH": given} if named_by == "CODEX_PATH" else {})
    with pytest.raises(CodexNotFound) as caught:
        find_codex(given if named_by == "--codex" else None, env)
    assert named_by in str(caught.value)
    assert given in str(caught.value)
    assert "pip install" in str(caught.value)


def test_a_directory_and_a_file_without_permission_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CodexNotExecutable, match="is a directory"):
        find_codex(str(tmp_path), {})
    plain = program(tmp_path / "plain", mode=0o644)
    with pytest.raises(CodexNotExecutable, match="chmod"):
        find_codex(plain, {})
