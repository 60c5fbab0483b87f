"""Which turns end because a model has reached for another thread (contract 3.9c)."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.approvals.running_items import ForeignReach, Items, Reach
from tests.support.routing_samples import (
    collab_item,
    item_completed,
    item_started,
    turn_completed,
    turn_started,
)


class _World:
    def __init__(self) -> None:
        self.items = Items({"root", "victim"})
        self.reach = ForeignReach(self.items)

    def hear(self, *events: Any) -> list[Reach]:
        found = []
        for event in events:
            self.items.apply(event)
            reach = self.reach.apply(event)
            if reach is not None:
                found.append(reach)
        return found


FED = collab_item("victim", item_id="fed", tool="sendInput")


@pytest.mark.attack("model")
def test_3_9c_a_turn_that_feeds_another_thread_ends_once_and_so_does_what_it_begins() -> None:
    world = _World()
    found = world.hear(turn_started(), item_started(FED), item_started({**FED, "id": "fed2"}))
    assert found == [Reach("root", "turn", ("victim",))]
    done = item_completed({**FED, "status": "completed"})
    assert world.hear(done, turn_started("victim", "begun")) == [Reach("victim", "begun", ())]
    assert world.hear(turn_completed("victim", "begun"), turn_started("victim", "own")) == []


@pytest.mark.attack("model")
def test_3_9c_a_call_that_failed_ends_no_later_turn_of_its_target() -> None:
    world = _World()
    assert world.hear(turn_started(), item_started(FED)) != []
    world.hear(item_completed({**FED, "status": "failed"}), turn_completed())
    assert world.hear(turn_started("victim", "own")) == []


@pytest.mark.attack("model")
def test_3_9c_of_two_calls_the_one_that_did_not_fail_counts() -> None:
    world = _World()
    world.hear(turn_started(), item_started(FED), item_started({**FED, "id": "well"}))
    world.hear(item_completed({**FED, "status": "failed"}))
    assert world.hear(turn_started("victim", "begun")) == [Reach("victim", "begun", ())]


def test_a_threads_own_agents_are_its_own() -> None:
    world = _World()
    own = collab_item("child", tool="sendInput")
    assert world.hear(turn_started(), item_started(own), turn_started("child", "c")) == []
