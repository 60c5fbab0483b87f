"""What a directory, a model's command or another user of the machine may learn or start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from codex_acp.adapter.login_check import login_ways
from codex_acp.cli.doctor import _command
from codex_acp.codex.connection.launch import remote_link
from codex_acp.runtime import AgentSpec
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


class _Quoting(BaseHTTPRequestHandler):
    """Points to itself, or quotes what it was asked: whole, and the value alone."""

    def do_GET(self) -> None:
        moved = self.path.startswith("/moved")
        said = f"no agent at {self.path}; is the token {SECRET} right?".encode()
        self.send_response(307 if moved else 404)
        if moved:
            self.send_header("Location", f"http://user:{SECRET}@127.0.0.1{self.path}")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def quoting_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Quoting)
    running = threading.Thread(target=server.serve_forever, daemon=True)
    running.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    running.join()


ADDRESSES = {
    "nobody there": "http://127.0.0.1:9/acp?token=",
    "nobody there, by a websocket": "ws://127.0.0.1:9/acp?token=",
    "not found": "http://127.0.0.1:{}/acp?token=",
    "not found, by a websocket": "ws://127.0.0.1:{}/acp?token=",
    "moved": "http://127.0.0.1:{}/moved?token=",
    "moved, by a websocket": "ws://127.0.0.1:{}/moved?token=",
    "a login": f"wss://user:{SECRET}@127.0.0.1:9/acp?x=",
    "no such scheme": "ftp://127.0.0.1/acp?token=",
    "no port": "ws://127.0.0.1:port/acp?token=",
    "no host": "http://[::1/acp?token=",
}


@pytest.mark.attack("network")
@pytest.mark.parametrize("where", ADDRESSES.values(), ids=ADDRESSES)
def test_a_token_in_an_agents_url_is_not_printed_when_it_fails(
    where: str, quoting_port: int, tmp_path: Path
) -> None:
    url = where.format(quoting_port) + SECRET
    done = subprocess.run(
        [sys.executable, "-P", "-m", "codex_acp", "run", "--connect", url, "Hi"],
        cwd=tmp_path, env={**os.environ, "CODEX_ACP_LOG": "DEBUG"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert "error: " in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.attack("network")
def test_a_token_in_an_agents_url_stands_in_no_representation() -> None:
    url = f"http://127.0.0.1:9/acp?token={SECRET}"
    spec = AgentSpec.remote(url)
    link = remote_link(f"ws://127.0.0.1:9/x?token={SECRET}")
    assert spec.name == "http://127.0.0.1:9/acp"
    assert SECRET not in repr((spec, spec.link, link))
