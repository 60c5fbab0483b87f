"""Pieces of one text are taken as one notification, and nothing else changes its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.adapter.sessions.shown_thread import ShownThread
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.state import SessionState

DELTA = "item/agentMessage/delta"


def piece(text: JsonValue, *, item: str = "i", turn: str = "t", **more: JsonValue) -> JsonValue:
    return {"threadId": "s", "turnId": turn, "itemId": item, "delta": text, **more}


class Heard(ShownThread):
    """A thread that notes what it would show, in order."""

    def __init__(self) -> None:
        host = cast("Any", SimpleNamespace(on_arrival=lambda *_: None))
        super().__init__(cast("Any", None), "s", SessionState(ClientFeatures()), host)
        self.taken: list[tuple[str, JsonValue]] = []

    def _handle(self, method: str, params: JsonValue) -> None:
        self.taken.append((method, params))

    def _show_pieces(self, method: str, turn_id: str, item_id: str, text: str) -> None:
        self.taken.append((method, piece(text, turn=turn_id, item=item_id)))

    def hear(self, *all_params: JsonValue, method: str = DELTA) -> None:
        for params in all_params:
            self.on_notification(method, params)


def test_what_follows_each_other_is_one_when_it_is_flushed() -> None:
    heard = Heard()
    heard.hear(piece("one "), piece("two "), piece("three"))
    assert heard.taken == []
    heard._flush_pieces()
    heard._flush_pieces()
    assert heard.taken == [(DELTA, piece("one two three"))]


def test_anything_else_comes_behind_what_came_before_it() -> None:
    heard = Heard()
    heard.hear(piece("a"), piece("b"))
    heard.hear({"threadId": "s"}, method="item/completed")
    heard.hear(piece("c"))
    heard._flush_pieces()
    assert heard.taken == [
        (DELTA, piece("ab")),
        ("item/completed", {"threadId": "s"}),
        (DELTA, piece("c")),
    ]


@pytest.mark.parametrize(
    "other",
    [
        piece("b", item="j"),
        piece("b", turn="u"),
        piece("b", later=1),
        piece(1),
        piece("b", item=cast("str", 1)),
        piece("b", turn=cast("str", None)),
        {"threadId": "s", "delta": "b"},
        None,
    ],
)
def test_what_is_no_piece_of_the_same_text_stands_by_itself(other: JsonValue) -> None:
    heard = Heard()
    heard.hear(piece("a"), other, piece("c"))
    heard._flush_pieces()
    assert heard.taken == [(DELTA, piece("a")), (DELTA, other), (DELTA, piece("c"))]


def test_two_methods_are_two_texts() -> None:
    heard = Heard()
    heard.hear(piece("a"))
    heard.hear(piece("b"), method="item/commandExecution/outputDelta")
    heard.hear(piece("c"), method="item/plan/delta")
    assert [method.split("/")[1] for method, _ in heard.taken] == [
        "agentMessage", "commandExecution", "plan",
    ]  # fmt: skip
