"""A client that advertises no elicitation: declines, said aloud, on the real Codex (1.6, 2.2)."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.testing import (
    McpTool,
    ScriptedMcpServer,
    Step,
    Text,
    form_elicitation,
    mcp_call,
    request_user_input,
    url_elicitation,
)
from tests.e2e_contract.contract_bench import ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]
FORM = form_elicitation("Which paint?", {"color": {"type": "string"}}, required=["color"])
PAGE = url_elicitation("Please log in", "https://login.example/consent?state=abc")


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    tools = [
        McpTool("ask", "Asks.", read_only=True, elicitations=[FORM]),
        McpTool("open", "Opens.", read_only=True, elicitations=[PAGE]),
        McpTool("write", "Writes.", read_only=False, destructive=True, text="written"),
    ]
    server = ScriptedMcpServer(factory.mktemp("mcp"), tools)
    return ContractBench(SCENES, version, elicits=False, servers={"paint": server})


def last_answer(bench: ContractBench) -> Any:
    """What the server's newest elicitation got."""
    return bench.servers["paint"].answers()[-1]["result"]


FORM_THEN_TOOL = SCENES.add(
    "form, then tool",
    [mcp_call("paint", "ask", call_id="n1")],
    [mcp_call("paint", "write", call_id="n2")],
    DONE,
)
NO_PAGE = SCENES.add("no page", [mcp_call("paint", "open", call_id="n3")], DONE)
NO_QUESTION = SCENES.add(
    "no question",
    [
        request_user_input(
            {
                "id": "color",
                "header": "Color",
                "question": "Which color?",
                "options": [{"label": "Red", "description": "warm"}],
            },
            call_id="n4",
        )
    ],
    DONE,
)


async def test_2_2_a_form_without_the_capability_is_declined_and_the_next_approval_works(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FORM_THEN_TOOL)
    asked = await bench.asks.next_permission()
    assert asked.title == "paint: call write"
    assert last_answer(bench)["action"] == "decline"
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert "cannot show forms" in bench.said(session)
    assert "Which paint?" in bench.said(session)
    assert "written" in bench.outputs(FORM_THEN_TOOL)["n2"]
    assert bench.event_types(session) == [
        "request.declined",
        "approval.requested",
        "approval.decided",
    ]


async def test_2_2_a_page_without_the_capability_is_declined_and_its_host_is_said(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    assert await bench.prompt(session, NO_PAGE).end() == "end_turn"

    assert last_answer(bench)["action"] == "decline"
    assert "login.example" in bench.said(session)
    assert "cannot open pages" in bench.said(session)


async def test_2_2_a_question_without_the_capability_gets_no_answer_and_is_said(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    assert await bench.prompt(session, NO_QUESTION).end() == "end_turn"

    assert bench.replies(session) == [{"answers": {}}]
    assert "Which color?" in bench.said(session)
