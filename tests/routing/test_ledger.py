"""3.1 to 3.7: an approval is tied to one pending action, and settled exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.approvals.running_items import Items
from codex_acp.routing.ledger import Answer, Failed, Key, Ledger, OutcomeCancelled, Selected
from tests.support.ledger_world import KEY, Bench, independent_routes, opened, said
from tests.support.routing_samples import (
    change,
    command,
    file_change,
    item_started,
    mcp_item,
    options,
    patch_updated,
    permissions,
    questions,
    request,
    running,
    tool_approval,
    turn_completed,
)

DENY = {"host": "h", "action": "deny"}
NETWORK: dict[str, Any] = {
    "networkApprovalContext": {"host": "h", "protocol": "https"},
    "proposedNetworkPolicyAmendments": [DENY],
}


def test_3_1_an_entry_holds_what_it_is_tied_to() -> None:
    bench = Bench(tool_approval({"a": 1}), mcp_item(arguments={"a": 1}))
    entry = bench.entry
    assert entry.key == KEY
    assert (entry.route.thread_id, entry.route.turn_id, entry.route.item_id) == (
        "root",
        "turn",
        "item",
    )
    assert (entry.route.tool.kind, entry.route.tool.name) == ("mcp_tool", "notes/write")
    assert len(entry.route.digest) == 64
    assert bench.ledger.pending == (entry,)


def test_3_1_ids_of_another_type_or_generation_are_other_requests() -> None:
    ledger = Ledger()
    keys = [Key(1, "int", 0), Key(1, "str", "0"), Key(2, "int", 0), Key(1, "int", 1)]
    for key, route in zip(keys, independent_routes(4), strict=True):
        opened(ledger, key, route)
    assert [entry.key for entry in ledger.pending] == keys
    assert ledger.resolved(keys[1]) is not None
    assert [entry.key for entry in ledger.pending] == [keys[0], *keys[2:]]


def test_3_1_option_ids_are_bound_to_their_entry() -> None:
    ledger = Ledger()
    ids: list[str] = []
    for number, route in enumerate(independent_routes(5)):
        entry = opened(ledger, Key(1, "int", number), route)
        ids += [choice.option.option_id for choice in entry.choices]
        assert all(i.startswith(f"{entry.token}:") for i in ids[-len(entry.choices) :])
    assert len(set(ids)) == len(ids)


def test_3_1_an_id_used_again_gets_new_option_ids() -> None:
    bench = Bench()
    ids = {choice.option.option_id for choice in bench.entry.choices}
    bench.ledger.resolved(KEY)
    again = opened(bench.ledger, KEY, bench.route)
    assert again.token != bench.entry.token
    assert ids.isdisjoint(choice.option.option_id for choice in again.choices)


def test_3_2_an_offered_allowing_option_is_accepted_once() -> None:
    bench = Bench()
    chosen = bench.option("allow_once")
    got = bench.answer(Selected(chosen))
    assert said(got) == {"decision": "accept"}
    assert got is not None
    assert (got.outcome, got.by, got.withdraw, got.failed_check) == (
        "accepted",
        "client",
        False,
        None,
    )
    assert got.choice is not None
    assert got.choice.option.option_id == chosen
    assert bench.ledger.pending == ()
    assert bench.answer(Selected(chosen)) is None


def test_3_2_an_item_that_changed_is_not_accepted() -> None:
    bench = Bench()
    bench.items.apply(patch_updated([change("/w/a", "other\n")]))
    got = bench.answer(Selected(bench.option("allow_once")))
    assert said(got) == {"decision": "decline"}
    assert got is not None
    assert (got.by, got.failed_check, got.outcome) == ("invalid_answer", "changed", "rejected")


def test_3_2_arguments_of_a_call_that_changed_are_not_accepted() -> None:
    bench = Bench(tool_approval({"a": 1}), mcp_item(arguments={"a": 1}))
    bench.items.apply(item_started(mcp_item(arguments={"a": True})))
    got = bench.answer(Selected(bench.option("allow_once")))
    assert said(got) == {"action": "decline"}


def test_3_2_what_is_gone_is_not_accepted() -> None:
    bench = Bench()
    bench.items = running()
    got = bench.answer(Selected(bench.option("allow_always")))
    assert got is not None
    assert (said(got), got.failed_check) == ({"decision": "decline"}, "changed")


def test_3_2_after_the_turn_nothing_is_accepted() -> None:
    for asked in (file_change(), command(), permissions()):
        bench = Bench(asked)
        bench.items.apply(turn_completed())
        got = bench.answer(Selected(bench.option("allow_once")))
        assert got is not None
        assert (got.outcome, got.failed_check) == ("rejected", "turn_over")


def test_3_2_an_unchanged_action_of_another_turn_is_not_accepted() -> None:
    bench = Bench(command())
    bench.items = running(turn="another")
    got = bench.answer(Selected(bench.option("allow_once")))
    assert got is not None
    assert got.failed_check == "turn_over"


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        (Selected("p1:9"), "unknown_option"),
        (Selected("p2:0"), "unknown_option"),
        (Selected("allow_once"), "unknown_option"),
        (Selected("p1:0 "), "unknown_option"),
        (Selected("P1:0"), "unknown_option"),
        (Selected(""), "unknown_option"),
        (Failed("the client failed"), "no_outcome"),
    ],
)
def test_3_3_whatever_is_no_offered_option_fails_closed(answer: Answer, check: str) -> None:
    bench = Bench()
    got = bench.answer(answer)
    assert said(got) == {"decision": "decline"}
    assert got is not None
    assert (got.outcome, got.by, got.failed_check, got.choice) == (
        "rejected",
        "invalid_answer",
        check,
        None,
    )


def test_3_3_a_stale_token_settles_nothing() -> None:
    bench = Bench()
    for token in ("p0", "p2", "", "p1 "):
        assert bench.answer(Selected(bench.option("allow_once")), token) is None
    assert bench.ledger.pending == (bench.entry,)


def test_3_3_an_unknown_key_settles_nothing() -> None:
    bench, other = Bench(), Key(1, "str", "0")
    ledger = bench.ledger
    assert ledger.answered(other, "p1", OutcomeCancelled(), None, True) is None
    assert ledger.resolved(other) is None
    assert ledger.abandoned(other, "gone") is None
    assert ledger.pending == (bench.entry,)


NEGATIVE: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (command(), {}, {"decision": "decline"}, {"decision": "cancel"}),
    (file_change(), {}, {"decision": "decline"}, {"decision": "cancel"}),
    (permissions(), {}, {"permissions": {}, "scope": "turn"}, {"permissions": {}, "scope": "turn"}),
    (tool_approval(), mcp_item(), {"action": "decline"}, {"action": "cancel"}),
    (
        questions({"id": "mcp_tool_call_approval", "options": options("Allow")}),
        mcp_item(),
        {"answers": {}},
        {"answers": {}},
    ),
]
OLD = {"denied": {"rejection": "the client rejected it"}}
NEGATIVE += [
    (request(m), {}, {"decision": OLD}, {"decision": "abort"})
    for m in ("execCommandApproval", "applyPatchApproval")
]


@pytest.mark.parametrize(
    ("asked", "item", "declined", "cancelled"), NEGATIVE, ids=lambda v: getattr(v, "method", "")
)
def test_3_4_a_rejection_declines_and_only_a_cancelled_turn_cancels(
    asked: Any, item: dict[str, Any], declined: Any, cancelled: Any
) -> None:
    items = [item] if item else []
    bench = Bench(asked, *items)
    got = bench.answer(Selected(bench.option("reject_once")))
    assert said(got) == declined
    assert got is not None
    assert (got.outcome, got.by, got.failed_check) == ("rejected", "client", None)
    bench = Bench(asked, *items)
    (got,) = bench.ledger.turn_cancelled(frozenset({"root"}))
    assert said(got) == cancelled
    assert (got.outcome, got.by, got.withdraw) == ("cancelled", "turn_cancelled", True)


def test_3_4_an_outcome_cancelled_declines_the_action_and_not_the_turn() -> None:
    bench = Bench()
    got = bench.answer(OutcomeCancelled())
    assert said(got) == {"decision": "decline"}
    assert got is not None
    assert (got.outcome, got.by, got.failed_check) == ("rejected", "client", None)


def test_3_4_a_lasting_denial_is_sent_as_proposed_and_is_no_acceptance() -> None:
    bench = Bench(command(**NETWORK))
    got = bench.answer(Selected(bench.option("reject_always")))
    rule = {"network_policy_amendment": DENY}
    assert said(got) == {"decision": {"applyNetworkPolicyAmendment": rule}}
    assert got is not None
    assert got.outcome == "rejected"


def test_3_4_a_rejection_counts_even_when_the_action_has_changed() -> None:
    bench = Bench()
    bench.items = Items()
    got = bench.answer(Selected(bench.option("reject_once")))
    assert got is not None
    assert (got.by, got.failed_check) == ("client", None)


def test_3_5_a_late_answer_to_a_cancelled_approval_is_stale() -> None:
    bench = Bench()
    assert len(bench.ledger.turn_cancelled(frozenset({"root"}))) == 1
    assert bench.answer(Selected(bench.option("allow_once"))) is None
    assert bench.ledger.turn_cancelled(frozenset({"root"})) == []


def test_3_5_a_cancel_settles_the_named_threads_only() -> None:
    bench = Bench()
    assert bench.ledger.turn_cancelled(frozenset({"child"})) == []
    assert bench.ledger.turn_cancelled(frozenset()) == []
    assert bench.ledger.pending == (bench.entry,)


def test_3_5_the_end_of_its_turn_settles_an_approval_with_a_decline() -> None:
    bench = Bench()
    assert bench.ledger.turn_ended("root", "another") == []
    assert bench.ledger.turn_ended("child", "turn") == []
    (got,) = bench.ledger.turn_ended("root", "turn")
    assert said(got) == {"decision": "decline"}
    assert (got.outcome, got.by, got.withdraw) == ("cancelled", "turn_ended", True)


def test_3_2_what_codex_resolved_itself_is_declined_and_withdrawn() -> None:
    bench = Bench()
    got = bench.ledger.resolved(KEY)
    assert said(got) == {"decision": "decline"}
    assert got is not None
    assert (got.outcome, got.by, got.withdraw) == ("cancelled", "codex_resolved", True)
    assert bench.answer(Selected(bench.option("allow_once"))) is None


def test_3_3_a_lost_connection_settles_its_own_generation_without_a_reply() -> None:
    bench = Bench()
    (route,) = independent_routes(1)
    later = opened(bench.ledger, Key(2, "int", 0), route)
    (got,) = bench.ledger.codex_lost(1)
    assert (got.entry, got.reply, got.withdraw, got.by) == (bench.entry, None, True, "disconnected")
    assert got.outcome == "cancelled"
    assert bench.ledger.pending == (later,)


def test_3_3_a_lost_client_declines() -> None:
    bench = Bench()
    got = bench.ledger.abandoned(KEY, "the client is gone")
    assert said(got) == {"decision": "decline"}
    assert got is not None
    assert (got.outcome, got.by, got.reason, got.withdraw) == (
        "rejected",
        "disconnected",
        "the client is gone",
        True,
    )


def test_3_7_sub_commands_of_one_item_are_independent() -> None:
    ledger, routes = Ledger(), independent_routes(2)
    first, second = (opened(ledger, Key(1, "int", n), r) for n, r in enumerate(routes))
    allow = first.choices[0].option.option_id
    assert ledger.answered(second.key, first.token, Selected(allow), None, True) is None
    wrong = ledger.answered(second.key, second.token, Selected(allow), routes[1].approval, True)
    assert said(wrong) == {"decision": "decline"}
    assert ledger.pending == (first,)
    right = ledger.answered(first.key, first.token, Selected(allow), routes[0].approval, True)
    assert said(right) == {"decision": "accept"}


def test_3_7_the_same_request_again_is_no_second_one() -> None:
    bench = Bench(command(startedAtMs=1, commandActions=[]))
    assert bench.ledger.open(KEY, bench.route) is None
    assert bench.ledger.pending == (bench.entry,)
