"""The npm SDK's side of ACP v2: its client with our agent, and its router with our clients."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from codex_acp.runtime import AgentRuntime, AgentSpec, Permission
from codex_acp.testing import Step, Text, exec_command
from tests.clients.third_party import (
    NODE_VARIABLE,
    TREE_VARIABLE,
    WAIT,
    command_and_answer,
    third_party_bench,
)
from tests.e2e.adapter_bench import COMMAND

HERE = Path(__file__).parent
CLIENT = str(HERE / "sdk_client_v2.mjs")


def session(choose: str, *more: list[Step], prompts: tuple[str, ...] = ("Go.",)) -> Any:
    """What the SDK's client saw of a session whose first command is asked about."""
    with third_party_bench([*command_and_answer("All done."), *more]) as bench:
        cwd = str(bench.home.workspace)
        done = bench.run(CLIENT, str(bench.tree), COMMAND, cwd, choose, *prompts)
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr.lower(), "the SDK complains of what it cannot read"
        seen = json.loads(done.stdout.splitlines()[-1])
        assert bench.command_ran is (choose == "allow_once")
        return seen


def of_kind(updates: list[Any], kind: str) -> list[Any]:
    return [update for update in updates if update["sessionUpdate"] == kind]


@pytest.mark.e2e
def test_the_npm_sdks_v2_client_has_a_whole_session_and_stops_one_command() -> None:
    run = exec_command("echo begun; sleep 600", yield_time_ms=60_000)
    seen = session("allow_once", [run], [Text("It was ended.")], prompts=("Go.", "stop: it."))
    assert seen["initialized"]["protocolVersion"] == seen["repeated"]["protocolVersion"] == 2
    (asked,) = seen["asked"]
    assert asked["subject"]["type"] == "command"
    assert [turn["stopReason"] for turn in seen["turns"]] == ["end_turn", "end_turn"]
    for turn in seen["turns"]:
        (echo,) = of_kind(turn["updates"], "user_message")
        assert echo["messageId"] == turn["messageId"]
        assert turn["background"] == []
    stopped = of_kind(seen["turns"][1]["updates"], "tool_call_update")
    assert stopped[-1]["status"] == "cancelled"
    assert "mode" in {option["configId"] for option in seen["set"]["configOptions"]}
    assert seen["opened"]["sessionId"] in {each["sessionId"] for each in seen["listed"]["sessions"]}
    assert seen["resumed"]["configOptions"]
    replayed = seen["replayed"][: seen["replayedBefore"]]
    told = [update["messageId"] for update in of_kind(replayed, "user_message")]
    assert told == [turn["messageId"] for turn in seen["turns"]]
    assert of_kind(replayed, "state_update")[-1]["state"] == "idle"


@pytest.mark.e2e
def test_what_the_npm_sdks_v2_client_rejects_does_not_run_and_the_turn_goes_on() -> None:
    seen = session("reject_once")
    (turn,) = seen["turns"]
    assert turn["stopReason"] == "end_turn"
    assert of_kind(turn["updates"], "tool_call_update")[-1]["status"] == "failed"


@pytest.mark.parametrize(("version", "spoken"), [(None, 2), (2, 2), (1, 1)])
async def test_our_runtime_and_the_npm_sdks_router_speak_the_highest_version_of_both(
    version: Literal[1, 2] | None, spoken: int, tmp_path: Path
) -> None:
    node, tree = os.environ.get(NODE_VARIABLE, "node"), os.environ[TREE_VARIABLE]
    command = [node, str(HERE / "router_agent.mjs"), tree]
    asked: list[Permission] = []

    def allow(permission: Permission) -> str:
        asked.append(permission)
        return permission.options[0].option_id

    with anyio.fail_after(WAIT):
        runtime = AgentRuntime(permissions=allow)
        spec = AgentSpec(command, version=version)
        async with runtime, runtime.open(spec, cwd=tmp_path) as opened:
            result = await opened.run("Go.")
    assert (result.text, result.stop_reason) == (f"{spoken} yes", "end_turn")
    assert [call.status for call in result.tool_calls] == ["completed"]
    assert len(asked) == 1
