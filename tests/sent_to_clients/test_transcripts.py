"""Golden transcripts: what Codex says, and what a client is sent for it, to be read in review.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/sent_to_clients`` rewrites the pages;
``python -m tests.sent_to_clients.record`` records anew what the real binary says.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.codex._generated.models import ThreadItem
from codex_acp.mapping.step import Ignored
from codex_acp.wire.model import UnknownVariant
from tests.codex.server_request_samples import assert_fits
from tests.sent_to_clients.every import ALL, RECORDED
from tests.sent_to_clients.made import MADE
from tests.sent_to_clients.player import play
from tests.sent_to_clients.record import SCENES
from tests.sent_to_clients.rendering import rendered
from tests.sent_to_clients.rules_v2 import problems
from tests.sent_to_clients.transcript import Transcript
from tests.support.updates import ROWS

PAGES: Final = Path(__file__).parents[1] / "golden" / "transcripts"

UPDATE: Final = "CODEX_ACP_UPDATE_GOLDEN"
"""Environment variable: rewrite the golden pages instead of comparing with them."""


def named(transcripts: tuple[Transcript, ...]) -> list[Any]:
    return [pytest.param(transcript, id=transcript.name) for transcript in transcripts]


@pytest.mark.parametrize("transcript", named(ALL))
async def test_what_a_client_is_sent_is_what_the_page_says(
    transcript: Transcript, tmp_path: Path
) -> None:
    page = PAGES / f"{transcript.name}.md"
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first = await play(transcript, tmp_path / "1")
    second = await play(transcript, tmp_path / "2", version=2)
    text = rendered(transcript, first, second)
    if os.environ.get(UPDATE) == "1":
        page.write_text(text, "utf-8")

    assert page.read_text("utf-8") == text
    assert problems(second.live) == []


def test_there_is_a_page_for_each_transcript_and_no_other() -> None:
    assert {page.stem for page in PAGES.iterdir()} == {each.name for each in ALL}


def test_what_was_recorded_is_what_there_are_scenes_for() -> None:
    assert [each.name for each in RECORDED] == sorted(scene.name for scene in SCENES)
    assert [each.about for each in RECORDED] == [
        scene.about for scene in sorted(SCENES, key=lambda scene: scene.name)
    ]


def test_every_type_of_item_is_in_a_transcript() -> None:
    shown = {type(MODELS.decode("ThreadItem", item, "an item")) for t in ALL for item in t.items()}

    assert shown == set(get_args(get_args(ThreadItem)[0]))
    assert UnknownVariant in shown


def test_every_notification_that_is_not_ignored_is_in_a_transcript() -> None:
    shown = {message["method"] for t in ALL for message in t.codex_messages()}

    assert {method for method, row in ROWS.items() if not isinstance(row, Ignored)} - shown == set()


@pytest.mark.parametrize("transcript", named(RECORDED))
def test_what_codex_really_says_can_all_be_read(transcript: Transcript) -> None:
    for message in transcript.codex_messages():
        if "id" not in message:
            name = SERVER_NOTIFICATIONS[message["method"]].params
            assert name is not None
            MODELS.decode(name, message["params"], message["method"])


@pytest.mark.parametrize("transcript", named(MADE))
def test_what_is_made_by_hand_is_what_codex_could_say(transcript: Transcript) -> None:
    for message in transcript.codex_messages():
        if message["params"].get("item", {}).get("type") != "telepathy":
            name = SERVER_NOTIFICATIONS[message["method"]].params
            assert name is not None
            assert_fits(name, message["params"])
