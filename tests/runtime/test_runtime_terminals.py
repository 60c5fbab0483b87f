"""``terminal/*``: commands of the agent with their limits, and nothing of them left at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from codex_acp.acp.types import CreateTerminalRequest, EnvVariable
from codex_acp.errors import RpcError
from codex_acp.runtime import AgentRuntime, TerminalAccess
from codex_acp.runtime.terminals import OutputTail, Terminals
from tests.runtime.scripted_agent import ScriptedAgent
from tests.support.processes import lives

WAIT = 60.0


def command(*argv: str, **more: object) -> CreateTerminalRequest:
    return CreateTerminalRequest.model_validate(
        {"sessionId": "s", "command": argv[0], "args": list(argv[1:]), **more}
    )


def python(code: str, **more: object) -> CreateTerminalRequest:
    return command(sys.executable, "-c", code, **more)


async def run(terminals: Terminals, request: CreateTerminalRequest) -> str:
    """The id of a terminal whose command has ended."""
    terminal_id = (await terminals.create(request)).terminal_id
    with anyio.fail_after(WAIT):
        await terminals.wait_for_exit(terminal_id)
    return terminal_id


async def test_a_command_runs_in_the_sessions_directory_and_its_output_is_kept(
    tmp_path: Path,
) -> None:
    terminals = Terminals(TerminalAccess(), str(tmp_path))
    code = "import os, sys; print(os.getcwd(), os.environ['X'], flush=True)"
    code += "; print('err', file=sys.stderr)"
    terminal = await run(terminals, python(code, env=[EnvVariable(name="X", value="7")]))
    answer = terminals.output(terminal)
    assert answer.output == f"{tmp_path} 7\nerr\n"
    assert answer.truncated is False
    assert answer.exit_status is not None
    assert (answer.exit_status.exit_code, answer.exit_status.signal) == (0, None)
    await terminals.aclose()


async def test_exit_codes_and_signals_are_told_apart(tmp_path: Path) -> None:
    terminals = Terminals(TerminalAccess(), str(tmp_path))
    failed = await run(terminals, python("raise SystemExit(3)"))
    assert (await terminals.wait_for_exit(failed)).exit_code == 3
    running = (await terminals.create(command("sleep", "600"))).terminal_id
    assert terminals.output(running).exit_status is None
    with anyio.fail_after(WAIT):
        await terminals.kill(running)
        ended = await terminals.wait_for_exit(running)
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")
    assert terminals.output(running).output == ""
    await terminals.aclose()


async def test_the_output_is_cut_from_its_start(tmp_path: Path) -> None:
    terminals = Terminals(TerminalAccess(output_limit=100), str(tmp_path))
    code = "import sys; sys.stdout.write('é' * 1000 + 'end')"
    whole = await run(terminals, python(code))
    answer = terminals.output(whole)
    assert answer.truncated is True
    assert answer.output == "é" * 48 + "end"
    asked = await run(terminals, python(code, outputByteLimit=10))
    assert terminals.output(asked).output == "ééé" + "end"
    more = await run(terminals, python(code, outputByteLimit=10_000))
    assert len(terminals.output(more).output.encode()) <= 100
    await terminals.aclose()


@pytest.mark.parametrize("text", ["aé", "a€", "a😀"])
def test_a_character_is_never_cut_in_two(text: str) -> None:
    data = text.encode()
    for limit in range(len(data) + 1):
        tail = OutputTail(limit)
        for byte in data:
            tail.feed(bytes([byte]))
            assert "\ufffd" not in tail.text(complete=False)
        assert text.endswith(tail.text(complete=True))
        assert len(tail.text(complete=True).encode()) <= limit


def test_output_that_is_no_utf8_is_shown_with_replacements() -> None:
    tail = OutputTail(100)
    tail.feed(b"a\xffb\xe2")
    assert tail.text(complete=True) == "a\ufffdb\ufffd"


async def test_the_number_of_terminals_is_limited_until_they_are_released(tmp_path: Path) -> None:
    terminals = Terminals(TerminalAccess(max_terminals=2), str(tmp_path))
    first = await run(terminals, command("true"))
    await run(terminals, command("true"))
    with pytest.raises(RpcError, match="release one first"):
        await terminals.create(command("true"))
    await terminals.release(first)
    await run(terminals, command("true"))
    with pytest.raises(RpcError) as gone:
        terminals.output(first)
    assert gone.value.code == -32002
    await terminals.aclose()


@pytest.mark.parametrize(
    "request_",
    [
        command("no-such-command-here"),
        command("true", cwd="relative"),
        command("true", cwd="/no/such/directory"),
        command("tr\0ue"),
    ],
    ids=["unknown", "relative cwd", "missing cwd", "nul"],
)
async def test_a_command_that_cannot_be_run_is_an_error(
    tmp_path: Path, request_: CreateTerminalRequest
) -> None:
    terminals = Terminals(TerminalAccess(), str(tmp_path))
    with pytest.raises(RpcError) as refused:
        await terminals.create(request_)
    assert refused.value.code == -32602
    await terminals.aclose()


def fails(_request: CreateTerminalRequest) -> bool:
    raise ZeroDivisionError


async def yes(_request: CreateTerminalRequest) -> bool:
    return True


@pytest.mark.parametrize(
    ("approve", "runs"),
    [
        (lambda _: True, True),
        (yes, True),
        (lambda _: False, False),
        (lambda _: None, False),
        (lambda _: "yes", False),
        (fails, False),
    ],
)
async def test_a_command_runs_only_if_it_is_approved(
    tmp_path: Path, approve: Callable[[CreateTerminalRequest], bool | Awaitable[bool]], runs: bool
) -> None:
    terminals = Terminals(TerminalAccess(approve=approve), str(tmp_path))
    request = command("touch", "made")
    if runs:
        await run(terminals, request)
    else:
        with pytest.raises(RpcError, match="not permitted"):
            await terminals.create(request)
    assert (tmp_path / "made").exists() is runs
    await terminals.aclose()


@pytest.mark.parametrize("how", ["release", "close"])
async def test_what_a_command_started_ends_with_its_terminal(tmp_path: Path, how: str) -> None:
    terminals = Terminals(TerminalAccess(), str(tmp_path))
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "stubborn = subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 600 & wait'])\n"
        "print(child.pid, stubborn.pid, flush=True)\n"
    )
    terminal = await run(terminals, python(code))
    pids = [int(word) for word in terminals.output(terminal).output.split()]
    assert len(pids) == 2
    assert all(lives(pid) for pid in pids)
    with anyio.fail_after(WAIT):
        if how == "release":
            await terminals.release(terminal)
        await terminals.aclose()
    assert not any(lives(pid) for pid in pids)


async def test_a_session_that_closes_takes_its_terminals_with_it(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with (
        AgentRuntime(terminals=TerminalAccess()) as runtime,
        runtime.open(agent.spec(), cwd=tmp_path) as session,
    ):
        capabilities = agent.initialized_with[0].client_capabilities
        assert capabilities is not None
        assert capabilities.terminal is True
        request = command("sleep", "600")
        request.session_id = session.session_id
        created = await agent.side.terminal_create(request)
        pid = session._state.answers.terminals._find(created.terminal_id)._process.pid
        assert lives(pid)
    assert not lives(pid)


async def test_without_access_nothing_is_advertised_and_nothing_runs(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), cwd=tmp_path) as session:
        capabilities = agent.initialized_with[0].client_capabilities
        assert capabilities is not None
        assert capabilities.terminal is False
        request = command("touch", "made")
        request.session_id = session.session_id
        with pytest.raises(Exception, match="not offered"):
            await agent.side.terminal_create(request)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - in an async function
