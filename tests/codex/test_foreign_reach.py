"""Which turns end because a model has reached for another thread (contract 3.9c)."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.approvals.running_items import ForeignReach, Items, Reach
from tests.support.routing_samples import (
    collab_item,
    item_completed,
    item_started,
    message_item,
    turn_completed,
    turn_started,
)


class _World:
    def __init__(self) -> None:
        self.items = Items({"root": (), "victim": ()})
        self.reach = ForeignReach(self.items)

    def hear(self, *events: Any) -> list[Reach]:
        found = []
        for event in events:
            self.items.apply(event)
            reach = self.reach.apply(event)
            if reach is not None:
                found.append(reach)
        return found


IMAGE = {"type": "image", "url": "data:image/png;base64,iVBORw0="}
FED = collab_item("victim", item_id="fed", tool="sendInput", prompt="make it")


@pytest.mark.attack("model")
def test_3_9c_a_turn_that_feeds_another_thread_ends_once_and_so_do_those_that_it_feeds() -> None:
    world = _World()
    found = world.hear(turn_started(), item_started(FED), item_started({**FED, "id": "fed2"}))
    assert found == [Reach("root", "turn", ("victim",))]
    for turn in ("one", "two"):
        fed = item_started(message_item("make it"), "victim", turn)
        assert world.hear(turn_started("victim", turn), fed) == [Reach("victim", turn, ())]
        world.hear(turn_completed("victim", turn))
    own = item_started(message_item("make it"), "victim", "own")
    assert world.hear(turn_started("victim", "own"), own) == []


@pytest.mark.attack("model")
def test_3_9c_a_running_turn_that_is_fed_ends() -> None:
    world = _World()
    own = item_started(message_item("hello"), "victim", "own")
    assert world.hear(turn_started("victim", "own"), own) == []
    fed = item_started(message_item("make it"), "victim", "own")
    found = world.hear(turn_started(), item_started(FED), fed)
    assert found == [Reach("root", "turn", ("victim",)), Reach("victim", "own", ())]


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    ("own", "turn"),
    [(message_item("make it"), "of that text"), (message_item("hello", IMAGE), "with an image")],
)
def test_3_9c_a_call_that_failed_ends_no_later_turn_of_its_target(
    own: dict[str, Any], turn: str
) -> None:
    world = _World()
    world.hear(turn_started(), item_started(FED), item_completed({**FED, "status": "failed"}))
    assert world.hear(turn_started("victim", turn), item_started(own, "victim", turn)) == []


@pytest.mark.attack("model")
def test_3_9c_of_two_calls_with_one_id_the_one_that_did_not_fail_counts() -> None:
    world = _World()
    bad = {**FED, "prompt": "nothing"}
    world.hear(turn_started(), item_started(FED), item_started(bad))
    world.hear(item_completed({**bad, "status": "failed"}), turn_started("victim", "begun"))
    fed = item_started(message_item("make it"), "victim", "begun")
    assert world.hear(fed) == [Reach("victim", "begun", ())]


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "own",
    [message_item("hello"), message_item("make it", client_id="of a client")],
    ids=["of another text", "of a client"],
)
def test_3_9c_a_message_that_never_arrives_ends_no_turn_of_its_target(own: dict[str, Any]) -> None:
    world = _World()
    world.hear(turn_started(), item_started(FED), turn_completed())
    assert world.hear(turn_started("victim", "own"), item_started(own, "victim", "own")) == []


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    ("call", "fed"),
    [
        ({**FED, "prompt": None}, message_item("anything")),
        ({**FED, "prompt": "make it\n[image]"}, message_item("make it", IMAGE)),
    ],
    ids=["no text is told", "an image"],
)
def test_3_9c_a_message_whose_text_cannot_be_compared_counts(
    call: dict[str, Any], fed: dict[str, Any]
) -> None:
    world = _World()
    world.hear(turn_started(), item_started(call), turn_started("victim", "begun"))
    assert world.hear(item_started(fed, "victim", "begun")) == [Reach("victim", "begun", ())]


def test_a_threads_own_agents_are_its_own() -> None:
    world = _World()
    own = collab_item("child", tool="sendInput")
    assert world.hear(turn_started(), item_started(own), turn_started("child", "c")) == []
