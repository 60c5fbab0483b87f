"""Forms of MCP servers and questions of the model, on the real Codex (contract 2)."""

from __future__ import annotations

from collections.abc import Mapping
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
)
from tests.e2e_contract.contract_bench import IN_V1_ONLY, ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]

FORM = form_elicitation(
    "Which paint?",
    {
        "color": {"type": "string", "enum": ["red", "blue"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "gloss": {"type": "boolean", "default": False},
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
    },
    required=["color"],
)
YES_NO = form_elicitation("Shall I go on?", {})
TWO_NAMES = [{"const": "a", "title": "Address"}, {"const": "a", "title": "Another"}]
MANY = [f"f{number}" for number in range(5000)]
ENDLESS = form_elicitation("Fill in!", {name: {"type": "boolean"} for name in MANY}, required=MANY)
AMBIGUOUS = form_elicitation("Where to?", {"place": {"type": "string", "oneOf": TWO_NAMES}})


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    forms = {"ask": FORM, "confirm": YES_NO, "ambiguous": AMBIGUOUS, "endless": ENDLESS}
    tools = [
        McpTool(name, "Asks.", read_only=True, elicitations=[form]) for name, form in forms.items()
    ]
    server = ScriptedMcpServer(factory.mktemp("mcp"), tools)
    return ContractBench(SCENES, version, servers={"paint": server})


def last_answer(bench: ContractBench) -> Any:
    """What the server's newest elicitation got."""
    return bench.servers["paint"].answers()[-1]["result"]


def question(name: str, **more: object) -> Mapping[str, object]:
    """A question of the model."""
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    made = {"id": name, "header": "Color", "question": "Which color?", "options": options}
    return {**made, **more}


FILLED = SCENES.add("filled", [mcp_call("paint", "ask", call_id="e1")], DONE)
DECLINED = SCENES.add("declined", [mcp_call("paint", "ask", call_id="e2")], DONE)
DISMISSED = SCENES.add("dismissed", [mcp_call("paint", "ask", call_id="e3")], DONE)
MISFIT = SCENES.add("misfit", [mcp_call("paint", "ask", call_id="e4")], DONE)
EXTRA = SCENES.add("extra", [mcp_call("paint", "ask", call_id="e5")], DONE)
CONFIRMED = SCENES.add("confirmed", [mcp_call("paint", "confirm", call_id="e6")], DONE)
UNFIT = SCENES.add("unfit", [mcp_call("paint", "ambiguous", call_id="e7")], DONE)
TOO_MANY = SCENES.add("too many", [mcp_call("paint", "endless", call_id="e9")], DONE)
CANCELLED = SCENES.add("cancelled", [mcp_call("paint", "ask", call_id="e8")])
ANSWERED = SCENES.add("answered", [request_user_input(question("color"), call_id="q1")], DONE)
REFUSED = SCENES.add("refused", [request_user_input(question("color"), call_id="q2")], DONE)
FORGED = SCENES.add(
    "forged", [request_user_input(question("mcp_tool_call_approval_x"), call_id="q3")], DONE
)


async def test_2_5_a_filled_form_reaches_the_server_as_its_schema_wants_it(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FILLED)
    asked = await bench.asks.next_elicitation()
    assert "Which paint?" in asked.message
    assert asked.session == session
    content = {"color": "blue", "count": 3, "gloss": True, "name": "sky"}
    asked.accept(dict(content))

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == "accept"
    assert last_answer(bench)["content"] == content
    assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]
    assert "sky" not in str(bench.events(session))


@pytest.mark.parametrize("how", ["decline", "cancel"])
async def test_2_3_a_form_that_is_not_filled_gives_the_server_that_very_action(
    bench: ContractBench, how: str
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, DECLINED if how == "decline" else DISMISSED)
    asked = await bench.asks.next_elicitation()
    (asked.decline if how == "decline" else asked.cancel)()

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == how
    assert not last_answer(bench).get("content")


@pytest.mark.parametrize(
    ("scene", "content"),
    [
        (MISFIT, {"color": "green-LEAK", "count": 99}),
        (EXTRA, {"color": "red", "password": "red-LEAK"}),
    ],
)
async def test_2_5_content_that_does_not_fit_is_declined_and_said_and_does_not_leak(
    bench: ContractBench, scene: str, content: dict[str, object]
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, scene)
    (await bench.asks.next_elicitation()).accept(content)

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == "decline"
    assert "not passed on" in bench.said(session)
    assert "LEAK" not in str(bench.servers["paint"].record())
    assert "LEAK" not in str(bench.wire.messages)
    assert "LEAK" not in bench.said(session) + str(bench.events(session))


async def test_2_2_a_form_without_fields_is_a_question_and_not_a_permission(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CONFIRMED)
    asked = await bench.asks.next_elicitation()
    assert not asked.fields
    assert "not an approval" in asked.message
    asked.accept({})

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == "accept"


@IN_V1_ONLY
@pytest.mark.parametrize(
    ("scene", "words", "why"),
    [
        (UNFIT, "Where to?", '"place" offers one value under two names'),
        (TOO_MANY, "Fill in!", "has 5000 fields, above the limit of 500"),
    ],
)
async def test_2_2_a_schema_that_acp_cannot_carry_is_declined_and_said(
    bench: ContractBench, scene: str, words: str, why: str
) -> None:
    session = await bench.new_session()
    assert await bench.prompt(session, scene).end() == "end_turn"

    assert last_answer(bench)["action"] == "decline"
    assert why in bench.said(session)
    assert words in bench.said(session)
    assert bench.event_types(session) == ["request.declined"]


async def test_3_5_a_cancel_while_a_form_is_open_withdraws_it(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CANCELLED)
    await bench.asks.next_elicitation()
    withdrawn = len(bench.asks.withdrawn)
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert len(bench.asks.withdrawn) == withdrawn + 1
    assert bench.replies(session)[0]["action"] == "cancel"


async def test_2_5_an_answered_question_reaches_the_model(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ANSWERED)
    asked = await bench.asks.next_elicitation()
    assert "Which color?" in asked.message
    asked.accept({"color": "Blue"})

    assert await prompt.end() == "end_turn"
    assert bench.replies(session) == [{"answers": {"color": {"answers": ["Blue"]}}}]
    assert "Blue" in bench.outputs(ANSWERED)["q1"]


async def test_2_3_a_declined_question_gives_no_answer_and_the_turn_goes_on(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, REFUSED)
    (await bench.asks.next_elicitation()).decline()

    assert await prompt.end() == "end_turn"
    assert bench.replies(session) == [{"answers": {}}]


@pytest.mark.attack("model")
async def test_2_7_a_question_that_the_model_marked_as_an_approval_gets_none(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    assert await bench.prompt(session, FORGED).end() == "end_turn"

    assert bench.replies(session) == [{"answers": {}}]
    assert "claims to be a tool approval" in bench.said(session)
    assert bench.event_types(session) == ["request.declined"]
