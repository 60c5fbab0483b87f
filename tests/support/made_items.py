"""Items of every type as the schema allows them, made by chance, with what tells of them live."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.support.schema_values import ValueMaker

Json = dict[str, Any]

Told = tuple[str, Json]
"""Method and params of a notification."""

_TURN: Final = {"threadId": "thread", "turnId": "turn"}


@cache
def _definitions() -> dict[str, Any]:
    path = Path(__file__).parents[2] / "schema" / "codex" / "experimental.json"
    definitions: dict[str, Any] = json.loads(path.read_text("utf-8"))["definitions"]
    return {**definitions["v2"], **definitions}


@cache
def _members() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for member in _definitions()["ThreadItem"]["oneOf"]:
        for kind in member["properties"]["type"]["enum"]:
            found.setdefault(kind, []).append(member)
    return found


KINDS: Final = tuple(sorted(_members()))
"""The types of items."""


def made_item(kind: str, rng: random.Random, item_id: str) -> Json:
    """An item of a type."""
    item: Json = ValueMaker(_definitions(), rng).make(rng.choice(_members()[kind]))
    return {**item, "id": item_id, "type": kind}


def told_live(item: Json, rng: random.Random) -> list[Told]:
    """The notifications of an item from its start to its end; the start may have been missed."""
    end = ("item/completed", {**_TURN, "completedAtMs": 2, "item": item})
    if rng.random() < 0.2:
        return [end]
    begun = dict(item)
    if "status" in item and item["type"] != "imageGeneration":
        begun["status"] = "inProgress"
    start = ("item/started", {**_TURN, "startedAtMs": 1, "item": begun})
    return [start, *_pieces(item, rng), end]


def _pieces(item: Json, rng: random.Random) -> list[Told]:
    """A part of the item's text, or all of it, piece by piece."""
    match item["type"]:
        case "agentMessage":
            return _deltas("item/agentMessage/delta", item["id"], item["text"], rng)
        case "plan":
            return _deltas("item/plan/delta", item["id"], item["text"], rng)
        case "reasoning" if item.get("summary"):
            method = "item/reasoning/summaryTextDelta"
            return [
                told
                for index, text in enumerate(item["summary"])
                for told in _deltas(method, item["id"], text, rng, whole=True, summaryIndex=index)
            ]
        case "commandExecution" if item.get("aggregatedOutput"):
            method = "item/commandExecution/outputDelta"
            return _deltas(method, item["id"], item["aggregatedOutput"], rng)
        case "mcpToolCall":
            return _deltas("item/mcpToolCall/progress", item["id"], "on it", rng, key="message")
    return []


def _deltas(
    method: str,
    item_id: str,
    text: str,
    rng: random.Random,
    *,
    whole: bool = False,
    key: str = "delta",
    **more: int,
) -> list[Told]:
    end = len(text) if whole else rng.randint(0, len(text))
    cuts = sorted({0, end, *(rng.randint(0, end) for _ in range(2))})
    pieces = [text[low:high] for low, high in pairwise(cuts)]
    return [(method, {**_TURN, "itemId": item_id, key: piece, **more}) for piece in pieces]
