"""Mapping invariant 8, of whole conversations: a load shows in the end what was shown live."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.sent_to_clients.comparing import assert_same, features_of, shown
from tests.sent_to_clients.conversation import Conversation, Json
from tests.sent_to_clients.every import ALL
from tests.sent_to_clients.player import play

ZED: Final[Json] = {"_meta": {"terminal_output": True}}

STORED: Final[list[Any]] = [pytest.param(each, id=each.name) for each in ALL if each.history]


@pytest.mark.parametrize("more", [{}, ZED], ids=["plain", "zed"])
@pytest.mark.parametrize("conversation", STORED)
async def test_a_load_shows_in_the_end_what_was_shown_live(
    conversation: Conversation, more: Json, tmp_path: Path
) -> None:
    client = {**conversation.capabilities, **more}
    played = await play(conversation, tmp_path, client, files=False)
    features = features_of(client)
    live, loaded = shown(played.updates(), features), shown(played.loaded, features)

    assert_same(live, loaded, {entry["item"]["id"] for entry in conversation.history})
    assert list(live.texts) == list(loaded.texts), "in the same order"


async def test_it_compares_tool_calls_texts_and_terminals(tmp_path: Path) -> None:
    (conversation,) = (each for each in ALL if each.name == "code-mode")
    played = await play(conversation, tmp_path, ZED)
    live = shown(played.updates(), features_of(ZED))

    assert len(live.calls) == len(live.terminals) == len(live.texts) == 1
    items = {entry["item"]["id"] for entry in conversation.history}
    for other in (live._replace(calls={}), live._replace(terminals={}), live._replace(texts={})):
        with pytest.raises(AssertionError):
            assert_same(live, other, items)
