"""What an agent of version 2 says, as version 1: messages as a whole, and what has no place."""

from __future__ import annotations

import base64
import hashlib
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import STABLE_MODELS
from codex_acp.acp.call_v2_agent import MAX_USER_MESSAGES, _PromptTurn
from codex_acp.acp.types import UnknownVariant
from codex_acp.acp.v2_to_v1 import UpdatesToV1, diffs
from codex_acp.jsonrpc import encode_json
from codex_acp.wire.codec import plain

Json = dict[str, Any]


def said(updates: UpdatesToV1, *wires: Json) -> list[Json]:
    found: list[Json] = []
    for wire in wires:
        params = {"sessionId": "s", "update": wire}
        update = STABLE_MODELS.decode("UpdateSessionNotification", params, "session/update").update
        for made in updates.convert(update):
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
    updates = UpdatesToV1()
    found = said(updates, chunk("One"), message("One, two"), message("One, two"), message(None))
    assert texts(found) == [("m", "One"), ("m", ", two")]


def test_a_message_that_was_replaced_is_another_one() -> None:
    found = said(UpdatesToV1(), chunk("One"), message("Zwei"), message("Zwei, drei"), chunk("!"))
    assert texts(found) == [("m", "One"), ("m#1", "Zwei"), ("m#1", ", drei"), ("m#1", "!")]


def test_a_chunk_keeps_its_meta() -> None:
    (found,) = said(UpdatesToV1(), {**chunk("One"), "_meta": {"of": "them"}})
    assert found == {**chunk("One"), "_meta": {"of": "them"}}


def image(data: str) -> Json:
    return {"type": "image", "mimeType": "image/png", "data": data}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


WHOLE = {"sessionUpdate": "agent_message", "messageId": "m"}


def test_each_image_of_a_message_that_is_sent_whole_again_is_told_once_and_in_order() -> None:
    updates, see = UpdatesToV1(), chunk("See: ")
    first = [text_block("See: "), image("YQ==")]
    then = [*first, text_block("and "), image("Yg=="), text_block("end")]
    wholes = ({**WHOLE, "content": content} for content in (first, first, then, then))
    found = said(updates, see, *wholes)
    assert [each["content"] for each in found] == then

    alone = {**chunk(""), "content": image("YQ==")}
    found = said(UpdatesToV1(), alone, {**WHOLE, "content": [image("YQ=="), text_block("!")]})
    assert [each["content"] for each in found] == [image("YQ=="), text_block("!")]


def test_behind_content_that_was_cleared_another_message_begins() -> None:
    found = said(UpdatesToV1(), chunk("One"), message(None), message(None), chunk("Two"))
    assert texts(found) == [("m", "One"), ("m#1", "Two")]


@pytest.mark.attack("agent")
def test_a_text_that_imitates_the_note_of_an_image_breaks_nothing() -> None:
    forged = "\0" + hashlib.sha256(encode_json(image("YQ=="))).hexdigest()
    found = said(UpdatesToV1(), chunk(forged[:9]), {**WHOLE, "content": [image("YQ==")]})
    assert found[-1]["content"] == image("YQ==")


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
    (made,) = UpdatesToV1().convert(update)
    assert isinstance(made, UnknownVariant)
    assert made.wire() == wire


@pytest.mark.parametrize("text", ["", "diff --git", "@@\n+x", "diff --git a/x b/x\n@@ -1 +1 @@"])
def test_a_patch_that_is_none_is_told_in_words(text: str) -> None:
    patch = {"format": "git_patch", "text": text}
    change = {"operation": "modify", "path": "/w/y"}
    assert diffs({"changes": [change], "patch": patch}) == [
        {"type": "content", "content": {"type": "text", "text": "modify: /w/y"}}
    ]


def call(call_id: str = "c", **fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}


def text_piece(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def size_of(updates: UpdatesToV1, wires: Iterable[Json]) -> int:
    return sum(len(str(made)) for wire in wires for made in said(updates, wire))


@pytest.mark.attack("agent")
def test_many_small_pieces_of_a_tool_call_do_not_have_all_told_again_each_time() -> None:
    updates = UpdatesToV1()
    piece = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}
    said(updates, call(title="t", status="in_progress"))
    told = size_of(updates, ({**piece, "content": text_piece(str(n))} for n in range(1_500)))
    assert told < 6_000_000
    (ended,) = said(updates, call(status="completed"))
    assert ended["content"][-1] == text_piece("1499")

    said(updates, call("d", title="t"))
    pieces = [{**piece, "toolCallId": "d", "content": text_piece(str(n))} for n in range(1_003)]
    said(updates, *pieces)
    *_, rest, _ = said(updates, {"sessionUpdate": "state_update", "state": "idle"})
    assert rest["content"][-1] == text_piece("1002")


