"""``humanCommand`` (Codex 0.169), which a person must decide each time, and ``writeStdin``, about
which Codex asks each time: both can be allowed only once."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.approvals.grants import Once, Session, granted, offered_grants
from codex_acp.routing.approvals import choices, permission_call
from tests.support.routing_samples import approval_of, command, reply_of

LASTING: list[Any] = [
    "acceptForSession",
    {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}},
]


def human(**changes: Any) -> Any:
    return approval_of(command(kind="humanCommand", **changes))


@pytest.mark.parametrize("kind", ["humanCommand", "writeStdin"])
@pytest.mark.parametrize("listed", [None, ["accept", "cancel"], ["accept", "decline", "cancel"]])
def test_2_6_it_can_be_allowed_once_and_rejected_and_nothing_else(
    listed: list[str] | None, kind: str
) -> None:
    approval = approval_of(command(kind=kind, availableDecisions=listed))
    grants = offered_grants(approval)
    assert grants.grants == (Once(),)
    assert [c.option.kind for c in choices(grants, approval, "t")] == ["allow_once", "reject_once"]


@pytest.mark.parametrize("kind", ["humanCommand", "writeStdin"])
def test_2_6_a_lasting_decision_that_is_listed_all_the_same_is_not_offered(kind: str) -> None:
    listed, proposed = ["accept", *LASTING], ["touch"]
    approval = approval_of(
        command(kind=kind, availableDecisions=listed, proposedExecpolicyAmendment=proposed)
    )
    found = offered_grants(approval)
    assert found.grants == (Once(),)
    assert len(found.unknown) == len(LASTING)
    with pytest.raises(ValueError, match="was not offered"):
        granted(approval, Session())


def test_a_network_rule_is_not_offered_either() -> None:
    rules = [{"host": "example.com", "action": "deny"}]
    context = {"host": "example.com", "protocol": "https"}
    approval = human(networkApprovalContext=context, proposedNetworkPolicyAmendments=rules)
    assert offered_grants(approval).grants == (Once(),)


def test_allowing_it_is_the_one_time_decision() -> None:
    assert reply_of(human(), Once()) == {"decision": "accept"}


def test_without_accept_among_the_decisions_there_is_nothing_to_allow() -> None:
    assert offered_grants(human(availableDecisions=["decline", "cancel"])).grants == ()


def test_its_title_says_that_a_person_is_wanted() -> None:
    title = permission_call(human(command="touch made"), "item-1", None, {}).title
    assert title == "Run (your organisation wants a person to decide): touch made"
