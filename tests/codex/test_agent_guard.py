"""The hook that keeps a session's model to its own session's agents (contract 3.9c)."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from codex_acp.codex.connection import agent_guard
from codex_acp.codex.connection.agent_guard import REFUSED, hook_arguments, refusal
from codex_acp.mapping.messages import OWN_REFUSAL

ROOT, CHILD, GRANDCHILD, SIBLING, OTHER, OF_OTHER, FORGED, CIRCLE = (
    f"01a208ce-0386-7250-92f8-4b48b44a8f{n:02x}" for n in range(8)
)
PARENTS = {
    ROOT: None, CHILD: ROOT, GRANDCHILD: CHILD, SIBLING: ROOT, OTHER: None, OF_OTHER: OTHER,
    CIRCLE: CIRCLE,
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> str:
    folder = tmp_path / "sessions/2026/11/23"
    folder.mkdir(parents=True)
    for thread, parent in PARENTS.items():
        spawned = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
        payload = {"id": thread, "source": "vscode" if parent is None else spawned}
        line = json.dumps({"type": "session_meta", "payload": payload})
        (folder / f"rollout-2026-11-23T14-37-04-{thread}.jsonl").write_text(f"{line}\nmore\n")
    stolen = folder / f"rollout-2026-11-23T14-37-04-{FORGED}.jsonl"
    stolen.write_bytes((folder / f"rollout-2026-11-23T14-37-04-{CHILD}.jsonl").read_bytes())
    return str(tmp_path)


def call(tool: str, of: str = ROOT, agent: str | None = None, **given: object) -> dict[str, object]:
    """What Codex tells a hook of a call."""
    told: dict[str, object] = {
        "tool_name": f"multi_agent_v1{tool}",
        "session_id": of,
        "tool_input": given,
    }
    return told if agent is None else {**told, "agent_id": agent}


@pytest.mark.parametrize(
    "asked",
    [
        call("send_input", target=CHILD),
        call("send_input", target=GRANDCHILD),
        call("resume_agent", id=CHILD),
        call("close_agent", target=SIBLING),
        call("wait_agent", targets=[CHILD, SIBLING]),
        call("send_input", agent=CHILD, target=GRANDCHILD),
        call("send_input", agent=CHILD, target=SIBLING),
        {**call("send_input", target=OTHER), "tool_name": "mcp__mail__send_input"},
    ],
)
def test_3_9c_the_sessions_own_agents_are_reached(home: str, asked: dict[str, object]) -> None:
    assert refusal(asked, home) is None


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "asked",
    [
        call("send_input", target=OTHER),
        call("send_input", target=OF_OTHER),
        call("resume_agent", id=OTHER),
        call("close_agent", target=ROOT),
        call("send_input", agent=CHILD, target=ROOT),
        call("wait_agent", targets=[CHILD, OTHER]),
        call("send_input", target=CHILD, id=OTHER),
        call("send_input", target=FORGED),
        call("send_input", target=CHILD.upper()),
        call("send_input", target=CHILD.replace("-", "")),
        call("send_input", target=f"urn:uuid:{OTHER}"),
        call("send_input", target="../../../etc/passwd"),
        call("send_input", target="01a208ce-0386-7250-92f8-4b48b44a8fff"),
        call("send_input", of=OTHER, target=CHILD),
    ],
)
def test_3_9c_no_other_thread_is_reached(home: str, asked: dict[str, object]) -> None:
    assert "no sub-agent of this session" in str(refusal(asked, home))


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "told",
    [
        json.dumps(call("send_input", target=CIRCLE)).encode(),
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"tool_name": "send_input", "session_id": "x", "tool_input": null}',
        b"[" * 200_000,
        json.dumps(call("send_input", target=OTHER, message="x" * 5_000_000)).encode(),
    ],
)
def test_3_9c_what_cannot_be_read_is_refused(home: str, told: bytes) -> None:
    command = [sys.executable, "-I", "-S", agent_guard.__file__]
    env = {"CODEX_HOME": home}
    done = subprocess.run(command, input=told, env=env, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(REFUSED)
    assert b"Traceback" not in done.stderr


def test_a_session_taken_out_of_the_archive_reaches_the_agents_that_codex_left_there(
    home: str,
) -> None:
    (Path(home) / "sessions").rename(Path(home) / "archived_sessions")
    assert refusal(call("resume_agent", id=CHILD), home) is None
    assert refusal(call("resume_agent", id=OF_OTHER), home) is not None


def test_a_refusal_is_known_where_it_is_shown() -> None:
    assert f"{REFUSED} " == OWN_REFUSAL


def test_the_command_of_the_hook_is_quoted_for_a_shell_and_for_toml() -> None:
    hook = hook_arguments("/usr/bin/python3", '/it\'s "here"/guard.py')[1]
    table = tomllib.loads(hook.removeprefix("hooks.").replace("PreToolUse=", "found = ", 1))
    command = table["found"][0]["hooks"][0]["command"]
    assert shlex.split(command) == ["/usr/bin/python3", "-I", "-S", '/it\'s "here"/guard.py']
