"""File changes and permissions, on the real Codex (contract 2.6, 3 and 4)."""

from __future__ import annotations

from codex_acp.testing import (
    Step,
    Text,
    add_file,
    apply_patch,
    exec_command,
    request_permissions,
)
from tests.e2e_contract.contract_bench import ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]


def edit(path: str, old: str, new: str) -> str:
    """A patch that replaces one line."""
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"


ADDED = SCENES.add("added", [add_file("added.txt", "one\ntwo", call_id="f1")], DONE)
REFUSED = SCENES.add("refused", [add_file("refused.txt", "no", call_id="f2")], DONE)
FOR_SESSION = SCENES.add(
    "for session",
    [add_file("again.txt", "one", call_id="f3")],
    [apply_patch(edit("again.txt", "one", "two"), call_id="f4")],
    DONE,
)
ONCE = SCENES.add(
    "once",
    [add_file("once.txt", "one", call_id="f5")],
    [apply_patch(edit("once.txt", "one", "two"), call_id="f6")],
    DONE,
)
DELETED = SCENES.add(
    "deleted",
    [add_file("deleted.txt", "one", call_id="f8")],
    [apply_patch("*** Begin Patch\n*** Delete File: deleted.txt\n*** End Patch\n", call_id="f9")],
    DONE,
)
OTHER_FILE = SCENES.add("other file", [add_file("other.txt", "no", call_id="f10")], DONE)
OTHER_SESSION = SCENES.add("other session", [add_file("deleted.txt", "x", call_id="f11")], DONE)
WRITABLE = SCENES.add("writable", [request_permissions("Often", write=["/"], call_id="p5")], DONE)
WRITES = [
    SCENES.add(f"writes {n}", [exec_command(f"touch written-{n}", call_id=f"w{n}")], DONE)
    for n in range(2)
]
CANCELLED = SCENES.add("cancelled", [add_file("cancelled.txt", "no", call_id="f7")])
NETWORK = SCENES.add(
    "network", [request_permissions("I need it", network=True, call_id="p1")], DONE
)
NO_NETWORK = SCENES.add(
    "no network", [request_permissions("I want it", network=True, call_id="p2")], DONE
)
SESSION_NETWORK = SCENES.add(
    "session network", [request_permissions("Often", network=True, call_id="p3")], DONE
)
CANCELLED_NETWORK = SCENES.add(
    "cancelled network", [request_permissions("Late", network=True, call_id="p4")]
)


async def test_3_8_a_file_change_is_shown_with_its_diff_and_made_when_approved(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ADDED)
    asked = await bench.asks.next_permission()
    path = str(bench.path("added.txt"))
    assert path in asked.title
    assert not bench.path("added.txt").exists()
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("added.txt").read_text() == "one\ntwo\n"
    assert bench.diffs(session, "f1") == {path: "one\ntwo\n"}
    # 4.1: the permission request's fields replace, so it must bring the diff again or say nothing.
    assert bench.client.diffs(asked.seen) == {path: "one\ntwo\n"}
    assert bench.statuses(session, "f1") == ["in_progress", "pending", "in_progress", "completed"]


async def test_3_4_a_rejected_file_change_is_not_made_and_the_turn_goes_on(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, REFUSED)
    (await bench.asks.next_permission()).choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert not bench.path("refused.txt").exists()
    assert "rejected" in bench.outputs(REFUSED)["f2"]
    assert bench.statuses(session, "f2") == ["in_progress", "pending", "failed"]
    assert bench.replies(session) == [{"decision": "decline"}]


async def test_2_6_an_approval_for_the_session_spares_the_second_question(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FOR_SESSION)
    (await bench.asks.next_permission()).choose("allow_always", "for this session")

    assert await prompt.end() == "end_turn"
    assert bench.replies(session) == [{"decision": "acceptForSession"}]
    assert bench.path("again.txt").read_text() == "two\n"


async def test_2_6_files_allowed_for_the_session_may_be_deleted_and_that_is_said(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, DELETED)
    (await bench.asks.next_permission()).choose(
        "allow_always", "for this session: any change at these paths, their deletion too"
    )
    assert await prompt.end() == "end_turn"
    assert not bench.path("deleted.txt").exists()
    assert len(bench.asked(session)) == 1

    # And no other file, nor these in another session.
    for one, scene in ((session, OTHER_FILE), (await bench.new_session(), OTHER_SESSION)):
        prompt = bench.prompt(one, scene)
        (await bench.asks.next_permission()).choose("reject_once")
        assert await prompt.end() == "end_turn"


async def test_2_6_an_approval_once_does_not_spare_the_second_question(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ONCE)
    (await bench.asks.next_permission()).choose("allow_once")
    (await bench.asks.next_permission()).choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("once.txt").read_text() == "one\n"


async def test_4_5_a_cancel_while_a_file_change_is_asked_leaves_no_tool_call_open(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CANCELLED)
    await bench.asks.next_permission()
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert bench.replies(session) == [{"decision": "cancel"}]
    assert bench.statuses(session, "f7") == ["in_progress", "pending", "failed"]
    assert not bench.path("cancelled.txt").exists()


async def test_4_1_permissions_are_announced_and_granted_for_the_turn(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, NETWORK)
    asked = await bench.asks.next_permission()
    assert "network" in asked.title
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    (reply,) = bench.replies(session)
    assert reply["scope"] == "turn"
    assert reply["permissions"]["network"] == {"enabled": True}
    assert bench.statuses(session, asked.call) == ["pending", "in_progress", "completed"]
    assert '"enabled":true' in bench.outputs(NETWORK)["p1"].replace(" ", "")


async def test_3_4_rejected_permissions_are_an_empty_grant_and_the_turn_goes_on(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, NO_NETWORK)
    asked = await bench.asks.next_permission()
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert bench.replies(session) == [{"permissions": {}, "scope": "turn"}]
    assert "true" not in bench.outputs(NO_NETWORK)["p2"]
    assert bench.statuses(session, asked.call)[-1] == "failed"


async def test_2_6_permissions_can_be_granted_for_the_session(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, SESSION_NETWORK)
    (await bench.asks.next_permission()).choose("allow_always", "until the session ends")

    assert await prompt.end() == "end_turn"
    (reply,) = bench.replies(session)
    assert reply["scope"] == "session"


async def test_2_6_permissions_of_a_session_hold_for_every_later_command_of_it(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, WRITABLE)
    words = "these permissions, for every command and edit until the session ends"
    (await bench.asks.next_permission()).choose("allow_always", words)
    assert await prompt.end() == "end_turn"

    another = await bench.new_session()
    for number, one in enumerate((session, another)):
        assert await bench.prompt(one, WRITES[number]).end() == "end_turn"
    assert len(bench.asked(session)) == 1
    assert bench.path("written-0").exists()
    assert not bench.path("written-1").exists()


async def test_3_5_a_cancel_while_permissions_are_asked_grants_nothing(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CANCELLED_NETWORK)
    await bench.asks.next_permission()
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert bench.replies(session) == [{"permissions": {}, "scope": "turn"}]
