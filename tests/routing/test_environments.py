"""3.8, 3.2, 6.2: an action on another machine is asked about as one, and no policy allows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.codex import ApprovalQuestion, allow_commands, allow_edits
from codex_acp.codex._generated.server_requests import ServerRequest
from codex_acp.codex.approvals.actions import place_of, refreshed, unseen_looks
from codex_acp.codex.approvals.classify import ApprovalRequest, classify
from codex_acp.codex.approvals.grants import (
    NotGranted,
    Once,
    Session,
    accepting_reply,
    arguments_of,
    digest_of,
)
from codex_acp.codex.approvals.running_items import Items
from codex_acp.routing.approvals import command_of
from codex_acp.routing.ledger import Key, Ledger, LedgerEntry
from codex_acp.routing.records import approval_requested
from codex_acp.routing.route import Approval
from codex_acp.wire.codec import plain
from tests.support.routing_samples import (
    approval_route,
    change,
    command,
    event,
    file_change,
    file_item,
    item_started,
    permissions,
    running,
    thread_of,
    thread_started,
    turn_started,
)

BOTH = ("local", "production")
UNSEEN = "(not looked at: it may be on another machine)"
UNKNOWN = "On one of local, production (Codex does not say which)"
ADDED = file_item(change("/w/notes"))
ESCALATED: dict[str, Any] = {
    "availableDecisions": [
        "accept",
        "acceptForSession",
        {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}},
    ],
    "proposedExecpolicyAmendment": ["ls"],
}
FILES: dict[str, Any] = {"permissions": {"network": None, "fileSystem": {"write": ["/out"]}}}
NETWORK: dict[str, Any] = {"permissions": {"network": {"enabled": True}, "fileSystem": None}}


def on(*environments: str, adds: bool = True) -> Items:
    """What is known of a thread with these environments, in which a file may be added."""
    items = running(ADDED) if adds else running()
    items.opened = {"root": environments}
    return items


def routed(asked: ServerRequest, items: Items) -> Approval:
    """The route as the adapter makes it."""
    approval = classify(asked, items)
    assert isinstance(approval, ApprovalRequest)
    return approval_route(asked, items, looks=unseen_looks(approval))


def question(asked: ServerRequest, items: Items) -> ApprovalQuestion:
    """The question of a policy."""
    approval = classify(asked, items)
    assert isinstance(approval, ApprovalRequest)
    place = place_of(approval)
    return ApprovalQuestion(
        approval, arguments_of(approval), (Once(), Session()), place.thread_id, "root", "turn",
        place.item_id, digest_of(approval), {"/w/notes": "/w/notes"},
    )  # fmt: skip


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    ("asked", "title"),
    [
        (command(environmentId="production"), f"On production: Run: `ls -l`, in /w {UNSEEN}"),
        (command(environmentId="production", cwd=None), "On production: Run: ls -l"),
        (command(environmentId=None), f"{UNKNOWN}: Run: `ls -l`, in /w {UNSEEN}"),
        (
            permissions(environmentId="production", **FILES),
            f"On production: Give the turn permissions: write /out {UNSEEN}",
        ),
        (
            permissions(environmentId="production", **NETWORK),
            "On production: Give the turn permissions: network",
        ),
        (file_change(), f"{UNKNOWN}: Write /w/notes {UNSEEN}"),
    ],
)
def test_3_8_a_question_about_another_machine_names_it(asked: ServerRequest, title: str) -> None:
    edits = asked.method == file_change().method
    route = routed(asked, on(*BOTH, adds=edits))
    assert route.shown.title == title
    assert "production" in json.dumps(route.shown.raw_input)
    assert route.shown.kind == "other", "who allows all of a kind means this machine"
    assert not route.shown.locations
    assert command_of(route.approval, route.looks) is None
    assert route.offered.grants == (Once(),)
    if not edits:  # whose announced diffs stay
        first: Any = next(iter(route.shown.content or ()))
        assert first.text == f"{title.partition(':')[0]}."
    entry = Ledger().open(Key(1, "int", 0), route)
    assert isinstance(entry, LedgerEntry)
    assert approval_requested(entry).subject[-1] == title.partition(":")[0]


@pytest.mark.parametrize("make", [command, permissions])
def test_3_2_the_machine_is_a_part_of_what_is_digested(make: Any) -> None:
    here, there = (routed(make(environmentId=where), on(*BOTH)) for where in BOTH)
    assert here.digest != there.digest
    here, there = (routed(make(environmentId="production", cwd=cwd), on(*BOTH)) for cwd in "ab")
    assert here.digest != there.digest


def test_3_2_a_machine_attached_while_a_person_is_asked_declines_an_edit() -> None:
    items = on("local")
    approval = classify(file_change(), items)
    assert isinstance(approval, ApprovalRequest)
    shown = digest_of(approval)
    items.opened = {"root": BOTH}
    reply = accepting_reply(Once(), (Once(),), shown, refreshed(approval, items), running=True)
    assert isinstance(reply, NotGranted)
    assert reply.check == "changed"


@pytest.mark.parametrize("environments", [(), ("local",)])
@pytest.mark.parametrize("asked", [command(**ESCALATED), permissions(), file_change()])
def test_3_8_with_this_machine_alone_nothing_is_said_of_machines(
    asked: ServerRequest, environments: tuple[str, ...]
) -> None:
    told = routed(asked, on(*environments)), routed(asked, running(ADDED))
    assert told[0] == told[1]
    assert "local" not in json.dumps(told[0].shown.raw_input)
    assert Session() in told[0].offered.grants


def test_3_8_a_question_about_this_machine_is_as_ever_but_no_rule_for_commands_is_offered() -> None:
    here = command(environmentId="local", **ESCALATED)
    told = approval_route(here, on(*BOTH))
    alone = approval_route(here, on("local"))
    assert (told.shown, told.digest) == (alone.shown, alone.digest)
    assert told.offered.grants == (Once(),), "Codex takes a rule on every machine"
    assert len(alone.offered.grants) == 3
    granted = routed(permissions(environmentId="local"), on(*BOTH))
    assert Session() in granted.offered.grants, "these Codex keeps apart"


@pytest.mark.attack("model")
@pytest.mark.parametrize("how", ["parent", "its own"])
def test_3_8_a_sub_agent_has_the_machines_of_the_thread_above_it(how: str) -> None:
    items = on(*BOTH) if how == "parent" else running()
    items.apply(thread_started("child", parent="root"))
    if how == "its own":
        child = plain(thread_of("child", parent="root"))
        listed = [
            {"environmentId": name, "cwd": "/w", "runtimeWorkspaceRoots": []} for name in BOTH
        ]
        items.apply(event("thread/started", {"thread": {**child, "environments": listed}}))
    items.apply(turn_started("child", "t"))
    items.apply(item_started(ADDED, "child", "t"))
    route = routed(file_change(threadId="child", turnId="t"), items)
    assert str(route.shown.title).startswith(UNKNOWN)


@pytest.mark.attack("model")
async def test_6_2_no_policy_allows_an_action_that_may_be_on_another_machine() -> None:
    commands, edits = allow_commands(["ls -l"]), allow_edits(within="/w")
    here, there = (command(environmentId=where) for where in BOTH)
    assert await commands.decide(question(here, on(*BOTH))) is not None
    assert await commands.decide(question(there, on(*BOTH))) is None
    assert await commands.decide(question(there, on())) is None, "a Codex that lists none"
    assert await edits.decide(question(file_change(), on("local"))) is not None
    for environments in (BOTH, ("production",)):
        assert await edits.decide(question(file_change(), on(*environments))) is None
    assert question(file_change(), on(*BOTH)).elsewhere == BOTH
    assert question(here, on(*BOTH)).elsewhere == ()
