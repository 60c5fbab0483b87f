"""The client of the Python SDK, which reads every message of ours with its own models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.third_party import command_and_answer, third_party_bench
from tests.e2e.adapter_bench import COMMAND

pytestmark = pytest.mark.e2e

CLIENT = str(Path(__file__).with_name("sdk_client.py"))


@pytest.mark.parametrize(("choose", "runs"), [("allow_once", True), ("reject_once", False)])
def test_the_python_sdks_client_gets_a_whole_turn(choose: str, runs: bool) -> None:
    with third_party_bench(command_and_answer("All done.")) as bench:
        done = bench.python(CLIENT, COMMAND, str(bench.home.workspace), choose, "Go.")
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])

        assert seen["stopReason"] == "end_turn"
        assert seen["asked"] == 1
        assert bench.command_ran is runs
        kinds = {update["sessionUpdate"] for update in seen["updates"]}
        assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= kinds
        assert seen["opened"] in seen["listed"]
