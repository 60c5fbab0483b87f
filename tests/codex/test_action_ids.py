"""3.7, pure: which actions Codex could take for each other, and what is not the one allowed."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.approvals.actions import ActionIds, Collision, Place, same_action
from codex_acp.codex.approvals.classify import ApprovalRequest
from tests.support.routing_samples import (
    approval_of,
    change,
    command,
    command_item,
    elicitation,
    file_change,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    permissions,
    thread_closed,
    tool_approval,
    turn_completed,
    turn_started,
)

NETWORK: dict[str, Any] = {
    "networkApprovalContext": {"host": "h", "protocol": "https"},
    "command": None,
    "cwd": None,
}
HOST_ID = "network#local#https#h#443"

LS = approval_of(command(0), command_item())
RM = approval_of(command(1, command="rm"))


def asked(*approvals: ApprovalRequest, allowed: bool = False) -> tuple[ActionIds[int], Any]:
    """They are asked about one after the other, under the keys 0, 1, …; what the last came to."""
    ids: ActionIds[int] = ActionIds()
    got = None
    for key, approval in enumerate(approvals):
        got = ids.enter(key, approval, "turn")
        if allowed and key == 0:
            ids.note_allowed(0)
    return ids, got


def test_3_7_what_named_no_turn_is_over_at_the_end_of_any_turn_of_its_thread() -> None:
    ids: ActionIds[int] = ActionIds()
    place = Place("root", "", "item", None)
    assert ids.enter(0, place, "") is None
    ids.note_allowed(0)
    ids.apply(turn_completed("another"))
    assert ids.has(0)
    ids.apply(turn_completed())
    assert not ids.has(0)


# --- what collides -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        RM,
        LS,
        approval_of(permissions(1)),
        approval_of(file_change(1), file_item()),
        approval_of(tool_approval({}, 1), mcp_item(arguments={})),
        approval_of(command(1, **NETWORK)),
        approval_of(command(1, itemId="another", approvalId="item")),
    ],
    ids=["command", "the same", "permissions", "patch", "mcp", "network", "sub-command"],
)
def test_3_7_a_second_action_of_an_id_collides(other: ApprovalRequest) -> None:
    assert asked(LS, other)[1] == Collision((0,), ())
    assert asked(LS, other, allowed=True)[1] == Collision((), (0,))


@pytest.mark.parametrize(
    "other",
    [
        approval_of(command(1, approvalId="sub")),
        approval_of(command(1, approvalId="in", kind="writeStdin")),
        approval_of(command(1, itemId="other")),
        approval_of(command(1, itemId=HOST_ID, **NETWORK)),
    ],
    ids=["sub-command", "input", "another id", "network"],
)
def test_3_7_what_codex_gives_an_id_of_its_own_is_independent(other: ApprovalRequest) -> None:
    assert asked(LS, other)[1] is None
    assert asked(LS, other, allowed=True)[1] is None


def test_3_7_a_command_whose_id_imitates_that_of_a_connection_collides() -> None:
    connection = approval_of(command(0, itemId=HOST_ID, **NETWORK))
    imitation = approval_of(command(1, itemId=HOST_ID, command="rm"))
    assert asked(connection, imitation)[1] == Collision((0,), ())
    assert asked(imitation, connection)[1] == Collision((0,), ())


def test_3_7_a_command_that_was_allowed_may_ask_for_a_connection_once_codex_has_the_answer() -> (
    None
):
    ids, _ = asked(LS, allowed=True)
    ids.note_resolved(0)
    assert ids.enter(1, approval_of(command(1, **NETWORK)), "turn") is None
    ids, _ = asked(LS, allowed=True)
    ids.note_resolved(0)
    assert ids.enter(1, RM, "turn") == Collision((), (0,))


def test_3_7_an_action_without_an_item_counts_until_codex_has_the_answer() -> None:
    host = [approval_of(command(n, itemId=HOST_ID, **NETWORK)) for n in (0, 1)]
    ids, got = asked(*host, allowed=True)
    assert got == Collision((), (0,))
    ids, _ = asked(host[0], allowed=True)
    ids.note_resolved(0)
    assert not ids.has(0)
    assert ids.enter(1, host[1], "turn") is None


def test_3_7_an_id_that_collided_is_barred_until_its_turn_ends() -> None:
    ids, _ = asked(LS, RM)
    assert ids.enter(2, LS, "turn") == Collision((), ())
    ids.apply(turn_completed(turn="another"))
    assert ids.enter(2, LS, "turn") == Collision((), ())
    ids.apply(turn_completed())
    assert ids.enter(3, LS, "next") is None


@pytest.mark.parametrize(
    "end", [turn_completed(), turn_started(turn="next"), thread_closed("root")], ids=repr
)
def test_3_7_what_was_allowed_in_a_turn_that_is_over_counts_no_more(end: Any) -> None:
    ids, _ = asked(LS, allowed=True)
    ids.apply(end)
    assert ids.enter(1, RM, "next") is None


def test_3_7_what_is_pending_stays_so_when_a_turn_ends_for_its_owner_settles_it() -> None:
    ids, _ = asked(LS)
    ids.apply(turn_completed())
    assert ids.enter(1, RM, "turn") == Collision((0,), ())


def test_3_7_a_turn_that_is_reported_to_start_again_forgets_nothing() -> None:
    ids, _ = asked(LS, allowed=True)
    ids.apply(turn_started())
    assert ids.enter(1, RM, "turn") == Collision((), (0,))
    ids.apply(turn_started())
    assert ids.enter(1, RM, "turn") == Collision((), ())


def test_3_7_a_request_that_is_declined_unasked_puts_its_id_in_doubt_as_well() -> None:
    ids, _ = asked(LS, allowed=True)
    assert ids.note_declined(command(1, itemId="other")) is None
    assert ids.note_declined(elicitation(1)) is None
    assert ids.note_declined(command(1, approvalId="sub")) is None
    assert ids.note_declined(command(1, kind="newKind")) == Collision((), (0,))
    assert ids.note_declined(command(1)) is None
    assert asked(LS)[0].note_declined(file_change(1)) == Collision((0,), ())


def test_3_7_what_was_refused_counts_no_more() -> None:
    ids, _ = asked(LS)
    ids.forget(0)
    assert ids.enter(1, RM, "turn") is None


def test_3_7_a_command_asked_about_under_the_item_of_another_is_not_entered() -> None:
    assert asked(approval_of(command(0), command_item("rm")))[1] == Collision((), ())
    assert asked(approval_of(command(0), file_item()))[1] == Collision((), ())
    assert asked(approval_of(command(0, approvalId="sub"), file_item()))[1] is None


# --- what Codex reports --------------------------------------------------------------------------


def test_3_7_an_allowed_action_that_ended_as_shown_frees_its_id() -> None:
    ids, _ = asked(LS, allowed=True)
    assert ids.apply(item_completed(command_item(status="completed"))) is None
    assert ids.enter(1, RM, "turn") is None


@pytest.mark.parametrize("report", [item_started, item_completed])
@pytest.mark.parametrize(
    "item",
    [command_item("rm"), command_item(cwd="/"), file_item(), {"type": "hologram", "id": "item"}],
    ids=["command", "cwd", "type", "unknown type"],
)
def test_3_7_another_action_in_place_of_the_allowed_one_is_noticed(report: Any, item: Any) -> None:
    ids, _ = asked(LS, allowed=True)
    assert ids.apply(report(item, "child")) is None
    assert ids.apply(report({**item, "id": "other"})) is None
    assert ids.apply(report(item)) == Collision((), (0,))
    assert ids.apply(report(item)) is None


def test_3_7_another_action_that_starts_in_place_of_a_pending_one_withdraws_it() -> None:
    ids, _ = asked(LS)
    assert ids.apply(item_started(command_item())) is None
    assert ids.apply(item_completed(command_item("rm"))) is None  # no answer is accepted any more
    assert ids.apply(item_started(command_item("rm"))) == Collision((0,), ())


def test_3_7_the_end_of_a_command_says_nothing_of_its_sub_command() -> None:
    ids, _ = asked(approval_of(command(0, approvalId="sub", command="rm")), allowed=True)
    assert ids.apply(item_completed(command_item())) is None
    assert ids.has(0)


# --- the same action -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "reported", "same"),
    [
        ("echo sk-abc", "echo [REDACTED_SECRET]", True),
        ("a=1234 b", "a=[REDACTED_SECRET] b", True),
        ("'a=12;' b='34' c", "'a=[REDACTED_SECRET]' b='[REDACTED_SECRET]' c", True),
        ("[REDACTED_SECRET]", "[REDACTED_SECRET]", True),
        ("a=1 2 b", "a=[REDACTED_SECRET] b", False),
        ("a= b", "a=[REDACTED_SECRET] b", False),
        ("a=1 b", "a=[REDACTED_SECRET] c", False),
        ("x=1 b", "a=[REDACTED_SECRET] b", False),
        ("ab", "a[REDACTED_SECRET]b", False),
        ("a", "a[REDACTED_SECRET]a", False),
        ("echo 1", "echo 1 [REDACTED_SECRET]", False),
        ("ls", "rm", False),
    ],
)
def test_3_7_a_command_is_the_same_but_for_the_secrets_that_codex_leaves_out(
    shown: str, reported: str, same: bool
) -> None:
    assert same_action(approval_of(command(command=shown)), _item(command_item(reported))) is same


def test_3_7_many_marks_in_a_command_are_compared_at_once() -> None:
    marks = "x[REDACTED_SECRET]" * 20_000 + "!"
    approval = approval_of(command(command="xy" * 40_000))
    assert not same_action(approval, _item(command_item(marks)))


def test_3_7_a_patch_that_failed_may_have_changed_less_and_no_other() -> None:
    shown = file_item(change("/w/a"), change("/w/b"))
    approval = approval_of(file_change(), shown)
    turned = file_item(change("/w/b"), change("/w/a"))
    assert same_action(approval, _item(turned))
    part, other = file_item(change("/w/a", "less")), file_item(change("/w/c"))
    for status, item, same in [
        ("completed", part, False),
        ("failed", part, True),
        ("declined", part, True),
        ("failed", other, False),
        ("completed", shown, True),
    ]:
        assert same_action(approval, _item({**item, "status": status})) is same, (status, item)


def _item(item: dict[str, Any]) -> Any:
    event = item_started(item)
    return event.params.item  # type: ignore[union-attr]
