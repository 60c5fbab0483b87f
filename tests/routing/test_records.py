"""5.1, 5.2: what becomes of a request, as events of the transcript."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.routing import records
from codex_acp.routing.elicitations import declined, reply_to
from codex_acp.routing.ledger import Answer, Failed, OutcomeCancelled, Selected, Settlement
from codex_acp.routing.route import Decline, Elicitation
from codex_acp.routing.table import route
from codex_acp.transcript.events import (
    ApprovalDecided,
    ApprovalRefused,
    ElicitationAnswered,
    RequestDeclined,
)
from tests.support.ledger_world import KEY, Bench
from tests.support.routing_samples import (
    change,
    command,
    context,
    elicitation,
    file_change,
    file_item,
    mcp_item,
    permissions,
    request,
    running,
    tool_approval,
)

URL: dict[str, Any] = {"mode": "url", "url": "https://example.com/?t=1", "elicitationId": "e"}
NETWORK: dict[str, Any] = {
    "networkApprovalContext": {"host": "h", "protocol": "https"},
    "proposedNetworkPolicyAmendments": [{"host": "h", "action": "deny"}],
}


def events_of(settlement: Settlement | None) -> list[ApprovalRefused | ApprovalDecided]:
    assert settlement is not None
    return records.approval_settled(settlement)


def test_5_1_a_requested_approval_says_what_is_asked_and_by_which_request() -> None:
    bench = Bench(tool_approval({"a": 1}), mcp_item(arguments={"a": 1}))
    made = records.approval_requested(bench.entry)
    ref = made.ref
    assert (ref.session_id, ref.thread_id, ref.turn_id, ref.item_id) == (
        "root",
        "root",
        "turn",
        "item",
    )
    assert (ref.generation, ref.codex_request_id) == (1, 0)
    assert ref.method == "mcpServer/elicitation/request"
    assert (made.tool.kind, made.tool.name) == ("mcp_tool", "notes/write")
    assert made.arguments_sha256 == bench.route.digest
    assert [(o.id, o.kind) for o in made.options] == [
        (c.option.option_id, c.option.kind) for c in bench.entry.choices
    ]


MOVED = change("/w/b", "t", "update", move_path="/w/c")
MANY = [change(f"/w/{n}", "t", "delete") for n in range(150)]


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ((command(command="rm -rf build", cwd="/w"),), ["rm -rf build"]),
        ((command(**NETWORK),), ["https://h"]),
        (
            (file_change(), file_item(change("/w/a", "t"), MOVED)),
            ["add /w/a", "update /w/b -> /w/c"],
        ),
        (
            (file_change(), file_item(*MANY)),
            [*[f"delete /w/{n}" for n in range(100)], "and 50 more"],
        ),
        (
            (permissions(permissions={"network": {"enabled": True}}),),
            ['{"network": {"enabled": true}}'],
        ),
        ((tool_approval({"a": 1}), mcp_item(arguments={"a": 1})), ["notes/write"]),
        ((request("execCommandApproval", command=["ls", "a b"]),), ["ls 'a b'"]),
    ],
)
def test_5_1_each_event_says_what_was_decided_on_and_that_a_client_did(
    asked: tuple[Any, ...], subject: list[str]
) -> None:
    bench = Bench(*asked)
    requested = records.approval_requested(bench.entry)
    refused, settled = events_of(bench.answer(Selected("guessed")))
    for event in (requested, refused, settled):
        assert list(event.subject) == subject
    (made,) = events_of(Bench(*asked).answer(OutcomeCancelled()))
    assert isinstance(made, ApprovalDecided)
    assert (list(made.subject), made.by, made.policy) == (subject, "client", None)


@pytest.mark.parametrize(
    ("kind", "outcome", "decision"),
    [
        ("allow_once", "accepted", "Once"),
        ("allow_always", "accepted", "Session"),
        ("reject_once", "rejected", "decline"),
        ("reject_always", "rejected", "RememberHost deny"),
    ],
)
def test_5_1_a_decision_of_a_person_says_which_option(
    kind: str, outcome: str, decision: str
) -> None:
    bench = Bench(command(**NETWORK))
    option = bench.option(kind)
    (made,) = events_of(bench.answer(Selected(option)))
    assert isinstance(made, ApprovalDecided)
    assert (made.outcome, made.by, made.decision) == (outcome, "client", decision)
    assert made.option is not None
    assert (made.option.id, made.option.kind) == (option, kind)


@pytest.mark.parametrize(
    ("answer", "code"), [(Selected("x"), "unknown_option"), (Failed("late"), "no_outcome")]
)
def test_5_1_an_answer_that_failed_a_check_has_an_event_of_its_own(
    answer: Answer, code: str
) -> None:
    refused, decided = events_of(Bench().answer(answer))
    assert isinstance(refused, ApprovalRefused)
    assert refused.code == code
    assert refused.reason
    assert isinstance(decided, ApprovalDecided)
    assert (decided.outcome, decided.by, decided.option) == ("rejected", "invalid_answer", None)
    assert decided.decision == "decline"
    assert (refused.ref, refused.tool, refused.arguments_sha256) == (
        decided.ref,
        decided.tool,
        decided.arguments_sha256,
    )


def test_5_1_what_settled_it_without_an_answer_is_told() -> None:
    ways: list[tuple[Settlement | None, str, str]] = [
        (Bench().answer(OutcomeCancelled()), "client", "decline"),
        (Bench().ledger.turn_cancelled(frozenset({"root"}))[0], "turn_cancelled", "cancel"),
        (Bench().ledger.turn_ended("root", "turn")[0], "turn_ended", "decline"),
        (Bench().ledger.resolved(KEY), "codex_resolved", "decline"),
        (Bench().ledger.codex_lost(1)[0], "disconnected", "none: Codex is gone"),
        (Bench().ledger.abandoned(KEY, "gone"), "disconnected", "decline"),
        (Bench().ledger.abandoned(KEY, "again", by="superseded"), "superseded", "decline"),
    ]
    for settlement, by, decision in ways:
        (made,) = events_of(settlement)
        assert isinstance(made, ApprovalDecided)
        assert (made.by, made.decision, made.option) == (by, decision, None)


def asked_of(asked: Any) -> Elicitation:
    routed = route(asked, context(running()))
    assert isinstance(routed, Elicitation)
    return routed


def test_5_1_an_elicitation_is_another_kind_of_event_than_an_approval() -> None:
    form = records.elicitation_requested(asked_of(elicitation()), 3)
    assert form.type == "elicitation.requested"
    assert (form.mode, form.server, form.fields, form.url) == ("form", "notes", ("name",), None)
    assert (form.ref.session_id, form.ref.turn_id, form.ref.generation) == ("root", "turn", 3)
    url = records.elicitation_requested(asked_of(elicitation(**URL)), 3)
    assert (url.mode, url.fields, url.url) == ("url", (), URL["url"])
    model = records.elicitation_requested(asked_of(request("item/tool/requestUserInput")), 3)
    assert (model.mode, model.server) == ("form", None)


@pytest.mark.parametrize(
    ("response", "action", "fields"),
    [
        ({"action": "accept", "content": {"name": "hunter2"}}, "accept", ("name",)),
        ({"action": "decline"}, "decline", ()),
        ({"action": "cancel"}, "cancel", ()),
    ],
    ids=["accept", "decline", "cancel"],
)
def test_5_2_an_answer_is_recorded_by_the_names_of_its_fields(
    response: Any, action: str, fields: tuple[str, ...]
) -> None:
    routed = asked_of(elicitation())
    reply = reply_to(routed.form_or_url, response)
    made = records.elicitation_answered(routed, 1, reply, "client")
    assert isinstance(made, ElicitationAnswered)
    assert (made.action, made.fields, made.by, made.content) == (action, fields, "client", None)
    assert "hunter2" not in repr(made)


def test_5_1_an_answer_that_was_not_passed_on_says_why() -> None:
    routed = asked_of(elicitation())
    made = records.elicitation_answered(
        routed, 1, declined(routed.form_or_url, "it does not fit"), "invalid_answer"
    )
    assert (made.action, made.problem, made.by) == ("decline", "it does not fit", "invalid_answer")


@pytest.mark.parametrize(
    ("asked", "discriminator"),
    [
        (elicitation(_meta={"codex_approval_kind": "tool_suggestion"}), "tool_suggestion"),
        (tool_approval(), "mcp_tool_call"),
        (elicitation(mode="hologram"), "hologram"),
        (elicitation(**{**URL, "url": "file:///etc"}), "url"),
        (command(kind="hologram"), "hologram"),
        (request("item/tool/call"), None),
        (request("attestation/generate"), None),
    ],
)
def test_5_1_a_decline_says_what_distinguished_it_and_that_nobody_was_asked(
    asked: Any, discriminator: str | None
) -> None:
    routed = route(asked, context(running()))
    assert isinstance(routed, Decline)
    made = records.request_declined(routed, 2)
    assert isinstance(made, RequestDeclined)
    if discriminator is None:
        assert made.discriminator is None
    else:
        assert discriminator in (made.discriminator or "")
    has_thread = asked.method != "attestation/generate"
    assert made.ref.thread_id == ("root" if has_thread else None)
    assert (made.asked, made.route, made.ref.method) == (False, "decline", asked.method)
    assert made.ref.session_id == routed.session_id
    json.dumps(made.discriminator)


def test_5_1_what_a_server_writes_as_its_approval_kind_is_recorded_in_bounds() -> None:
    asked = elicitation(_meta={"codex_approval_kind": ["x" * 10_000]})
    routed = route(asked, context(running()))
    assert isinstance(routed, Decline)
    discriminator = records.request_declined(routed, 1).discriminator
    assert discriminator is not None
    assert len(discriminator) < 100


def test_5_1_an_old_request_names_its_conversation_and_its_call() -> None:
    bench = Bench(request("execCommandApproval"))
    ref = records.approval_requested(bench.entry).ref
    assert (ref.thread_id, ref.item_id, ref.turn_id) == ("root", "item", "turn")
