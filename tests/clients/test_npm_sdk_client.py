"""The client of the npm SDK, which checks every message of ours against its own schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.third_party import command_and_answer, third_party_bench
from tests.e2e.adapter_bench import COMMAND

pytestmark = pytest.mark.e2e

CLIENT = str(Path(__file__).with_name("sdk_client.mjs"))


@pytest.mark.parametrize(("choose", "runs"), [("allow_once", True), ("reject_once", False)])
def test_the_npm_sdks_client_gets_a_whole_turn(choose: str, runs: bool) -> None:
    with third_party_bench(command_and_answer("All done.")) as bench:
        cwd = str(bench.home.workspace)
        done = bench.run(CLIENT, str(bench.tree), COMMAND, cwd, choose, "Go.")
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])

        assert seen["ended"]["stopReason"] == "end_turn"
        assert len(seen["asked"]) == 1
        assert bench.command_ran is runs
        kinds = {update["sessionUpdate"] for update in seen["updates"]}
        assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= kinds
        listed = [session["sessionId"] for session in seen["listed"]["sessions"]]
        assert seen["opened"]["sessionId"] in listed
        assert "error" not in done.stderr.lower(), "the SDK complains of what it cannot read"
