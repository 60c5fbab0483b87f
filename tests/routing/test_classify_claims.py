"""2.7: what claims to be a tool approval is believed only if Codex's own items bear it out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.codex._generated.models import McpToolCallThreadItem
from codex_acp.codex._generated.server_requests import ServerRequest
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    McpForm,
    McpToolApproval,
    McpToolQuestion,
    McpUrl,
    Refused,
    classify,
)
from codex_acp.codex.approvals.running_items import Items
from tests.support.routing_samples import (
    APPROVAL_KIND,
    EMPTY_FORM,
    FORM,
    elicitation,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    options,
    questions,
    running,
    tool_approval,
    turn_completed,
    turn_started,
)

ARGS = {"name": "n1", "text": "T"}
URL: dict[str, Any] = {"mode": "url", "url": "https://example.com/", "elicitationId": "e"}
VERIFY: dict[str, Any] = {
    "mode": "openai/userVerification",
    "challenge": "c",
    "title": "T",
    "description": "D",
}
QUESTION = {"id": "mcp_tool_call_approval_1", "options": options("Allow", "Cancel")}


def is_believed(asked: ServerRequest, items: Items) -> bool:
    what = classify(asked, items)
    if isinstance(what, McpToolApproval | McpToolQuestion):
        return True
    assert isinstance(what, Refused), what
    return False


def picked(asked: ServerRequest, items: Items) -> str | None:
    what = classify(asked, items)
    return what.item.id if isinstance(what, McpToolApproval) else None


def test_2_7_a_genuine_tool_approval_is_believed_and_shown_from_the_item() -> None:
    what = classify(tool_approval(ARGS), running(mcp_item(arguments=ARGS)))
    assert isinstance(what, McpToolApproval)
    assert (what.item.server, what.item.tool, what.item.arguments) == ("notes", "write", ARGS)


@pytest.mark.parametrize(
    "changes",
    [
        {"requestedSchema": FORM},
        {"mode": "openai/form"},
        {"mode": "openaiForm"},
        URL,
        VERIFY,
        {"mode": "hologram"},
        {"turnId": None},
        {"turnId": "other"},
        {"threadId": "other"},
        {"serverName": "other"},
        {"serverName": "Notes"},
        {"serverName": "notes "},
        {"environmentId": "box"},
    ],
    ids=str,
)
def test_2_7_a_forged_tool_approval_is_declined(changes: dict[str, Any]) -> None:
    items = running(mcp_item(arguments=ARGS))
    assert is_believed(tool_approval(ARGS), items)
    assert not is_believed(tool_approval(ARGS, **changes), items)


def test_2_7_a_server_that_an_environment_registered_is_another_one_of_its_name() -> None:
    items = running(mcp_item(arguments=ARGS) | {"environmentId": "box"})
    assert not is_believed(tool_approval(ARGS), items)
    assert not is_believed(tool_approval(ARGS, environmentId="other"), items)
    assert is_believed(tool_approval(ARGS, environmentId="box"), items)
    items.apply(item_started(mcp_item("second", ARGS)))
    assert picked(tool_approval(ARGS), items) == "second"


def test_2_7_a_claim_outside_a_running_turn_is_declined() -> None:
    items = running(mcp_item(arguments=ARGS))
    items.apply(turn_completed())
    assert not is_believed(tool_approval(ARGS), items)
    assert not is_believed(tool_approval(ARGS, turnId=None), items)
    assert not is_believed(tool_approval(ARGS), Items())


@pytest.mark.parametrize(
    "asked", [tool_approval(ARGS), questions(QUESTION)], ids=["form", "question"]
)
def test_2_7_the_turn_is_looked_at_for_itself(asked: ServerRequest) -> None:
    items = running(mcp_item(arguments=ARGS))
    assert is_believed(asked, items)
    items._turns.clear()  # no report does this; the item alone must not be enough
    assert not is_believed(asked, items)


def test_2_7_a_claim_for_a_completed_call_is_declined() -> None:
    items = running(mcp_item(arguments=ARGS))
    items.apply(item_completed(mcp_item(arguments=ARGS)))
    assert not is_believed(tool_approval(ARGS), items)


def test_2_7_a_call_in_another_threads_turn_of_the_same_name_does_not_bear_it_out() -> None:
    items = running()
    items.apply(turn_started("child", "turn"))
    items.apply(item_started(mcp_item(arguments=ARGS), "child", "turn"))
    assert not is_believed(tool_approval(ARGS), items)
    assert is_believed(tool_approval(ARGS, threadId="child"), items)


def test_2_7_an_item_that_is_no_mcp_call_does_not_bear_it_out() -> None:
    assert not is_believed(tool_approval(), running(file_item()))


@pytest.mark.parametrize(("name", "fits"), [("write", True), ("read", False), (None, False)])
def test_2_7_the_tool_name_must_be_the_items_where_it_is_present(name: object, fits: bool) -> None:
    items = running(mcp_item(arguments=ARGS))
    assert is_believed(tool_approval(ARGS, meta={"tool_name": name}), items) is fits


@pytest.mark.parametrize(
    ("claimed", "actual", "fits"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": 1.0}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 2**53}, {"a": 2**53 + 1}, False),
        ({"a": "x"}, {"a": "X"}, False),
        ({"a": "\u00e9"}, {"a": "e\u0301"}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [1]}, {"a": [1, 1]}, False),
        ({"a": {"b": [{"c": True}]}}, {"a": {"b": [{"c": 1}]}}, False),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": 1, "b": None}, {"a": 1}, False),
        ({}, None, True),
        (None, {}, True),
        (None, None, True),
        ([], None, False),
        (False, None, False),
        ("", {}, False),
        (0, None, False),
        ([], {}, False),
        ("a", ["a"], False),
    ],
)
def test_2_7_the_arguments_must_be_the_items(claimed: Any, actual: Any, fits: bool) -> None:
    assert is_believed(tool_approval(claimed), running(mcp_item(arguments=actual))) is fits


@pytest.mark.parametrize(("actual", "fits"), [(None, True), ({}, True), ({"a": 1}, False)])
def test_2_7_absent_arguments_are_no_arguments(actual: Any, fits: bool) -> None:
    asked = elicitation(_meta={APPROVAL_KIND: "mcp_tool_call"}, requestedSchema=EMPTY_FORM)
    assert is_believed(asked, running(mcp_item(arguments=actual))) is fits


def test_2_7_of_calls_that_do_not_differ_the_oldest_unasked_is_taken() -> None:
    items = running(mcp_item("z", ARGS), mcp_item("a", ARGS), mcp_item("m", ARGS))
    for expected in ("z", "a", "m", None):
        assert picked(tool_approval(ARGS), items) == expected
        if expected is not None:
            held = items.get("root", expected)
            assert held is not None
            held.asked = True


def test_2_7_calls_that_differ_and_cannot_be_told_apart_are_declined() -> None:
    items = running(mcp_item("a", ARGS, tool="write"), mcp_item("b", ARGS, tool="delete"))
    assert not is_believed(tool_approval(ARGS), items)
    assert picked(tool_approval(ARGS, meta={"tool_name": "delete"}), items) == "b"


@pytest.mark.parametrize("other", [{"a": 1}, {}])
def test_2_7_calls_without_arguments_are_told_from_calls_with_some(other: Any) -> None:
    items = running(mcp_item("a", None), mcp_item("b", other))
    assert is_believed(tool_approval(None), items) is (other == {"a": 1})


def test_2_7_calls_of_other_servers_and_turns_do_not_make_it_ambiguous() -> None:
    items = running(mcp_item("a", ARGS), mcp_item("b", ARGS, tool="delete", server="other"))
    items.apply(turn_started("child", "turn"))
    items.apply(item_started(mcp_item("c", ARGS, tool="delete"), "child", "turn"))
    assert picked(tool_approval(ARGS), items) == "a"


def test_2_7_a_call_that_was_asked_about_bears_out_nothing_more() -> None:
    items = running(mcp_item(arguments=ARGS))
    held = items.get("root", "item")
    assert held is not None
    held.asked = True
    assert not is_believed(tool_approval(ARGS), items)


def test_2_7_deep_arguments_are_compared_and_never_raise() -> None:
    deep: Any = None
    for _ in range(60):
        deep = {"a": [deep]}
    items = running(mcp_item(arguments=deep))
    assert is_believed(tool_approval(deep), items)
    assert not is_believed(tool_approval({"a": [deep]}), items)


# --- the older way: a question ------------------------------------------------------------------


def test_a_tool_question_about_its_own_running_call_is_an_approval() -> None:
    what = classify(questions(QUESTION), running(mcp_item()))
    assert isinstance(what, McpToolQuestion)
    assert what.item.id == "item"


@pytest.mark.parametrize(
    ("asked", "item"),
    [
        (questions(QUESTION), None),
        (questions(QUESTION), file_item()),
        (questions(QUESTION, itemId="other"), mcp_item()),
        (questions(QUESTION, turnId="other"), mcp_item()),
        (questions(QUESTION, threadId="other"), mcp_item()),
        (questions(QUESTION, {"id": "q"}), mcp_item()),
        (questions({"id": "q"}, QUESTION), mcp_item()),
        (questions(QUESTION, QUESTION), mcp_item()),
    ],
    ids=[
        "no item",
        "another kind of item",
        "another item",
        "another turn",
        "another thread",
        "among others",
        "behind others",
        "twice",
    ],
)
def test_an_approval_id_that_a_model_wrote_gets_no_approval_and_no_form(
    asked: ServerRequest, item: dict[str, Any] | None
) -> None:
    assert not is_believed(asked, running(*([] if item is None else [item])))


def test_a_tool_question_after_its_call_was_asked_about_is_declined() -> None:
    items = running(mcp_item())
    held = items.get("root", "item")
    assert held is not None
    held.asked = True
    assert not is_believed(questions(QUESTION), items)


def test_a_tool_question_in_an_ended_turn_is_declined() -> None:
    items = running(mcp_item())
    items.apply(turn_completed())
    assert not is_believed(questions(QUESTION), items)


def test_a_tool_question_about_an_item_of_another_turn_is_declined() -> None:
    items = running(mcp_item())
    held = items.get("root", "item")
    assert held is not None
    held.turn_id = "earlier"
    assert not is_believed(questions(QUESTION), items)


# --- whatever a server writes -------------------------------------------------------------------

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
_meta = _json | st.fixed_dictionaries(
    {},
    optional={
        APPROVAL_KIND: st.just("mcp_tool_call") | _json,
        "persist": st.sampled_from(["session", "always", ["session", "always"]]) | _json,
        "tool_name": st.just("write") | _json,
        "tool_params": st.sampled_from([None, {}, {"a": 1}]) | _json,
    },
)
_shapes = st.sampled_from(
    [
        {"requestedSchema": EMPTY_FORM},
        {"requestedSchema": FORM},
        {"mode": "openai/form"},
        {"mode": "openaiForm"},
        URL,
        VERIFY,
        {"mode": "hologram"},
    ]
)
_calls = st.lists(
    st.builds(
        lambda i, a, t, s: mcp_item(str(i), a, tool=t, server=s),
        st.integers(0, 3),
        st.sampled_from([None, {}, {"a": 1}, {"a": True}]),
        st.sampled_from(["write", "read"]),
        st.sampled_from(["notes", "other"]),
    ),
    max_size=3,
)


@settings(max_examples=300)
@given(_meta, _shapes, st.sampled_from(["turn", "other", None]))
def test_2_7_no_meta_makes_an_approval_without_a_call_of_codex(
    meta: Any, shape: dict[str, Any], turn: str | None
) -> None:
    asked = elicitation(**{**shape, "_meta": meta, "turnId": turn})
    for items in (
        running(),
        Items(),
        running(mcp_item(server="other")),
        running(mcp_item(), thread="elsewhere"),
        running(file_item()),
    ):
        what = classify(asked, items)
        assert not isinstance(what, ApprovalRequest)
        if isinstance(meta, dict) and APPROVAL_KIND in meta:
            assert isinstance(what, Refused)


@settings(max_examples=400)
@given(_meta, _shapes, _calls)
def test_2_7_what_claims_an_approval_is_one_of_a_call_that_fits_or_is_refused(
    meta: Any, shape: dict[str, Any], calls: list[dict[str, Any]]
) -> None:
    items = running(*calls)
    what = classify(elicitation(**{**shape, "_meta": meta}), items)
    claims = isinstance(meta, dict) and APPROVAL_KIND in meta
    if not claims:
        assert isinstance(what, McpForm | McpUrl | Refused)
        return
    assert isinstance(what, McpToolApproval | Refused)
    if isinstance(what, McpToolApproval):
        assert meta[APPROVAL_KIND] == "mcp_tool_call"
        assert shape == {"requestedSchema": EMPTY_FORM}
        assert isinstance(what.item, McpToolCallThreadItem)
        assert what.item.server == "notes"
        held = items.get("root", what.item.id)
        assert held is not None
        assert held.item is what.item
        assert meta.get("tool_name", what.item.tool) == what.item.tool
        claimed = meta.get("tool_params")
        assert repr(claimed or {}) == repr(what.item.arguments or {})
