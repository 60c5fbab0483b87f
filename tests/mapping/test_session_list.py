"""Stored threads → sessions that can be listed."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.mapping.session.list import MAX_TITLE, list_params, session_info, updated_at
from codex_acp.wire.codec import plain

THREAD = {"id": "t1", "cwd": "/w", "name": None, "preview": "", "updatedAt": 5}


def test_a_thread_is_a_session_with_its_directory_and_time() -> None:
    info = session_info({**THREAD, "name": "Work"}, "2026-01-01T00:00:00Z")
    assert plain(info) == {
        "sessionId": "t1", "cwd": "/w", "title": "Work", "updatedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"name": "Named", "preview": "First words"}, "Named"),
        ({"name": " ", "preview": "First words"}, "First words"),
        ({"preview": "\n  First line \nsecond"}, "First line"),
        ({"preview": "x" * (MAX_TITLE + 1)}, "x" * (MAX_TITLE - 1) + "…"),
        ({}, None),
        ({"name": 7, "preview": []}, None),
    ],
)
def test_the_title_is_the_name_else_the_first_line_that_was_said(
    fields: dict[str, Any], title: str | None
) -> None:
    info = session_info({**THREAD, **fields}, None)
    assert info is not None
    assert info.title == title


@pytest.mark.parametrize("thread", [None, [], {}, {"id": "t"}, {"id": 5, "cwd": "/w"}])
def test_what_is_no_thread_is_left_out(thread: Any) -> None:
    assert session_info(thread, None) is None


@pytest.mark.parametrize("seconds", [None, "5", True, [5]])
def test_a_time_that_is_none_is_none(seconds: Any) -> None:
    assert updated_at({**THREAD, "updatedAt": seconds}) is None


def test_all_providers_are_listed_and_filter_and_cursor_are_codex_own() -> None:
    assert {"cwd", "cursor"}.isdisjoint(list_params(None, None))
    params = list_params("/w", "c")
    assert (params["cwd"], params["cursor"]) == ("/w", "c")
    assert params["modelProviders"] == []
    assert params["archived"] is False
