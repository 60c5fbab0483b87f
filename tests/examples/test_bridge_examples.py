"""The examples of the bridge, on what was recorded from the real Codex."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.examples.example_bench import EXAMPLES, WAIT_SECONDS, untested
from tests.sent_to_clients.conversation import WIRE, load


def printed(program: str, recording: str, *words: str) -> list[str]:
    messages = load(WIRE / f"{recording}.jsonl").codex_messages()
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / program), *words],
        input="\n".join(map(json.dumps, messages)),
        capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_example_of_the_bridge_has_a_test() -> None:
    assert untested("bridge_*.py", __file__) == []


def test_a_recorded_stream_is_printed_as_updates_of_both_versions() -> None:
    lines = printed("bridge_updates.py", "message")
    for version in ("v1", "v2"):
        updates = [json.loads(line[3:])["update"] for line in lines if line.startswith(version)]
        said = [u for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(u["content"]["text"] for u in said) == "Done."
    assert '"stopReason":"end_turn"' in lines[-1]


@pytest.mark.parametrize(
    ("recording", "choice", "reply"),
    [
        ("command-approved", "allow_once", {"decision": "accept"}),
        ("command-approved", "reject_once", {"decision": "decline"}),
        ("mcp-form", "allow_once", {"action": "decline"}),
    ],
)
def test_a_request_is_shown_and_answered(recording: str, choice: str, reply: object) -> None:
    shown, *replies = printed("bridge_question.py", recording, choice)
    assert shown
    assert json.loads(replies[-1])["result"] == reply
