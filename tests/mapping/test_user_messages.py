"""A person's messages: nothing of what the client sent itself, all of it when it is replayed."""

from __future__ import annotations

import pytest

from codex_acp.codex.types import UserMessageThreadItem
from codex_acp.mapping.messages import user_message
from codex_acp.mapping.prompt import file_uri
from codex_acp.mapping.state import SessionState
from codex_acp.wire.codec import decode
from tests.support.updates import Json, wired


def item(*content: Json, client_id: str | None = None) -> UserMessageThreadItem:
    value = {"type": "userMessage", "id": "m1", "content": list(content), "clientId": client_id}
    return decode(UserMessageThreadItem, value)


def replayed(*content: Json) -> list[Json]:
    state = SessionState()
    updates = wired(state, user_message(state, item(*content), live=False))
    assert all(update["sessionUpdate"] == "user_message_chunk" for update in updates)
    assert all(update["messageId"] == "m1" for update in updates)
    return [update["content"] for update in updates]


TEXT = {"type": "text", "text": "Go."}


def test_a_prompt_of_the_client_is_not_sent_back_to_it() -> None:
    state = SessionState()
    state.own_messages["mine"] = None

    assert user_message(state, item(TEXT), live=True) == ()
    assert user_message(state, item(TEXT, client_id="mine"), live=True) == ()


def test_a_message_of_another_client_is_shown_once_although_it_starts_and_completes() -> None:
    state = SessionState()
    state.own_messages["mine"] = None
    message = item(TEXT, client_id="elsewhere")

    assert len(user_message(state, message, live=True)) == 1
    assert user_message(state, message, live=True) == ()


def test_a_replayed_message_is_shown_whoever_wrote_it() -> None:
    assert replayed(TEXT, {"type": "text", "text": "Now."}) == [
        {"type": "text", "text": "Go."},
        {"type": "text", "text": "Now."},
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image", "url": "data:image/png;base64,iVBORw0="},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0="},
        ),
        (
            {"type": "image", "url": "data:image/png;charset=utf-8;base64,iVBORw0="},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0="},
        ),
        (
            {"type": "image", "url": "https://example.com/a.png"},
            {"type": "resource_link", "name": "image", "uri": "https://example.com/a.png"},
        ),
        ({"type": "image", "fileId": "file-1"}, {"type": "text", "text": "[image file-1]"}),
        (
            {"type": "localImage", "path": "/project/a b#1.png"},
            {"type": "resource_link", "name": "a b#1.png", "uri": "file:///project/a%20b%231.png"},
        ),
        (
            {"type": "audio", "url": "data:audio/wav;base64,UklGRg=="},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
        ),
        (
            {"type": "localAudio", "path": "/project/a.wav"},
            {"type": "resource_link", "name": "a.wav", "uri": "file:///project/a.wav"},
        ),
        (
            {"type": "skill", "name": "mend", "path": "/skills/mend/SKILL.md"},
            {"type": "resource_link", "name": "$mend", "uri": "file:///skills/mend/SKILL.md"},
        ),
        (
            {"type": "mention", "name": "notes", "path": "app://notes"},
            {"type": "resource_link", "name": "notes", "uri": "app://notes"},
        ),
        ({"type": "hologram", "depth": 3}, {"type": "text", "text": "[hologram]"}),
    ],
)
def test_every_part_of_a_message_becomes_a_block_that_a_client_knows(
    part: Json, block: Json
) -> None:
    assert replayed(part) == [block]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/ü%", "file:///a/%C3%BC%25"),
        ("C:\\a\\b", "file:///C:/a/b"),
        ("https://example.com/a b", "https://example.com/a b"),
    ],
)
def test_a_path_becomes_a_uri_and_a_uri_stays_one(path: str, uri: str) -> None:
    assert file_uri(path) == uri
