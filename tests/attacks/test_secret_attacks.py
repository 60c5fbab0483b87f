"""What a directory, a model's command or another user of the machine may learn or start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codex_acp.adapter.logins.ways import login_ways
from codex_acp.cli.doctor.command import _command
from codex_acp.testing import CodexHome, ScriptedModel, Step, Text, exec_command
from tests.e2e.either_version import EitherVersion
from tests.network.listening_adapter import ListeningAdapter

SECRET = "qz7-secret-of-the-environment"

READS_ALL = (
    "for each in /proc/[0-9]*/environ; do tr '\\0' '\\n' <$each; done 2>/dev/null"
    " | grep -a -o 'qz7-secret-of-the-enviro[n]ment'; echo read"
)
"""Every environment that the user may read; the pattern is not what it finds."""


def strangers_directory(folder: Path, *names: str) -> Path:
    """A directory whose modules leave a file when they are imported."""
    folder.mkdir()
    for name in names:
        text = f"from pathlib import Path\nPath({str(folder / 'ran')!r}).write_text({name!r})\n"
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.mark.attack("repository")
@pytest.mark.parametrize("said_by", ["login", "doctor"])
def test_a_module_in_the_directory_is_not_run_by_the_command_that_is_told(
    said_by: str, tmp_path: Path
) -> None:
    where = strangers_directory(tmp_path / "work", "codex_acp", "anyio", "json", "argparse")
    told = login_ways({}, None).command if said_by == "login" else _command("no-such-program")
    done = subprocess.run([*told, "help"], cwd=where, capture_output=True, text=True, check=False)
    assert not (where / "ran").exists()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage:")


@pytest.mark.attack("repository")
def test_a_module_in_the_directory_is_not_run_where_somebody_starts_the_package(
    tmp_path: Path,
) -> None:
    where = strangers_directory(tmp_path / "work", "anyio", "argparse", "asyncio", "signal")
    told = [sys.executable, "-m", "codex_acp", "run", "--command", "/bin/false", "x"]
    subprocess.run(told, cwd=where, capture_output=True, check=False)
    assert not (where / "ran").exists()


@pytest.mark.attack("model")
async def test_no_command_outside_of_the_sandbox_finds_the_token_of_clients(tmp_path: Path) -> None:
    script: list[list[Step]] = [[exec_command(READS_ALL)], [Text("Done.")]]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, sandbox_mode="danger-full-access") as home,
        ListeningAdapter({**home.env, "CODEX_ACP_TOKEN": SECRET}, tmp_path) as adapter,
    ):
        async with adapter.connect() as client:
            session = await client.new_session(home.workspace)
            await client.outcome(await client.prompt(session))
        read = model.requests[-1].tool_outputs
        assert "read" in str(read)
        assert SECRET not in str(read)


@pytest.mark.attack("model")
def test_a_token_that_no_command_asked_for_goes_no_further() -> None:
    login = {"methodId": "api-key", "_meta": {"api-key": {"apiKey": SECRET}}}
    variables = {"CODEX_ACP_TOKEN": SECRET, "DEFAULT_AUTH_REQUEST": json.dumps(login)}
    for name, value in variables.items():
        with EitherVersion(
            1, [[exec_command(READS_ALL)], [Text("Done.")]], env={name: value},
            sandbox_mode="danger-full-access",
        ) as it:  # fmt: skip
            it.prompt(it.new(), "Look.")
            read = it.model.requests[-1].tool_outputs
            assert "read" in str(read), name
            assert SECRET not in str(read), name
