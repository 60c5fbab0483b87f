"""What an agent of version 2 says, as version 1: messages as a whole, and what has no place."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.acp._generated.v2.methods import STABLE_MODELS
from codex_acp.acp.as_v1.tool_calls import diffs
from codex_acp.acp.as_v1.updates import Updates
from codex_acp.acp.types import UnknownVariant
from codex_acp.wire.codec import plain

Json = dict[str, Any]


def said(updates: Updates, *wires: Json) -> list[Json]:
    found: list[Json] = []
    for wire in wires:
        params = {"sessionId": "s", "update": wire}
        update = STABLE_MODELS.decode("UpdateSessionNotification", params, "session/update").update
        for made in updates.translated(update):
            body = plain(made)
            assert isinstance(body, dict)
            found.append(body)
    return found


def message(text: str | None, kind: str = "agent_message") -> Json:
    content = None if text is None else [{"type": "text", "text": text}]
    return {"sessionUpdate": kind, "messageId": "m", "content": content}


def chunk(text: str) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}


def texts(found: list[Json]) -> list[tuple[str, str]]:
    return [(each["messageId"], each["content"]["text"]) for each in found]


def test_of_a_whole_message_what_is_new_is_said() -> None:
    updates = Updates()
    found = said(updates, chunk("One"), message("One, two"), message("One, two"), message(None))
    assert texts(found) == [("m", "One"), ("m", ", two")]


def test_a_message_that_was_replaced_is_another_one() -> None:
    found = said(Updates(), chunk("One"), message("Zwei"), message("Zwei, drei"), chunk("!"))
    assert texts(found) == [("m", "One"), ("m#1", "Zwei"), ("m#1", ", drei"), ("m#1", "!")]


@pytest.mark.parametrize(
    "wire",
    [
        {"sessionUpdate": "_weather", "sun": True},
        {"sessionUpdate": "state_update", "state": "_dozing"},
        {"sessionUpdate": "plan_update", "plan": {"type": "_map", "planId": "p"}},
        {**chunk(""), "content": {"type": "_smell", "ppm": 3}},
    ],
    ids=lambda wire: str(wire["sessionUpdate"]),
)
def test_what_version_1_lacks_is_kept_whole(wire: Json) -> None:
    params = {"sessionId": "s", "update": wire}
    update = STABLE_MODELS.decode("UpdateSessionNotification", params, "session/update").update
    (made,) = Updates().translated(update)
    assert isinstance(made, UnknownVariant)
    assert made.wire() == wire


@pytest.mark.parametrize("text", ["", "diff --git", "@@\n+x", "diff --git a/x b/x\n@@ -1 +1 @@"])
def test_a_patch_that_is_none_is_told_in_words(text: str) -> None:
    patch = {"format": "git_patch", "text": text}
    change = {"operation": "modify", "path": "/w/y"}
    assert diffs({"changes": [change], "patch": patch}) == [
        {"type": "content", "content": {"type": "text", "text": "modify: /w/y"}}
    ]
