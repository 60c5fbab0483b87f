"""2.6, 3.6: which grants are offered, and that a reply grants what was offered and no more."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from codex_acp.codex.approvals.classify import ApprovalRequest
from codex_acp.codex.approvals.grants import (
    Always,
    Grant,
    Once,
    RememberHost,
    RememberPrefix,
    Session,
    allows,
    granted,
    offered_grants,
)
from tests.support.routing_samples import (
    approval_of,
    command,
    file_change,
    file_item,
    mcp_item,
    options,
    permissions,
    questions,
    reply_of,
    request,
    tool_approval,
)

PREFIX = ["touch", "made"]
HOST = {"host": "example.com", "action": "allow"}
DENY = {"host": "example.com", "action": "deny"}


def amendment(prefix: list[str]) -> dict[str, Any]:
    return {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": prefix}}


def rule(host: str, action: str) -> dict[str, Any]:
    host_rule = {"host": host, "action": action}
    return {"applyNetworkPolicyAmendment": {"network_policy_amendment": host_rule}}


# --- commands ------------------------------------------------------------------------------------

DECISIONS: list[tuple[Any, Grant | None]] = [
    ("accept", Once()),
    ("acceptForSession", Session()),
    ("decline", None),
    ("cancel", None),
    ("acceptForever", None),
    ({"acceptWithMagic": {"spell": "x"}}, None),
    (amendment(PREFIX), RememberPrefix(("touch", "made"))),
    (amendment(["touch"]), None),
    (amendment([*PREFIX, "x"]), None),
    (amendment([]), None),
    (rule("example.com", "allow"), RememberHost("example.com", "allow")),
    (rule("example.com", "deny"), RememberHost("example.com", "deny")),
    (rule("evil.com", "allow"), None),
    (rule("example.com", "audit"), None),
]
"""A decision that Codex lists, and what is offered if it proposed `PREFIX` and both rules."""

PROPOSED: dict[str, Any] = {
    "proposedExecpolicyAmendment": PREFIX,
    "proposedNetworkPolicyAmendments": [
        HOST,
        DENY,
        {"host": "evil.com", "action": "allow"},
        {"host": "example.com", "action": "audit"},
    ],
    "networkApprovalContext": {"host": "example.com", "protocol": "https"},
}


@pytest.mark.parametrize(
    "chosen",
    [c for n in (0, 1, 2) for c in product(DECISIONS, repeat=n)] + [tuple(DECISIONS)],
    ids=lambda c: "+".join(str(d[0])[:40] for d in c) or "none",
)
def test_3_6_what_is_offered_is_what_codex_lists_and_proposed(
    chosen: tuple[tuple[Any, Grant | None], ...],
) -> None:
    listed = [decision for decision, _ in chosen]
    approval = approval_of(command(availableDecisions=listed, **PROPOSED))
    expected = list(dict.fromkeys(grant for _, grant in chosen if grant is not None))
    got = offered_grants(approval)
    assert list(got.grants) == expected
    left_out = [d for d, g in chosen if g is None and d not in ("decline", "cancel")]
    assert len(got.unknown) == len(left_out)
    for grant in got.grants:
        assert reply_of(approval, grant) == {"decision": next(d for d, g in chosen if g == grant)}


@pytest.mark.parametrize(("decision", "grant"), DECISIONS)
def test_3_6_an_amendment_that_was_not_proposed_is_never_offered(
    decision: Any, grant: Grant | None
) -> None:
    got = offered_grants(approval_of(command(availableDecisions=[decision])))
    assert got.grants == ((grant,) if isinstance(grant, Once | Session) else ())


def test_3_6_a_rule_for_another_host_than_the_asked_one_is_never_offered() -> None:
    other = {**PROPOSED, "networkApprovalContext": {"host": "other.com", "protocol": "https"}}
    for changes in (other, {**PROPOSED, "networkApprovalContext": None}):
        listed = [decision for decision, _ in DECISIONS]
        got = offered_grants(approval_of(command(availableDecisions=listed, **changes)))
        assert not [g for g in got.grants if isinstance(g, RememberHost)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [Once(), Session()]),
        (
            {"proposedExecpolicyAmendment": PREFIX},
            [Once(), Session(), RememberPrefix(("touch", "made"))],
        ),
        ({"proposedExecpolicyAmendment": []}, [Once(), Session()]),
        (
            PROPOSED,
            [
                Once(),
                Session(),
                RememberHost("example.com", "allow"),
                RememberHost("example.com", "deny"),
            ],
        ),
        ({**PROPOSED, "additionalPermissions": {"network": {"enabled": True}}}, [Once()]),
    ],
    ids=["plain", "prefix", "empty prefix", "network", "more permissions"],
)
def test_2_6_a_server_that_lists_nothing_leaves_what_its_response_has(
    changes: dict[str, Any], expected: list[Grant]
) -> None:
    approval = approval_of(command(**changes))
    assert list(offered_grants(approval).grants) == expected
    for grant in expected:
        reply_of(approval, grant)


def test_2_6_an_empty_list_offers_nothing() -> None:
    assert offered_grants(approval_of(command(availableDecisions=[]))).grants == ()


# --- MCP tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("persist", "expected", "unknown"),
    [
        ("session", [Session()], 0),
        ("always", [Always()], 0),
        (["session", "always"], [Session(), Always()], 0),
        (["always", "always"], [Always()], 0),
        (["session", "forever", 1, None, ["always"]], [Session()], 4),
        ("forever", [], 1),
        ("", [], 1),
        ([], [], 0),
        (None, [], 0),
        (True, [], 0),
        (7, [], 0),
        ({"always": True}, [], 0),
        ({"session": "always"}, [], 0),
    ],
    ids=str,
)
def test_2_6_persistence_of_a_tool_call_is_offered_only_where_the_request_says_so(
    persist: Any, expected: list[Grant], unknown: int
) -> None:
    approval = approval_of(tool_approval(meta={"persist": persist}), mcp_item())
    got = offered_grants(approval)
    assert list(got.grants) == [Once(), *expected]
    assert len(got.unknown) == unknown
    metas = {Once(): None, Session(): {"persist": "session"}, Always(): {"persist": "always"}}
    for grant in got.grants:
        said = {"action": "accept", "content": None, "_meta": metas[grant]}
        assert reply_of(approval, grant) == said


@pytest.mark.parametrize(("read_only", "lasts"), [(True, False), (False, True), (None, True)])
def test_2_7_nothing_that_lasts_is_offered_for_a_tool_that_codex_would_not_ask_about(
    read_only: bool | None, lasts: bool
) -> None:
    item = {**mcp_item(), "readOnlyHint": read_only}
    approval = approval_of(tool_approval(meta={"persist": ["session", "always"]}), item)
    assert offered_grants(approval).grants == (
        (Once(), Session(), Always()) if lasts else (Once(),)
    )


def test_2_6_without_persist_only_this_call_is_offered() -> None:
    assert offered_grants(approval_of(tool_approval(), mcp_item())).grants == (Once(),)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["Allow", "Allow for this session", "Cancel"], [Once(), Session()]),
        (["Approve Once", "Approve this Session", "Deny"], [Once(), Session()]),
        (["Allow", "Allow and don't ask me again"], [Once(), Always()]),
        (["Allow", "Approve Once", "Allow"], [Once()]),
        (["allow", "Yes", "Allow everything", "Accept"], []),
        ([], []),
    ],
)
def test_2_6_a_tool_question_offers_the_labels_that_are_known(
    labels: list[str], expected: list[Grant]
) -> None:
    asked = questions({"id": "mcp_tool_call_approval_7", "options": options(*labels)})
    approval = approval_of(asked, mcp_item())
    assert list(offered_grants(approval).grants) == expected
    for label, grant in zip(labels, expected, strict=False):
        answers = {"mcp_tool_call_approval_7": {"answers": [label]}}
        assert reply_of(approval, grant) == {"answers": answers}


# --- the others ----------------------------------------------------------------------------------

OTHERS: list[tuple[ApprovalRequest, Any, Any]] = [
    (
        approval_of(file_change(), file_item()),
        {"decision": "accept"},
        {"decision": "acceptForSession"},
    ),
    (
        approval_of(request("execCommandApproval")),
        {"decision": "approved"},
        {"decision": "approved_for_session"},
    ),
    (
        approval_of(request("applyPatchApproval")),
        {"decision": "approved"},
        {"decision": "approved_for_session"},
    ),
]


@pytest.mark.parametrize(("approval", "once", "session"), OTHERS, ids=lambda a: type(a).__name__)
def test_2_6_a_kind_that_cannot_list_decisions_offers_those_of_its_response(
    approval: ApprovalRequest, once: Any, session: Any
) -> None:
    assert offered_grants(approval).grants == (Once(), Session())
    assert reply_of(approval, Once()) == once
    assert reply_of(approval, Session()) == session


EVERY_GRANT: list[Grant] = [
    Once(),
    Session(),
    Always(),
    RememberPrefix(("touch", "made")),
    RememberPrefix(("touch",)),
    RememberPrefix(()),
    RememberHost("example.com", "allow"),
    RememberHost("example.com", "deny"),
    RememberHost("evil.com", "allow"),
    RememberHost("example.com", "audit"),
]

EVERY_KIND: list[ApprovalRequest] = [
    approval_of(command()),
    approval_of(command(**PROPOSED)),
    approval_of(command(availableDecisions=["cancel"], **PROPOSED)),
    approval_of(command(availableDecisions=["accept"], **PROPOSED)),
    approval_of(command(availableDecisions=[rule("example.com", "deny")], **PROPOSED)),
    approval_of(command(kind="writeStdin", proposedExecpolicyAmendment=PREFIX)),
    approval_of(permissions()),
    approval_of(tool_approval(), mcp_item()),
    approval_of(tool_approval(meta={"persist": ["session", "always"]}), mcp_item()),
    approval_of(
        questions({"id": "mcp_tool_call_approval", "options": options("Allow")}), mcp_item()
    ),
    *(row[0] for row in OTHERS),
]


@pytest.mark.parametrize("approval", EVERY_KIND, ids=lambda a: type(a).__name__)
def test_2_6_a_grant_that_was_not_offered_is_refused(approval: ApprovalRequest) -> None:
    for grant in EVERY_GRANT:
        if grant in offered_grants(approval).grants:
            reply_of(approval, grant)
        else:
            with pytest.raises(ValueError, match="was not offered"):
                granted(approval, grant)


def test_a_lasting_denial_is_the_only_grant_that_does_not_allow() -> None:
    not_allowing = [grant for grant in EVERY_GRANT if not allows(grant)]
    assert not_allowing == [
        RememberHost("example.com", "deny"),
        RememberHost("example.com", "audit"),
    ]
