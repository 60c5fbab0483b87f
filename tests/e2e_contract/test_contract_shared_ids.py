"""One call id for several actions: Codex cannot tell them apart, so nothing of them runs (3.7)."""

from __future__ import annotations

import pytest

from codex_acp.testing import (
    Gate,
    McpTool,
    ScriptedMcpServer,
    Step,
    Text,
    add_file,
    exec_command,
    mcp_call,
)
from tests.e2e_contract.asks import Permission
from tests.e2e_contract.contract_bench import ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]
ONE_ID = "one id to several actions"


class _SideBySide:
    """A server whose calls Codex runs side by side."""

    def __init__(self, server: ScriptedMcpServer) -> None:
        self.config = {**server.config, "supports_parallel_tool_calls": True}
        self.received = server.received
        self.answers = server.answers


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    tool = McpTool("write", "Writes.", read_only=False, destructive=True)
    server = ScriptedMcpServer(factory.mktemp("mcp"), [tool], name="notes")
    return ContractBench(SCENES, version, servers={"notes": _SideBySide(server)})  # type: ignore[dict-item]


def command(name: str, call_id: str, seconds: float = 0.0) -> Step:
    """An action that leaves a file of its name."""
    text = f"sleep {seconds:g}; touch {name}"
    return exec_command(text, justification=f"May I make {name}?", call_id=call_id)


TWO = SCENES.add("two", [command("two-a", "t"), Gate("two"), command("two-b", "t")], DONE)
THREE = SCENES.add(
    "three",
    [command("three-a", "u"), Gate("three"), *[command(f"three-{n}", "u") for n in "bc"]],
    [command("three-d", "later")],
    DONE,
)
LATER = SCENES.add(
    "later", [command("later-a", "v", 20), Gate("it runs"), command("later-b", "v")], DONE
)
CROSSING = SCENES.add(
    "crossing", [command("cross-a", "w", 1), Gate("crossing"), command("cross-b", "w", 1)], DONE
)
MCP = SCENES.add("mcp", [mcp_call("notes", "write", {"n": n}, call_id="x") for n in (1, 2)], DONE)
AGAIN = SCENES.add("again", [command("again-a", "y")], [command("again-b", "y")], DONE)
MIXED = SCENES.add(
    "mixed", [command("mixed-a", "z"), add_file("mixed-b", "b\n", call_id="z")], DONE
)
SECRET = SCENES.add(
    "secret",
    [
        exec_command(
            "export API_KEY='hunter2hunter2'; echo sk-abcdefghijklmnopqrstuvwxyz01; touch s",
            justification="May I?",
            call_id="secret",
        )
    ],
    DONE,
)


async def withdrawn(bench: ContractBench, *asked: Permission) -> None:
    """Wait until the client was told that none of these needs an answer any more."""
    await bench.wait_until(lambda: len(bench.asks.withdrawn) >= len(asked))


@pytest.mark.attack("model")
async def test_3_7_of_two_commands_of_one_id_none_runs_and_the_question_is_withdrawn(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, TWO)
    asked = await bench.asks.next_permission()
    bench.model.open("two")

    assert await prompt.end() == "end_turn"
    await withdrawn(bench, asked)
    assert not bench.path("two-a").exists()
    assert not bench.path("two-b").exists()
    assert [r["decision"] for r in bench.replies(session)] == ["decline", "decline"]
    assert ONE_ID in bench.said(session)
    assert bench.event_types(session) == [
        "approval.requested",
        "approval.refused",
        "approval.decided",
        "request.declined",
    ]


async def test_3_7_a_third_command_of_that_id_is_declined_and_another_id_is_asked(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, THREE)
    await bench.asks.next_permission()
    bench.model.open("three")
    (await bench.asks.next_permission()).choose("allow_once")

    assert await prompt.end() == "end_turn"
    made = [name for name in "abcd" if bench.path(f"three-{name}").exists()]
    assert made == ["d"]


@pytest.mark.attack("model")
async def test_3_7_a_second_command_while_the_allowed_one_runs_ends_the_turn(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, LATER)
    (await bench.asks.next_permission()).choose("allow_once")
    await bench.wait_until_replies(session, 1)
    bench.model.open("it runs")

    assert await prompt.end() == "cancelled"
    assert not bench.path("later-a").exists()
    assert not bench.path("later-b").exists()
    assert "The turn is interrupted" in bench.said(session)
    assert "later-a" in bench.said(session)
    assert "approval.refused" in bench.event_types(session)


async def test_3_7_an_answer_that_may_cross_the_second_question_runs_neither(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CROSSING)
    asked = await bench.asks.next_permission()
    bench.model.open("crossing")
    asked.choose("allow_once")

    # Which of the two comes first is chance; what follows is the same but for the turn's end.
    assert await prompt.end() in ("end_turn", "cancelled")
    assert ONE_ID in bench.said(session)
    assert not bench.path("cross-a").exists()
    assert not bench.path("cross-b").exists()


async def test_3_7_of_two_mcp_calls_of_one_id_that_run_side_by_side_none_runs(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, MCP)

    assert await prompt.end() == "end_turn"
    assert bench.servers["notes"].received("tools/call") == []
    assert [r["action"] for r in bench.replies(session)] == ["decline", "decline"]
    # Whether the second call starts before or after the first is asked about is chance.
    while bench.asks.unseen:
        await bench.asks.next_permission()
    assert bench.event_types(session)[-1] == "request.declined"


async def test_3_7_an_id_of_an_ended_action_is_asked_about_anew(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, AGAIN)
    (await bench.asks.next_permission()).choose("allow_once")
    second = await bench.asks.next_permission()
    assert "again-b" in second.title
    second.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("again-a").exists()
    assert not bench.path("again-b").exists()


async def test_3_7_a_command_and_a_patch_of_one_id_are_asked_one_after_the_other(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, MIXED)
    first = await bench.asks.next_permission()
    assert "mixed-a" in first.title
    first.choose("allow_once")
    second = await bench.asks.next_permission()
    assert "mixed-b" in second.title
    second.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("mixed-a").exists()
    assert not bench.path("mixed-b").exists()


async def test_3_7_a_command_with_a_secret_that_codex_leaves_out_of_its_item_runs(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, SECRET)
    (await bench.asks.next_permission()).choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("s").exists()
    assert "interrupted" not in bench.said(session)
