"""Mapping invariant 8: live and replayed, an item ends as the same tool call."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.events import ToolCallAnnounced
from codex_acp.mapping.running_calls import (
    announce,
    approval_settled,
    close_open_calls,
    flush_due,
)
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import ITEM
from tests.support.path_looks import texts
from tests.support.schema_values import ValueMaker
from tests.support.tool_call_samples import FILES, SAMPLES
from tests.support.tool_calls import ZED, Folded, Json, complete, item_of, replayed, start
from tests.support.updates import NONE, step, wired

TYPES: Final = sorted({sample.completed["type"] for sample in SAMPLES} - {"telepathy"})
DELTA: Final = "item/commandExecution/outputDelta"


@cache
def _definitions() -> dict[str, Any]:
    path = Path(__file__).parents[2] / "schema" / "codex" / "experimental.json"
    definitions: dict[str, Any] = json.loads(path.read_text("utf-8"))["definitions"]
    return {**definitions["v2"], **definitions}


@cache
def _schema_of(kind: str) -> Any:
    members = _definitions()["ThreadItem"]["oneOf"]
    return next(m for m in members if kind in m["properties"]["type"]["enum"])


def made(kind: str, seed: int) -> Json:
    """An item of this type as the schema allows it, or one of the samples."""
    rng = random.Random(seed)
    if rng.random() < 0.3:
        return dict(rng.choice([s.completed for s in SAMPLES if s.completed["type"] == kind]))
    item = ValueMaker(_definitions(), rng).make(_schema_of(kind))
    for change in item.get("changes", ()):
        change["path"] = rng.choice(["/w/a.py", "/w/b.py"])
    return {**item, "id": "item", "type": kind}


EVENTS = st.lists(
    st.sampled_from(["delta", "typed", "progress", "patch", "tick", "ask", "accept", "deny"]),
    max_size=8,
)


def happen(state: SessionState, client: Folded, event: str, kind: str, seed: int) -> None:
    state.now += 0.1
    match event:
        case "delta":
            client.take(step(state, DELTA, {**ITEM, "delta": f"output {seed}\n"}))
        case "typed":
            params = {**ITEM, "processId": "1", "stdin": "yes\n"}
            client.take(step(state, "item/commandExecution/terminalInteraction", params))
        case "progress":
            params = {**ITEM, "message": "half way"}
            client.take(step(state, "item/mcpToolCall/progress", params))
        case "patch":
            changes = made("fileChange", seed)["changes"]
            params = {**ITEM, "changes": changes}
            client.take(step(state, "item/fileChange/patchUpdated", params))
        case "tick":
            client.take(wired(state, flush_due(state)))
        case "ask":
            call = ToolCallAnnounced(id="item", title=f"Run {kind}?", status="pending")
            client.take(wired(state, announce(state, call)))
            text = {"type": "content", "content": {"type": "text", "text": "Reason: so."}}
            asked = {"title": "Asked", "kind": "other", "status": "pending", "rawInput": {"r": 1}}
            client.patch("item", {**asked, "content": [text], "locations": [{"path": "/x"}]})
        case "accept" | "deny":
            accepted = event == "accept"
            client.take(wired(state, approval_settled(state, "item", accepted=accepted)))
        case _:
            raise AssertionError(event)


def comparable(call: Json, item: Json, events: list[str]) -> Json:
    """Without what only a live client knows: output that the item itself does not hold."""
    has_none = item["type"] == "commandExecution" and item.get("aggregatedOutput") is None
    if has_none and {"delta", "typed"} & set(events):
        return {k: v for k, v in call.items() if k not in ("content", "rawOutput")}
    return call


@settings(max_examples=150)
@given(
    kind=st.sampled_from(TYPES),
    first=st.one_of(st.none(), st.integers(0, 10_000)),
    last=st.integers(0, 10_000),
    events=EVENTS,
    zed=st.booleans(),
    cut_off=st.booleans(),
)
def test_whatever_came_between_the_end_is_that_of_the_item_alone(
    kind: str, first: int | None, last: int, events: list[str], zed: bool, cut_off: bool
) -> None:
    features: ClientFeatures = ZED if zed else NONE
    item = made(kind, last)
    state = SessionState(features, looks=texts(FILES))
    client = Folded(features)
    try:
        if first is not None:
            if "ask" in events:  # another item of its id would not be shown
                events = [event for event in events if event not in ("patch", "deny")]
            client.take(start(state, item if "ask" in events else made(kind, first)))
            for number, event in enumerate(events):
                happen(state, client, event, kind, last + number)
        if cut_off and first is not None:
            client.take(wired(state, close_open_calls(state)))
            assert client.calls["item"]["status"] in ("completed", "failed")
        client.take(complete(state, item))
        past = Folded(features)
        past.take(replayed(SessionState(features, looks=texts(FILES)), item))
    except InvalidPayload:
        return  # a bound that the values made of the schema do not keep
    assert client.announced == ["item"]
    assert client.calls["item"]["status"] in ("completed", "failed")
    happened = events if first is not None else []
    assert comparable(client.calls["item"], item, happened) == comparable(
        past.calls["item"], item, happened
    )


@settings(max_examples=50)
@given(kind=st.sampled_from(TYPES), seed=st.integers(0, 10_000))
def test_cut_off_live_and_replayed_of_a_turn_that_ended_is_the_same(kind: str, seed: int) -> None:
    item = made(kind, seed)
    if "status" not in item or kind == "imageGeneration":
        return  # items without a state of their own are only stored when they are done
    item["status"] = "inProgress"
    live, past = Folded(NONE), Folded(NONE)
    state = SessionState(looks=texts(FILES))
    try:
        live.take(start(state, item))
        live.take(wired(state, close_open_calls(state)))
        past.take(replayed(SessionState(looks=texts(FILES)), item))
    except InvalidPayload:
        return
    assert live.calls == past.calls
    assert live.calls["item"]["status"] == "failed"


def test_the_values_made_of_the_schema_are_nearly_all_read() -> None:
    unread = 0
    for kind in TYPES:
        for seed in range(20):
            try:
                item_of(made(kind, seed))
            except InvalidPayload:
                unread += 1
    assert unread < 20 * len(TYPES) / 5
