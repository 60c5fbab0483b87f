"""``codex-acp-sdk run --connect``: one prompt to an agent that listens."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from tests.e2e.adapter_bench import COMMAND
from tests.network.listening_adapter import TOKEN, WAIT
from tests.network.served import served


async def run(*arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command with these arguments."""
    env = {name: value for name, value in os.environ.items() if name != "CODEX_ACP_TOKEN"}
    if token is not None:
        env["CODEX_ACP_TOKEN"] = token
    return await to_thread.run_sync(
        lambda: subprocess.run(
            [COMMAND, "run", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
    )


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_prompt_goes_to_an_agent_that_listens(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, scheme=scheme) as server:
        where = ("--connect", server.url, "--cwd", str(tmp_path))
        done = await run(*where, "--token-file", str(server.token_file), "hello")
        assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
        done = await run(*where, "hello", token=TOKEN)
        assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
        done = await run(*where, "hello")
        assert done.returncode == 1
        assert "401 no token" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--token-file", "x"), "is for --connect"),
        (("--connect", "ws://127.0.0.1:9/acp", "--token-file", "/no/such"), "cannot be read"),
        (("--connect", "ftp://127.0.0.1:9/acp"), "no address"),
        (("--connect", "ws://127.0.0.1:9/acp", "--trust", "/"), "--trust"),
        (("--connect", "ws://127.0.0.1:9/acp", "--agent", "codex"), "not allowed"),
    ],
)
async def test_what_makes_no_sense_is_said(arguments: tuple[str, ...], said: str) -> None:
    done = await run(*arguments, "hello")
    assert done.returncode == 2
    assert said in done.stderr
