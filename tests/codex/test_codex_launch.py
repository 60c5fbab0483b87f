"""Starting the app-server process, without the real Codex."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from codex_acp.codex.client import CodexClient
from codex_acp.codex.connection import agent_guard
from codex_acp.codex.connection.agent_guard import hook_arguments
from codex_acp.codex.connection.launch import (
    UNLOAD_AT_ONCE,
    LaunchOptions,
    codex_version,
    spawn_app_server,
)
from codex_acp.errors import (
    CodexNotExecutable,
    CodexNotFound,
    LaunchError,
    MisuseError,
    ProcessExited,
    TransportError,
)
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import AppServerScript, Exit, Expect, ScriptedCodex, StderrText
from codex_acp.transport.child import ChildProcess

WAIT_SECONDS = 60

TELL = """#!{python}
import json, os, sys
place = os.path.dirname(__file__)
with open(os.path.join(place, "told.json"), "w") as file:
    json.dump({{"argv": sys.argv[1:], "path": os.environ.get("PATH"), "cwd": os.getcwd(),
               "extra": os.environ.get("EXTRA")}}, file)
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


class UntilClosed:
    """A receiver that waits for the end of the link."""

    def __init__(self) -> None:
        self.closed = anyio.Event()

    def data_received(self, data: bytes) -> None:
        raise AssertionError(data)

    def link_closed(self, error: TransportError | None) -> None:
        assert isinstance(error, ProcessExited)
        assert error.returncode == 0
        self.closed.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


async def told(tmp_path: Path, options: LaunchOptions) -> dict[str, object]:
    """What a program that tells of itself says, started in place of Codex."""
    child = spawn_app_server(options)
    end = UntilClosed()
    try:
        child.start(end)
        with anyio.fail_after(WAIT_SECONDS):
            await end.closed.wait()
    finally:
        await child.aclose()
    result: dict[str, object] = json.loads((tmp_path / "told.json").read_text())
    return result


async def test_the_command_line_the_environment_and_the_directory(tmp_path: Path) -> None:
    codex = script(tmp_path / "codex", TELL.format(python=sys.executable))
    work = tmp_path / "work"
    work.mkdir()
    options = LaunchOptions(
        str(codex), ("-c", "model=gpt-5.5"), {"PATH": "/bin", "EXTRA": "yes"}, str(work)
    )
    said = await told(tmp_path, options)
    guard = hook_arguments(sys.executable, agent_guard.__file__)
    assert said["argv"] == ["app-server", *guard, *UNLOAD_AT_ONCE, "-c", "model=gpt-5.5"]
    assert (said["path"], said["extra"]) == ("/bin", "yes")
    assert said["cwd"] == str(work.resolve())


