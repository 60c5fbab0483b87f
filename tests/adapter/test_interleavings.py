"""Random interleavings of three and more concurrent requests: one reply each, never by accident.

Contract 1.4, 2.3, 3.2 to 3.5 and 3.7, over the whole settling path in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.approval_world import APPROVALS, KINDS, THREAD, Asked, World, accepts, settle

ROUNDS: Final = 100
"""Interleavings of one example; they share a connection, as the turns of a session do."""

EXAMPLES: Final = int(os.environ.get("CODEX_ACP_INTERLEAVINGS", "2500")) // ROUNDS
"""`nox -s attacks` explores 21,000 interleavings."""

ACTIONS: Final = (
    "accept", "accept_other_option", "reject", "foreign_option", "unknown_option", "cancelled",
    "error", "malformed", "twice", "cancel_prompt", "end_turn", "resolve", "change_item",
    "repeat", "reuse", "collide", "wait",
)  # fmt: skip

Plan = list[tuple[str, int, int, bool]]
"""(what happens, to which request, which option, whether it arrives before the next)."""

reached: Counter[str] = Counter()


def _respond(world: World, asked: Asked, body: dict[str, Any]) -> None:
    assert asked.dialog is not None
    world.client.send({"jsonrpc": "2.0", "id": asked.dialog["id"], **body})


def _selected(option_id: str) -> dict[str, Any]:
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}


def _options(asked: Asked, prefix: str) -> list[str]:
    assert asked.dialog is not None
    listed = asked.dialog["params"]["options"]
    return [o["optionId"] for o in listed if o["kind"].startswith(prefix)]


def _accept(world: World, asked: Asked, which: int) -> None:
    if asked.kind in APPROVALS:
        options = _options(asked, "allow")
        _respond(world, asked, _selected(options[which % len(options)]))
    else:
        content = {"n": 1} if asked.kind == "form" else None
        _respond(world, asked, {"result": {"action": "accept", "content": content}})
    if not asked.answered and asked.may_accept:
        asked.accepting_answer = True
    asked.answered = True


def _negative(world: World, asked: Asked, action: str, others: list[Asked]) -> None:
    """Every answer that must never accept anything."""
    approval = asked.kind in APPROVALS
    foreign = [o for one in others if one.kind in APPROVALS and one.dialog is not None
               for o in _options(one, "allow")]  # fmt: skip
    bodies: dict[str, dict[str, Any]] = {
        "reject": _selected(_options(asked, "reject")[0])
        if approval
        else {"result": {"action": "decline"}},
        "foreign_option": _selected(foreign[0]) if foreign else _selected("p0:0"),
        "unknown_option": _selected("allow") if approval else {"result": {"action": "sure"}},
        "cancelled": {"result": {"outcome": {"outcome": "cancelled"}}}
        if approval
        else {"result": {"action": "cancel"}},
        "error": {"error": {"code": -32000, "message": "accept", "data": {"action": "accept"}}},
        "malformed": {"result": {"outcome": "selected", "action": True, "decision": "accept"}},
    }
    _respond(world, asked, bodies[action])
    asked.answered = True


def _act(world: World, action: str, asked: Asked, which: int) -> None:
    others = [one for one in world.asked if one is not asked]
    if action in ("accept", "accept_other_option", "twice") and asked.dialog is not None:
        _accept(world, asked, 0 if action == "accept" else which)
        if action == "twice":
            _respond(world, asked, _selected("p1:0"))
    elif action == "cancel_prompt":
        world.events.ready_runner().prompt_cancelled(THREAD)
        world.forbid(world.asked)
    elif action == "end_turn":
        world.end_turn()
    elif action == "resolve":
        params = {"threadId": THREAD, "requestId": asked.codex_id}
        world.notify("serverRequest/resolved", params)
        world.forbid([asked], on_arrival=True)
    elif action == "change_item":
        changes = [{"path": "/w/a", "kind": {"type": "add"}, "diff": f"changed {which}\n"}]
        world.notify(
            "item/fileChange/patchUpdated",
            {"threadId": THREAD, "turnId": world.turn_id, "itemId": f"{world.turn_id}-f",
             "changes": changes},
        )  # fmt: skip
        changed = [one for one in world.asked if one.kind == "file" and one.dialog]
        world.forbid(changed, on_arrival=True)
    elif action in ("repeat", "reuse", "collide"):
        _ask_again(world, action, asked)
    elif action != "wait" and asked.dialog is not None and not asked.answered:
        _negative(world, asked, action, others)


def _ask_again(world: World, action: str, asked: Asked) -> None:
    """Codex sends the same once more, another request by its id, or another about its item."""
    was_accepted = any(accepts(reply) for reply in asked.replies)
    if action == "collide":
        if asked.kind == "file" and (world.is_open(asked) or was_accepted):
            world.collide(asked)
            reached["collided"] += 1
            reached["collided, accepted"] += was_accepted
    elif not world.is_open(asked):
        pass  # its id is free again: that would be a new request
    elif action == "repeat":
        world.codex.send(asked.sent)
    else:
        params = {**asked.sent["params"], "reason": "another"}
        world.codex.send({**asked.sent, "params": params})
        world.forbid([asked], on_arrival=True)


async def _round(world: World, number: int, plan: Plan, kinds: list[str]) -> None:
    world.begin(f"turn-{number}")
    for kind in kinds:
        world.ask(kind)
    await settle()
    world.collect()
    for action, target, which, pause in plan:
        _act(world, action, world.asked[target % len(world.asked)], which)
        if pause or action == "collide":  # else what settles the first one would come before
            await settle()
            world.collect()
    await settle()
    world.collect()
    world.end_turn()
    await settle()
    world.collect()
    assert world.interrupted or not world.must_interrupt
    for asked in world.asked:
        assert len(asked.replies) == 1, f"{asked} got {len(asked.replies)} replies"
        (reply,) = asked.replies
        assert type(reply["id"]) is int
        if accepts(reply):
            assert asked.accepting_answer, f"{asked} was accepted by accident: {reply}"
        how = "accepted" if accepts(reply) else "not accepted"
        reached[f"{asked.kind} {how}"] += 1


def _plan(rng: random.Random) -> tuple[Plan, list[str]]:
    """A random round: which requests, and what happens to them in which order."""
    plan = [
        (rng.choice(ACTIONS), rng.randrange(5), rng.randrange(4), rng.random() < 0.5)
        for _ in range(rng.randint(1, 8))
    ]
    if rng.random() < 0.1:  # by chance alone, hardly any accepted change would collide
        target = rng.randrange(5)
        plan[:1] = [("accept", target, 0, True), ("collide", target, 0, True)]
    return plan, _possible(rng.choices(KINDS, k=rng.randint(3, 5)))


def _possible(kinds: list[str]) -> list[str]:
    """An item is asked about once at a time; commands, forms and URLs have none of their own."""
    free = ("command", "form", "url")
    kept = [kind for i, kind in enumerate(kinds) if kind in free or kind not in kinds[:i]]
    return kept + ["command"] * (3 - len(kept))


@settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63))
def _explore(seed: int) -> None:
    rng = random.Random(seed)

    async def run() -> None:
        async with World() as world:
            for number in range(ROUNDS):
                await _round(world, number, *_plan(rng))
                reached["interleavings"] += 1

    asyncio.run(run())


@pytest.mark.attack("client")
def test_1_4_and_3_2_hold_in_every_interleaving(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    reached.clear()
    _explore()
    print("\nreached:", dict(sorted(reached.items())))  # noqa: T201 - shown with -s
    assert reached["interleavings"] >= EXAMPLES * ROUNDS
    assert reached["collided"] > EXAMPLES / 3
    assert reached["collided, accepted"] > EXAMPLES / 30
    for kind in KINDS:
        assert reached[f"{kind} accepted"] > EXAMPLES / 3, kind
        assert reached[f"{kind} not accepted"] > EXAMPLES / 3, kind