def test_a_piece_that_is_too_large_to_be_kept_is_told_once() -> None:
    updates, large = UpdatesToV1(), text_piece("x" * 1_100_000)
    piece = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}
    said(updates, call(title="t", status="in_progress"))
    pieces = (text_piece("small"), large, text_piece("more"))
    _, told, after = said(updates, *({**piece, "content": content} for content in pieces))
    assert told["content"] == [text_piece("small"), large]
    assert after["content"][1:] == [text_piece("more")]


def test_the_last_pieces_of_a_tool_call_are_told_however_many_others_follow() -> None:
    updates = UpdatesToV1()
    piece = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}
    said(updates, call(title="t", status="in_progress"))
    pieces = (text_piece("x" * 20_000), text_piece("last"))
    assert len(said(updates, *({**piece, "content": content} for content in pieces))) == 1
    others = said(updates, *(call(f"d{n}", title="t") for n in range(64)))
    (late,) = (each for each in others if each["toolCallId"] == "c")
    assert late["content"] == list(pieces)


@pytest.mark.attack("agent")
def test_the_output_of_a_command_is_told_in_few_calls_and_once_in_each() -> None:
    updates = UpdatesToV1()
    shows = [{"type": "terminal", "terminalId": "t"}] * 40
    said(updates, *(call(f"c{n}", title="x", content=shows) for n in range(40)))
    data = base64.b64encode(b"x" * 20_000).decode()
    out = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data}
    end = {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}}
    assert size_of(updates, [out, *[end] * 20]) < 200_000


@pytest.mark.attack("agent")
def test_output_that_is_replaced_again_and_again_repeats_no_content() -> None:
    updates = UpdatesToV1()
    shown = [text_piece("x" * 100_000), {"type": "terminal", "terminalId": "t"}]
    said(updates, call(title="t", content=shown))
    output = {"data": base64.b64encode(b"so far").decode()}
    replaced = {"sessionUpdate": "terminal_update", "terminalId": "t", "output": output}
    assert size_of(updates, [replaced] * 100) < 100_000
    *_, ended = said(updates, {**replaced, "exitStatus": {"exitCode": 0}})
    assert ended["content"] == [*shown, text_piece("so far")]


def test_the_end_of_a_command_takes_nothing_from_a_call_whose_content_is_no_longer_kept() -> None:
    updates = UpdatesToV1()
    end = {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}}
    shown = [text_piece("important"), {"type": "terminal", "terminalId": "t"}]
    said(updates, call(title="t", content=shown), *(call(f"d{n}", title="t") for n in range(70)))
    assert [each["sessionUpdate"] for each in said(updates, end)] == ["terminal_update"]


@pytest.mark.attack("agent")
def test_what_is_kept_of_an_agent_that_never_ends_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codex_acp.acp.v2_to_v1.MAX_CONTENT_CHARACTERS", 20_000)
    updates = UpdatesToV1()
    for n in range(100):
        content = [text_piece("x" * 2_000)] * 20
        assert len(said(updates, call(f"c{n}", title="x", content=content))[0]["content"]) == 20
        said(updates, {**chunk("y" * 20_000), "messageId": f"m{n}"})
    assert len(pickle.dumps(updates.calls)) < 64 * 40_000
    (again,) = said(updates, call("c0", content=None, status="completed"))
    assert again.get("content", []) == []
    piece = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c99"}
    told = said(updates, *[{**piece, "content": text_piece("z" * 6_000)}] * 5)
    assert "before is not repeated" in str(told[-1]["content"][0])


@pytest.mark.attack("agent")
async def test_ids_of_user_messages_without_end_are_not_kept() -> None:
    turn = _PromptTurn([])
    for n in range(1_000):
        turn.note(v2.UserMessageSessionUpdate(message_id=f"{n}"))
    assert len(turn._user_messages) == MAX_USER_MESSAGES
    turn.set_message_id("999")
    for n in range(1_000, 2_000):
        turn.note(v2.UserMessageSessionUpdate(message_id=f"{n}"))
    assert not turn._user_messages
    turn.note(v2.IdleStateUpdateSessionUpdate(stop_reason="end_turn"))
    assert (await turn.end()).stop_reason == "end_turn"


@pytest.mark.attack("agent")
def test_a_hunk_is_told_once_however_many_changes_name_its_file() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n" + "@@ -1 +1 @@\n-a\n+b\n" * 1_000
    changes = [{"operation": "modify", "path": "/w/x"}] * 1_000
    found = diffs({"changes": changes, "patch": {"format": "git_patch", "text": text}})
    assert len([each for each in found if each["type"] == "diff"]) == 1_000
