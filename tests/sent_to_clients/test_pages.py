"""Golden conversations: what Codex says, and what a client is sent for it, to be read in review.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/sent_to_clients`` rewrites the pages;
``python -m tests.sent_to_clients.record`` records anew what the real binary says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args

import pytest

from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.codex._generated.models import ThreadItem
from codex_acp.mapping.notifications import Ignored
from codex_acp.wire.model import UnknownVariant
from tests.codex.server_request_samples import assert_fits
from tests.sent_to_clients.conversation import Conversation
from tests.sent_to_clients.every import ALL, RECORDED
from tests.sent_to_clients.made import MADE
from tests.sent_to_clients.player import play
from tests.sent_to_clients.record import SCENES
from tests.sent_to_clients.rendering import rendered
from tests.sent_to_clients.rules_v2 import problems
from tests.support.golden import GOLDEN, assert_golden
from tests.support.updates import ROWS

PAGES: Final = GOLDEN / "sent_to_clients"


def named(conversations: tuple[Conversation, ...]) -> list[Any]:
    return [pytest.param(conversation, id=conversation.name) for conversation in conversations]


@pytest.mark.parametrize("conversation", named(ALL))
async def test_what_a_client_is_sent_is_what_the_golden_page_says(
    conversation: Conversation, tmp_path: Path
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first = await play(conversation, tmp_path / "1")
    second = await play(conversation, tmp_path / "2", version=2)
    text = rendered(conversation, first, second)
    assert_golden(f"sent_to_clients/{conversation.name}.md", text)
    assert problems(second.live) == []


def test_there_is_a_page_for_each_conversation_and_no_other() -> None:
    assert {page.stem for page in (GOLDEN / "sent_to_clients").iterdir()} == {
        each.name for each in ALL
    }


def test_what_was_recorded_is_what_there_are_scenes_for() -> None:
    assert [each.name for each in RECORDED] == sorted(scene.name for scene in SCENES)
    assert [each.about for each in RECORDED] == [
        scene.about for scene in sorted(SCENES, key=lambda scene: scene.name)
    ]


def test_every_type_of_item_is_in_a_conversation() -> None:
    shown = {type(MODELS.decode("ThreadItem", item, "an item")) for t in ALL for item in t.items()}

    assert shown == set(get_args(get_args(ThreadItem)[0]))
    assert UnknownVariant in shown


def test_every_notification_that_is_not_ignored_is_in_a_conversation() -> None:
    shown = {message["method"] for t in ALL for message in t.codex_messages()}

    assert {method for method, row in ROWS.items() if not isinstance(row, Ignored)} - shown == set()


@pytest.mark.parametrize("conversation", named(RECORDED))
def test_what_codex_really_says_can_all_be_read(conversation: Conversation) -> None:
    for message in conversation.codex_messages():
        if "id" not in message:
            name = SERVER_NOTIFICATIONS[message["method"]].params
            assert name is not None
            MODELS.decode(name, message["params"], message["method"])


@pytest.mark.parametrize("conversation", named(MADE))
def test_what_is_made_by_hand_is_what_codex_could_say(conversation: Conversation) -> None:
    for message in conversation.codex_messages():
        if message["params"].get("item", {}).get("type") != "telepathy":
            name = SERVER_NOTIFICATIONS[message["method"]].params
            assert name is not None
            assert_fits(name, message["params"])
