"""``codex-acp-sdk doctor`` with the real Codex: what it says, and what it leaves alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_acp.cli.main import main
from codex_acp.testing import McpScript, ScriptedMcpServer
from codex_acp.testing.codex_home import toml_text
from tests.cli.command import environment, run

SECRETS = ("zsecret-key-1", "zsecret-header", "zsecret-variable", "zsecret-argument", "zsecret-url")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder, with what it holds and when it was written."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home" / ".codex"
    path.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.setenv("CODEX_HOME", str(path))
    return path


def report(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, dict[str, Any]]:
    code = main(["doctor", "--json", *options])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out, {one["check"]: one for one in json.loads(out)["checks"]}


def test_a_full_configuration_with_secrets(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = [sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])", "zsecret-argument"]
    good = ScriptedMcpServer(tmp_path, McpScript())
    config: dict[str, Any] = {
        "model_provider": "corp", "approval_policy": "never", "sandbox_mode": "danger-full-access",
        "model_providers": {"corp": {
            "name": "corp", "base_url": "http://127.0.0.1:9/v1", "wire_api": "responses",
            "env_key": "A_KEY_THAT_IS_NOT_SET", "http_headers": {"X": "zsecret-header"},
        }},
        "mcp_servers": {
            "works": {**good.config, "required": False},
            "gone": {"command": "/none/server", "env": {"WHERE": "zsecret-variable"}},
            "ends": {"command": silent[0], "args": silent[1:]},
            "off": {"command": "/none/server", "enabled": False},
            "web": {"url": "http://127.0.0.1:9/mcp?key=zsecret-url"},
        },
    }  # fmt: skip
    (home / "config.toml").write_text(f"# zsecret-key-1\n{toml_text(config)}")
    (home / "auth.json").write_text('{"OPENAI_API_KEY": "zsecret-key-1"}')
    (home / "auth.json").chmod(0o600)
    before = tree(home.parent)
    code, out, checks = report(capsys)
    assert code == 1
    assert tree(home.parent) == before
    for secret in SECRETS:
        assert secret not in out
    assert checks["start"]["level"] == checks["codex_config"]["level"] == "ok"
    assert checks["sandbox"]["level"] == "ok", checks["sandbox"]
    assert "never to ask, and not to use its sandbox" in checks["approvals"]["text"]
    assert "A_KEY_THAT_IS_NOT_SET, which is not set" in checks["login"]["text"]
    servers = [one for one in json.loads(out)["checks"] if one["check"] == "mcp"]
    assert {one["text"].split("'")[1]: one["level"] for one in servers} == {
        "works": "ok", "gone": "problem", "ends": "problem", "off": "ok", "web": "problem",
    }  # fmt: skip
    (gone,) = [one["text"] for one in servers if "'gone'" in one["text"]]
    assert gone.endswith("does not start: No such file or directory (os error 2)")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('sandbox_mode = "zsecret-mode"\n', "config.toml:1:16: unknown variant \u2026, expected"),
        ('model_context_window = "zsecret"\n', "invalid type: string \u2026, expected i64"),
        ("model = 'x'\n[zsecret\n", "config.toml:2:9: unclosed table"),
    ],
    ids=["value", "type", "syntax"],
)
def test_a_configuration_that_codex_cannot_use(
    config: str, text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text(config)
    code, out, checks = report(capsys)
    assert code == 1
    assert checks["codex_config"]["level"] == "problem"
    assert text in checks["codex_config"]["text"]
    assert str(home) in checks["codex_config"]["text"]
    assert checks["codex_config"]["advice"] == "mend it; until then Codex opens no session"
    told = run(["run", "Go."], environment(home)).stderr.decode()
    assert "Codex could not start the session: " in told
    assert "zsecret" not in out
    assert checks["login"]["level"] == "warning"
    assert checks["sandbox"]["level"] == "ok"


def test_a_turn_and_an_editor_on_an_untouched_machine(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    env = environment(tmp_path, HOME=str(folder))
    env.pop("CODEX_HOME", None)
    done = run(["doctor", "--turn", "--editor", "zed"], env)
    out = done.stdout.decode()
    assert done.stderr == b""
    assert done.returncode == 1, out
    assert "ok       turn: a whole turn, with a command in the sandbox, went as scripted" in out
    assert "PROBLEM  login: nobody is logged in\n         -> log in: codex-acp-sdk login" in out
    assert "1 problem" in out
    settings = json.loads(out.partition("settings.json:\n")[2])
    assert os.access(settings["agent_servers"]["Codex (Python)"]["command"], os.X_OK)
    assert [path for path in tmp_path.rglob("*") if path != folder] == []
