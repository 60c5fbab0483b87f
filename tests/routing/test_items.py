"""The fold over Codex's notifications: what runs, what was asked, whose child is whose."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex._generated.models import FileChangeThreadItem, McpToolCallThreadItem
from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES, ServerNotification
from codex_acp.codex.approvals import running_items as module
from codex_acp.codex.approvals.running_items import USED_BY_ITEMS, Items
from tests.support.routing_samples import (
    change,
    collab_item,
    event,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    patch_updated,
    running,
    thread_closed,
    thread_of,
    thread_started,
    turn_completed,
    turn_started,
)


def sub_agent_activity(child: str) -> dict[str, str]:
    return {
        "type": "subAgentActivity",
        "id": "activity",
        "agentPath": "/a",
        "agentThreadId": child,
        "kind": "started",
    }


def size_of(items: Items) -> int:
    """How much is held, apart from parents."""
    return len(items._items) + len(items._turns)


@pytest.mark.parametrize("order", list(permutations(["turn", "start", "complete", "end"])))
def test_an_item_runs_exactly_between_its_start_and_its_end_in_every_order(
    order: tuple[str, ...],
) -> None:
    events = {
        "turn": turn_started(),
        "start": item_started(mcp_item()),
        "complete": item_completed(mcp_item()),
        "end": turn_completed(),
    }
    items, turn, item = Items(), False, False
    for name in order:
        items.apply(events[name])
        turn = {"turn": True, "end": False}.get(name, turn)
        # An item of a turn that does not run cannot be approved, so it is not held either.
        item = {"start": turn, "complete": False, "end": False}.get(name, item)
        assert items.is_running("root", "turn") is turn
        assert (items.running_turn("root") == "turn") is turn
        assert (items.get("root", "item") is not None) is item
        assert len(items.mcp_calls("root", "turn", "notes")) == int(item)


def test_an_unfollowed_notification_changes_nothing() -> None:
    assert NOTIFICATION_CLASSES.keys() >= USED_BY_ITEMS
    items = running(mcp_item())
    before = size_of(items)
    items.apply(event("turn/diff/updated", {"threadId": "root", "turnId": "turn", "diff": ""}))
    assert size_of(items) == before


def test_3_2_a_patch_update_replaces_the_changes_of_its_file_change_only() -> None:
    items = running(file_item(), mcp_item("call"))
    items.apply(patch_updated([change("/w/b"), change("/w/c")]))
    items.apply(patch_updated([change("/w/evil")], item_id="call"))
    items.apply(patch_updated([change("/w/evil")], item_id="unknown"))
    items.apply(patch_updated([change("/w/evil")], thread="other"))
    held = items.get("root", "item")
    assert held is not None
    assert isinstance(held.item, FileChangeThreadItem)
    assert [c.path for c in held.item.changes] == ["/w/b", "/w/c"]
    call = items.get("root", "call")
    assert call is not None
    assert isinstance(call.item, McpToolCallThreadItem)


def test_3_2_an_item_reported_again_is_what_was_reported_last_and_stays_asked() -> None:
    items = running(mcp_item(arguments={"n": 1}))
    held = items.get("root", "item")
    assert held is not None
    held.asked = True
    items.apply(item_started(mcp_item(arguments={"n": 2})))
    held = items.get("root", "item")
    assert held is not None
    assert isinstance(held.item, McpToolCallThreadItem)
    assert (held.item.arguments, held.asked) == ({"n": 2}, True)


def test_an_item_id_used_again_in_a_later_turn_was_not_asked_about() -> None:
    items = running(mcp_item())
    held = items.get("root", "item")
    assert held is not None
    held.asked = True
    items.apply(turn_completed())
    items.apply(turn_started(turn="next"))
    items.apply(item_started(mcp_item(), turn="next"))
    assert [r.asked for r in items.mcp_calls("root", "next", "notes")] == [False]


def test_a_turn_that_starts_ends_what_is_left_of_the_one_before() -> None:
    items = running(mcp_item())
    items.apply(turn_started(turn="next"))
    assert items.get("root", "item") is None
    assert not items.is_running("root", "turn")
    items.apply(turn_completed(turn="turn"))  # late: it is not the running one
    assert items.is_running("root", "next")


def test_a_turn_reported_as_started_twice_keeps_its_items() -> None:
    items = running(mcp_item())
    items.apply(turn_started())
    assert items.get("root", "item") is not None


def test_the_end_of_one_threads_turn_leaves_other_threads_alone() -> None:
    items = running(mcp_item())
    items.apply(turn_started("child", "turn"))
    items.apply(item_started(mcp_item(), "child", "turn"))
    items.apply(turn_completed("child", "turn"))
    assert items.get("root", "item") is not None
    assert items.get("child", "item") is None


def test_is_running_of_no_turn_is_false() -> None:
    assert not running().is_running("root", None)
    assert not Items().is_running("root", None)


def test_mcp_calls_are_of_that_thread_turn_and_server_unasked_and_oldest_first() -> None:
    items = running(mcp_item("b"), mcp_item("a"), mcp_item("other", server="x"), file_item())
    items.apply(turn_started("child", "turn"))
    items.apply(item_started(mcp_item("c"), "child", "turn"))
    calls = items.mcp_calls("root", "turn", "notes")
    assert [r.item.id for r in calls if isinstance(r.item, McpToolCallThreadItem)] == ["b", "a"]
    calls[0].asked = True
    assert len(items.mcp_calls("root", "turn", "notes")) == 1
    assert items.mcp_calls("root", "next", "notes") == []


# --- parents -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learn",
    [
        lambda i: i.apply(item_started(collab_item("child"))),
        lambda i: i.apply(item_completed(collab_item("child"))),
        lambda i: i.apply(item_started(sub_agent_activity("child"))),
        lambda i: i.apply(item_completed(sub_agent_activity("child"))),
        lambda i: i.apply(thread_started("child", parent="root")),
        lambda i: i.learn_thread(thread_of("child", parent="root")),
    ],
    ids=["collab start", "collab end", "activity start", "activity end", "thread", "resume"],
)
def test_3_9_a_child_is_known_by_what_names_it(learn: Callable[[Items], None]) -> None:
    items = running()
    learn(items)
    assert items.ancestors_of("child") == ["root"]
    items.apply(thread_started("grandchild", parent="child"))
    assert items.ancestors_of("grandchild") == ["child", "root"]
    assert items.root_of("grandchild") == "root"
    assert items.root_of("root") == "root"


def test_3_9_a_child_outlives_the_turn_that_started_it() -> None:
    items = running(collab_item("child"))
    items.apply(turn_completed())
    assert items.root_of("child") == "root"


def test_3_9_a_message_to_the_parent_makes_no_circle() -> None:
    items = running(collab_item("child"))
    items.apply(turn_started("child", "u"))
    items.apply(item_started(collab_item("root", "child", tool="sendInput"), "child", "u"))
    assert items.ancestors_of("root") == []
    assert items.root_of("child") == "root"


def test_3_9_a_message_to_another_sessions_child_does_not_move_it() -> None:
    items = running(collab_item("child"))
    items.apply(turn_started("stranger", "u"))
    items.apply(item_started(collab_item("child", tool="sendInput"), "stranger", "u"))
    assert items.root_of("child") == "root"


def test_3_9_the_threads_own_parent_outweighs_what_items_said() -> None:
    items = running()
    items.apply(item_started(collab_item("root", tool="sendInput"), "child", "u"))
    assert items.ancestors_of("root") == ["child"]
    items.apply(thread_started("child", parent="root"))
    assert (items.ancestors_of("root"), items.ancestors_of("child")) == ([], ["root"])
    items.apply(thread_started("child", parent="other"))
    assert items.root_of("child") == "other"


@pytest.mark.parametrize("tool", ["sendInput", "resumeAgent", "closeAgent", "wait", "spawnAgent"])
def test_3_9_a_thread_that_this_side_has_opened_is_below_none(tool: str) -> None:
    opened: dict[str, tuple[str, ...]] = {}
    items = Items(opened)
    items.apply(item_started(collab_item("victim", tool=tool), "stranger", "u"))
    assert items.root_of("victim") == "stranger"
    opened |= {"victim": (), "stranger": ()}
    items.apply(item_started(collab_item("other", tool=tool), "stranger", "u"))
    items.apply(thread_started("victim", parent="stranger"))
    assert (items.root_of("victim"), items.root_of("other")) == ("victim", "stranger")
    items.apply(turn_started("victim", "v"))
    assert items.running_sub_agents_of("stranger") == []
    assert items.sub_agents_of("stranger") == ["other"]


def test_3_9_a_line_of_parents_ends() -> None:
    items = Items()
    for n in range(100):
        items.apply(thread_started(f"t{n + 1}", parent=f"t{n}"))
    assert len(items.ancestors_of("t100")) == module.MAX_PARENT_STEPS
    items._parents.update({"a": "b", "b": "a"})
    assert len(items.ancestors_of("a")) == module.MAX_PARENT_STEPS


def test_3_7_a_resumed_thread_brings_back_its_running_turn_items_and_children() -> None:
    done = {**mcp_item("done"), "status": "completed"}
    items = Items()
    items.learn_thread(
        thread_of(
            "root",
            {"id": "old", "status": "completed", "items": [collab_item("a"), mcp_item("old")]},
            {"id": "turn", "status": "inProgress", "items": [mcp_item(), done, collab_item("b")]},
        )
    )
    assert items.is_running("root", "turn")
    assert items.get("root", "item") is not None
    assert items.get("root", "done") is None
    assert items.get("root", "old") is None
    assert (items.root_of("a"), items.root_of("b")) == ("root", "root")


def test_3_7_a_resume_keeps_what_was_asked() -> None:
    items = running(mcp_item())
    held = items.get("root", "item")
    assert held is not None
    held.asked = True
    turn = {"id": "turn", "status": "inProgress", "items": [mcp_item()]}
    items.learn_thread(thread_of("root", turn))
    held = items.get("root", "item")
    assert held is not None
    assert held.asked


def test_an_unknown_kind_of_item_is_held_by_its_id_and_never_an_mcp_call() -> None:
    strange = {"type": "quantumToolCall", "id": "q", "server": "notes", "arguments": None}
    items = running(strange, {"type": "nameless"})
    assert items.get("root", "q") is not None
    assert items.mcp_calls("root", "turn", "notes") == []
    items.apply(item_completed(strange))
    assert items.get("root", "q") is None
    items.apply(turn_completed())
    assert size_of(items) == 0


# --- bounds ------------------------------------------------------------------------------------

_threads = st.sampled_from(["a", "b", "c"])
_turns = st.sampled_from(["1", "2"])
_ids = st.sampled_from(["x", "y", "z"])
_made = st.one_of(
    st.builds(turn_started, _threads, _turns),
    st.builds(turn_completed, _threads, _turns),
    st.builds(lambda i, t, u: item_started(mcp_item(i), t, u), _ids, _threads, _turns),
    st.builds(lambda i, t, u: item_completed(mcp_item(i), t, u), _ids, _threads, _turns),
    st.builds(
        lambda c, t, u: item_started(collab_item(*c, thread=t), t, u),
        st.lists(_threads, max_size=2),
        _threads,
        _turns,
    ),
    st.builds(thread_started, _threads, st.none() | _threads),
    st.builds(thread_closed, _threads),
)


@given(st.lists(_made, max_size=30))
def test_nothing_is_held_after_the_turns_ended_and_no_line_of_parents_is_a_circle(
    events: list[ServerNotification],
) -> None:
    items = Items()
    for one in events:
        items.apply(one)
        for running_item in items._items.values():
            assert items.is_running(running_item.thread_id, running_item.turn_id)
        for thread in "abc":
            assert thread not in items.ancestors_of(thread)
    for thread in "abc":
        for turn in "12":
            items.apply(turn_completed(thread, turn))
    assert size_of(items) == 0
    for thread in "abc":
        items.apply(thread_closed(thread))
    assert items._parents == {}


def test_a_closed_thread_is_forgotten_with_its_turn_and_its_parent() -> None:
    items = running(mcp_item())
    items.apply(thread_started("child", parent="root"))
    items.apply(turn_started("child", "u"))
    items.apply(thread_closed("child"))
    assert items.ancestors_of("child") == []
    assert not items.is_running("child", "u")
    assert items.is_running("root", "turn")
    items.apply(thread_closed("root"))
    assert size_of(items) == 0


def test_parents_are_bounded_and_the_oldest_goes_first() -> None:
    items = Items()
    for n in range(module.MAX_PARENTS + 2):
        items.apply(thread_started(f"c{n}", parent="root"))
    assert items.root_of("c1") == "c1"
    assert items.root_of("c2") == items.root_of(f"c{module.MAX_PARENTS + 1}") == "root"


def test_an_item_that_starts_after_its_turn_ended_is_not_held() -> None:
    items = running()
    items.apply(turn_completed())
    for n in range(100):
        items.apply(item_started(mcp_item(str(n))))
    assert size_of(items) == 0


def turn_within(outer: str, turn: str = "inner") -> ServerNotification:
    """How a review starts: its turn has another id than its items, its end and its requests."""
    begun = {"id": turn, "rootTurnId": outer, "items": [], "status": "inProgress"}
    return event("turn/started", {"threadId": "root", "turn": begun})


def test_the_items_of_a_review_run_under_the_turn_that_the_review_was_started_as() -> None:
    items = Items()
    for each in (turn_within("outer"), item_started(mcp_item(), turn="outer")):
        items.apply(each)

    assert items.is_running("root", "outer")
    assert items.is_running("root", "inner")
    assert items.get("root", mcp_item()["id"]) is not None

    items.apply(turn_completed(turn="outer"))

    assert not items.is_running("root", "outer")
    assert not items.is_running("root", "inner")
    assert size_of(items) == 0


def test_a_turn_that_has_ended_does_not_run_again_because_a_later_one_follows_from_it() -> None:
    items = Items()
    for each in (turn_started(turn="first"), turn_completed(turn="first"), turn_within("first")):
        items.apply(each)

    assert items.is_running("root", "inner")
    assert not items.is_running("root", "first")
