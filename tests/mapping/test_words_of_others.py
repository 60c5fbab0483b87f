"""3.8: nothing that others wrote is shown as live Markdown or unseen, in any update or question.

One hostile text goes through every string of every sample of items and notifications, of every
server request, and of the reports. What the agent says itself (its messages, thoughts and plans) is
the agent speaking, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.mapping.commands import (
    Fact,
    available_commands,
    diff_report,
    status_report,
    user_prompt,
)
from codex_acp.mapping.session import title_of
from codex_acp.mapping.state import SessionState
from codex_acp.routing.display import (
    block,
    code_span,
    inline,
    is_plain,
    quotation,
    server_name,
    visible,
)
from tests.support.notification_samples import SAMPLES as NOTIFICATIONS
from tests.support.tool_call_samples import SAMPLES as ITEMS
from tests.support.tool_calls import ZED, complete, replayed, start
from tests.support.updates import ALL, NONE, step, wire

Json = dict[str, Any]

HOSTILE: Final = (
    "ls <!-- ; touch PWN; --> ![x](http://e.v/i) [ok](http://e.v) <b>\u202e\u200b\u3164\U000e0041"
    "\n# forged\n```\n~~~\n| a |\n**bold** `tick` \x1b[2J"
)
LIVE: Final = ("<!--", "![x]", "](http", "<b>", "\n# forged", "\n~~~", "| a |", "**bold**", "\x1b")
UNSEEN: Final = ("\u202e", "\x1b", "\U000e0041", "\u2028")

FENCED: Final = re.compile(r"^(`{3,})\w*\n.*?\n\1$", re.MULTILINE | re.DOTALL)
SPAN: Final = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")

OWN_VOICE: Final = {"agent_message_chunk", "user_message_chunk", "plan"}
"""Kinds of updates in which the agent, or the person, speaks."""

DATA: Final = {
    "rawInput", "rawOutput", "_meta", "locations", "path", "oldText", "newText", "data", "blob",
    "uri", "mimeType", "toolCallId", "terminalId", "name", "messageId", "type", "sessionUpdate",
    "kind", "status", "severity", "description",
}  # fmt: skip
"""Fields that no client shows as Markdown. A link's name and description are looked at apart."""

IDENTIFIERS: Final = {"type", "id", "kind", "status", "threadId", "turnId", "itemId", "method"}


def outside_code(text: str) -> str:
    """What Markdown would still read in ``text``."""
    return SPAN.sub("", FENCED.sub("", text))


def assert_dead(text: str) -> None:
    left = outside_code(text)
    for sign in LIVE:
        assert sign not in left, text
    for char in UNSEEN:
        assert char not in text, text


def poisoned(value: Any, key: str = "") -> Any:
    """``value`` with the hostile text in place of every string that is not an identifier."""
    if isinstance(value, dict):
        return {name: poisoned(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part, key) for part in value]
    return HOSTILE if isinstance(value, str) and key not in IDENTIFIERS else value


def each_string(value: Any) -> Iterator[str]:
    """Each string, but those of fields that are data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in DATA:
                yield from each_string(part)
    elif isinstance(value, list):
        for part in value:
            yield from each_string(part)


def shown(update: Json) -> Iterator[str]:
    """What of an update a client may show as Markdown."""
    if update["sessionUpdate"] in OWN_VOICE:
        return
    for part in update.get("content", ()) if isinstance(update.get("content"), list) else ():
        link = part.get("content", {})
        if link.get("type") == "resource_link":
            yield link["name"]
            yield link.get("description", "")
            assert re.fullmatch(r"[\w:/?#@!$&'*+,;=.~%-]*", link["uri"], re.ASCII)
    if update["sessionUpdate"] in ("notice", "session_info_update"):  # plain text, by the schema
        for name in ("title", "description"):
            assert is_plain(update.get(name) or "", multiline=True)
        return
    yield from each_string(update)


def variants(wire: Json) -> Iterator[Json]:
    """``wire`` with all of it hostile where that still fits the schema, else field by field."""
    yield poisoned(wire)
    for name, value in wire.items():
        if name not in IDENTIFIERS:
            yield wire | {name: poisoned(value, name)}


@pytest.mark.parametrize("client", [NONE, ALL, ZED], ids=["none", "all", "zed"])
def test_3_8_no_item_shows_the_words_of_others_as_markdown(client: ClientFeatures) -> None:
    looked = 0
    for sample in ITEMS:
        for item in variants(sample.completed):
            for updates in _of_item(item, client):
                for update in updates:
                    for text in shown(update):
                        looked += 1
                        assert_dead(text)
    assert looked > 500


def _of_item(item: Json, client: ClientFeatures) -> Iterator[list[Json]]:
    state = SessionState(client)
    yield start(state, item)
    yield complete(state, item)
    yield replayed(SessionState(client), item)


@pytest.mark.parametrize("client", [NONE, ALL], ids=["none", "all"])
def test_3_8_no_notification_shows_the_words_of_others_as_markdown(client: ClientFeatures) -> None:
    for sample in NOTIFICATIONS:
        item = sample.params.get("item", {}).get("type")
        if "reasoning" in (item or sample.method) or "plan" in sample.method:
            continue  # the agent thinks and plans aloud
        for params in variants(sample.params):
            state = SessionState(client)
            for method, before in sample.before:
                step(state, method, before)
            for update in step(state, sample.method, params):
                for text in shown(update):
                    assert_dead(text)


def test_3_8_reports_and_lists_show_the_words_of_others_as_code() -> None:
    assert_dead(status_report([Fact(HOSTILE, HOSTILE)]))
    assert_dead(diff_report(HOSTILE, [HOSTILE]))
    prompts = [
        user_prompt("a", f"---\ndescription: {visible(HOSTILE)}\n---\n"),
        user_prompt("b\u202e", ""),
    ]
    listed = wire(available_commands(prompts, ()))[0]
    names = [command["name"] for command in listed["availableCommands"]]
    assert "prompts:a" in names
    assert all(map(is_plain, names)), "nobody could type what cannot be seen"
    for command in listed["availableCommands"]:
        assert_dead(command["description"])
    assert is_plain(title_of({"name": HOSTILE}) or "")


TEXT = st.text(st.sampled_from("ab1 .-_*`~<>[]()!#&\\|\n\t\r\u202e\u200b⟦") | st.characters())


@given(TEXT)
def test_3_8_a_code_span_cannot_be_ended_by_its_text(text: str) -> None:
    shown = visible(text)
    if not shown:
        return
    span = code_span(shown)
    mark = re.match("`+", span)
    assert mark is not None
    inside = span[len(mark[0]) : -len(mark[0])]
    assert span.endswith(mark[0])
    assert mark[0] not in re.findall("`+", inside)
    assert inside in (shown, f" {shown} ")
    assert "\n" not in span


@given(TEXT)
def test_3_8_a_block_cannot_be_ended_by_its_text(text: str) -> None:
    for made in (block(text), quotation(text)):
        first, *lines, last = made.split("\n")
        assert first == last
        assert set(first) == {"`"}
        assert not [line for line in lines if first in line]


@given(TEXT)
def test_3_8_words_stay_words_only_where_markdown_has_no_sign_of_them(text: str) -> None:
    shown = inline(text, None)
    if "`" not in shown:
        assert shown == text
        assert not set(shown) & set("`*_~<>[]#&\\|$^={}@\n\t")
        assert not re.match(r"\s|[-+>]|\d+[.)] ", shown)
    assert_dead(server_name(text))
