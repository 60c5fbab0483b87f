"""The same of turns that nobody recorded: items by chance, told live in any interleaving."""

from __future__ import annotations

import random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.state import SessionState
from tests.sent_to_clients.comparing import assert_same, shown
from tests.support.made_items import KINDS, made_item, told_live
from tests.support.tool_calls import ZED, Json, item_of, replayed
from tests.support.updates import NONE, step

TURN_END: Final[Json] = {
    "threadId": "thread",
    "turn": {"id": "turn", "items": [], "status": "completed"},
}


def readable(item: Json) -> bool:
    """Whether it keeps the bounds that the schema cannot tell."""
    try:
        item_of(item)
    except InvalidPayload:
        return False
    return True


def live(
    items: list[Json], client: ClientFeatures, rng: random.Random
) -> tuple[list[Json], list[str]]:
    """The updates of a turn with these items, and the order in which the items ended."""
    state = SessionState(client)
    waiting = [told_live(item, rng) for item in items]
    updates: list[Json] = []
    ended = []
    while waiting:
        told = rng.choice(waiting)
        method, params = told.pop(0)
        state.now += rng.choice([0.0, 0.5])
        updates += step(state, method, params)
        if not told:
            waiting.remove(told)
            ended.append(params["item"]["id"])
    return updates + step(state, "turn/completed", TURN_END), ended


@settings(max_examples=60)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    seed=st.integers(0, 1_000_000),
    zed=st.booleans(),
)
def test_a_turn_of_any_items_is_loaded_as_it_was_shown_live(
    kinds: list[str], seed: int, zed: bool
) -> None:
    rng = random.Random(seed)
    made = [made_item(kind, rng, f"item-{number}") for number, kind in enumerate(kinds)]
    items = {item["id"]: item for item in made if readable(item)}
    client = ZED if zed else NONE
    updates, order = live(list(items.values()), client, rng)
    past = SessionState(client)
    loaded = [update for name in order for update in replayed(past, items[name])]

    assert_same(shown(updates, client), shown(loaded, client), set(items))
