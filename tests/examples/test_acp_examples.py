"""The examples on the protocol itself: an agent and a client of one's own, without any Codex."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from codex_acp.runtime import AgentRuntime, AgentSpec
from tests.examples.example_bench import EXAMPLES, WAIT_SECONDS, untested

AGENT = [sys.executable, "-W", "error", str(EXAMPLES / "acp_agent.py")]


AGENT_OF_VERSION_2 = [*AGENT[:-1], str(EXAMPLES / "acp_v2_agent.py")]


def printed(directory: Path, text: str, *, is_v2: bool = False) -> str:
    client = EXAMPLES / ("acp_v2_client.py" if is_v2 else "acp_client.py")
    agent = AGENT_OF_VERSION_2 if is_v2 else AGENT
    done = subprocess.run(
        [sys.executable, "-W", "error", str(client), text, *agent],
        cwd=directory, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_example_of_the_protocol_has_a_test() -> None:
    assert untested("acp_*.py", __file__) == []


def test_an_agent_of_ones_own_answers_a_client_of_ones_own(tmp_path: Path) -> None:
    assert printed(tmp_path, "Hello") == "You said: Hello\n(end_turn)\n"


def test_the_agent_deletes_nothing_that_nobody_allowed(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("kept")
    assert printed(tmp_path, "delete notes.txt") == "Then it stays.\n(end_turn)\n"
    assert file.exists()


def test_an_agent_and_a_client_of_version_2(tmp_path: Path) -> None:
    assert printed(tmp_path, "Hello", is_v2=True) == "You said: Hello\n(end_turn)\n"


async def test_the_runtime_runs_the_agent_of_version_2(tmp_path: Path) -> None:
    spec = AgentSpec(AGENT_OF_VERSION_2)
    async with AgentRuntime() as runtime, runtime.open(spec, cwd=tmp_path) as session:
        result = await session.run("Hello")
    assert (result.text, result.stop_reason) == ("You said: Hello", "end_turn")