@pytest.mark.parametrize("env", [None, {"PATH": "/bin"}, {}])
async def test_the_helpers_of_the_wheel_come_first_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str] | None
) -> None:
    package = tmp_path / "fake_codex_wheel"
    (package / "bin").mkdir(parents=True)
    (package / "codex-path").mkdir()
    (package / "__init__.py").write_text("")
    tell = TELL.format(python=sys.executable).replace("__file__", repr(str(tmp_path / "x")))
    script(package / "bin" / "codex", tell)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("codex_acp.codex.connection.launch.WHEEL_MODULE", "fake_codex_wheel")
    monkeypatch.delenv("CODEX_PATH", raising=False)
    said = await told(tmp_path, LaunchOptions(env=env))
    first, *rest = str(said["path"]).split(os.pathsep)
    assert first == str(package / "codex-path")
    expected = os.environ["PATH"].split(os.pathsep) if env is None else list(env.values())
    assert rest == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"not a program", "Exec format error"), (b"#!/no/such/interpreter\n", "No such file")],
)
def test_a_file_that_is_no_program_is_not_executable(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "codex"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(CodexNotExecutable, match=reason):
        spawn_app_server(LaunchOptions(str(path)))
    with pytest.raises(CodexNotExecutable, match=reason):
        codex_version(str(path))


def test_a_missing_binary_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(CodexNotFound, match="missing"):
        CodexClient.start(LaunchOptions(tmp_path / "missing"))


def test_the_environment_of_the_options_names_the_binary_too(tmp_path: Path) -> None:
    with pytest.raises(CodexNotFound, match="CODEX_PATH names"):
        spawn_app_server(LaunchOptions(env={"CODEX_PATH": str(tmp_path / "nothing")}))


def test_a_missing_directory_is_a_launch_error(tmp_path: Path) -> None:
    codex = script(tmp_path / "codex", "#!/bin/sh\n")
    with pytest.raises(LaunchError, match=r"cannot start in .*nowhere") as caught:
        spawn_app_server(LaunchOptions(codex, cwd=tmp_path / "nowhere"))
    assert not isinstance(caught.value, (CodexNotFound, CodexNotExecutable))


async def test_dying_at_the_start_gives_the_end_of_its_stderr(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [StderrText("config.toml: line 3 is wrong"), Exit(3)])
    client = CodexClient.start(LaunchOptions(codex.path))
    with anyio.fail_after(WAIT_SECONDS), pytest.raises(ProcessExited) as caught:
        await client.connect()
    assert caught.value.returncode == 3
    assert "line 3 is wrong" in caught.value.stderr_tail
    assert "line 3 is wrong" in str(caught.value)


async def test_the_handshake_begins_before_there_is_an_event_loop(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, AppServerScript(defaults=True))
    lines: list[tuple[str, bytes]] = []
    client = CodexClient.start(
        LaunchOptions(codex.path), on_line=lambda way, line: lines.append((way, line))
    )
    with anyio.fail_after(WAIT_SECONDS):  # nobody has entered it yet
        while not codex.record().requests("initialize"):  # noqa: ASYNC110 - another process's file
            await anyio.sleep(0.01)
    async with client:
        assert client.server.user_agent
    assert [line["method"] for line in codex.record().received] == ["initialize", "initialized"]
    # Whoever watches the wire sees what was said early, once, and first.
    assert [way for way, _ in lines] == ["sent", "received", "sent"]
    assert json.loads(lines[0][1]) == codex.record().requests("initialize")[0]


async def test_a_handshake_that_does_not_fit_in_the_pipe_at_once_is_said_later(
    tmp_path: Path,
) -> None:
    codex = ScriptedCodex(tmp_path, AppServerScript(defaults=True))
    long_name: dict[str, JsonValue] = {"name": "n" * 200_000, "version": "1"}
    async with CodexClient.start(LaunchOptions(codex.path), client_info=long_name):
        pass
    (said,) = codex.record().requests("initialize")
    params = said["params"]
    assert isinstance(params, dict)
    assert params["clientInfo"] == long_name


def test_settings_that_make_no_client_leave_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = ScriptedCodex(tmp_path, [Expect("initialize")])
    started: list[ChildProcess] = []

    def spawn(options: LaunchOptions | None = None) -> ChildProcess:
        started.append(spawn_app_server(options))
        return started[0]

    monkeypatch.setattr("codex_acp.codex.client.spawn_app_server", spawn)
    with pytest.raises(MisuseError):
        CodexClient.start(LaunchOptions(codex.path), tools=[lambda question: question])
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)


def test_the_version_is_what_the_binary_tells(tmp_path: Path) -> None:
    assert codex_version(str(ScriptedCodex(tmp_path, [], version="1.2.3").path)) == "1.2.3"


def test_a_program_that_tells_no_version_is_a_launch_error(tmp_path: Path) -> None:
    silent = script(tmp_path / "silent", "#!/bin/sh\n")
    with pytest.raises(LaunchError, match="not a Codex"):
        codex_version(str(silent))
    failing = script(tmp_path / "failing", "#!/bin/sh\necho 'no such option' >&2\nexit 2\n")
    with pytest.raises(LaunchError, match=r"status 2.*no such option"):
        codex_version(str(failing))


def test_launch_options_are_a_value() -> None:
    options = LaunchOptions("codex", ["-c", "a=1"], {"A": "secret"}, "/w")
    same = LaunchOptions("codex", ("-c", "a=1"), {"A": "secret"}, "/w")
    assert options == same
    assert hash(options) == hash(same)
    assert options != LaunchOptions("codex")
    assert "secret" not in repr(options)
    with pytest.raises(AttributeError, match="cannot be changed"):
        options.cwd = "/other"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del options.cwd
