"""The throw-away CODEX_HOME."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codex_acp.errors import MisuseError
from codex_acp.testing import CodexHome
from codex_acp.testing import codex_home as module
from codex_acp.testing.codex_home import TomlValue


def config_of(home: CodexHome) -> dict[str, Any]:
    return tomllib.loads(home.config_file.read_text())


def test_the_configuration_points_to_the_model() -> None:
    with CodexHome("http://127.0.0.1:1/v1", approval_policy="never", model="m") as home:
        config = config_of(home)
    assert config["model_providers"][config["model_provider"]]["base_url"].endswith(":1/v1")
    assert (config["approval_policy"], config["model"]) == ("never", "m")


def test_extra_settings_are_merged_into_the_tables() -> None:
    extra: dict[str, TomlValue] = {
        "model_providers": {"scripted": {"name": "other"}},
        "features": {"x": True},
    }
    servers = {"notes": {"command": "run", "args": ["a b", 'c"d']}}
    with CodexHome("http://u", config=extra, mcp_servers=servers) as home:
        config = config_of(home)
    provider = config["model_providers"]["scripted"]
    assert (provider["name"], provider["base_url"]) == ("other", "http://u")
    assert config["features"] == {"plugins": False, "x": True}
    assert config["mcp_servers"] == servers


def test_the_environment_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "HTTPS_PROXY", "http_proxy", "SECRET"):
        monkeypatch.setenv(name, "leak")
    monkeypatch.setenv("CODEX_HOME", "leak")
    with CodexHome() as home:
        env = home.env
        assert env["CODEX_HOME"] == str(home.codex_home)
        assert env["HOME"] == str(home.home)
    assert "leak" not in env.values()
    assert "PATH" in env
    assert "127.0.0.1" in env["NO_PROXY"]


def test_the_directories_exist_for_the_time_of_the_with(tmp_path: Path) -> None:
    with CodexHome(parent=tmp_path) as home:
        root = home.root
        assert root.parent == tmp_path.resolve()
        assert list(home.workspace.iterdir()) == []
        assert list(home.home.iterdir()) == []
    assert not root.exists()
    with pytest.raises(MisuseError, match="with statement"):
        _ = home.root


def test_removal_survives_a_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tries find the directory filled again, as by a Codex that still writes."""
    tries: list[Path] = []
    real = shutil.rmtree

    def refill(path: Path, ignore_errors: bool) -> None:
        real(path, ignore_errors=ignore_errors)
        tries.append(path)
        if len(tries) < 3:
            (path / "late").mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", refill)
    monkeypatch.setattr(module, "REMOVE_PAUSE_SECONDS", 0.0)
    with CodexHome() as home:
        root = home.root
    assert len(tries) == 3
    assert not root.exists()


def test_removal_gives_up_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_args, **_options: None)
    monkeypatch.setattr(module, "REMOVE_PAUSE_SECONDS", 0.0)
    with CodexHome() as home:
        root = home.root
    assert root.exists()
    real(root)
