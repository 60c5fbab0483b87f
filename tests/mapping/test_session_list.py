"""Stored threads → sessions that can be listed."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.mapping.session import (
    MAX_TITLE,
    ListPage,
    is_archived,
    list_page,
    list_params,
    session_info,
    updated_at,
)
from codex_acp.wire.codec import plain

PAGE = ListPage(archived=False, cursor=None, then_archive=False)
THREAD = {"id": "t1", "cwd": "/w", "name": None, "preview": "", "updatedAt": 5}


def test_a_thread_is_a_session_with_its_directory_and_time() -> None:
    info = session_info({**THREAD, "name": "Work"}, "2026-01-01T00:00:00Z")
    assert plain(info) == {
        "sessionId": "t1", "cwd": "/w", "title": "Work", "updatedAt": "2026-01-01T00:00:00Z",
        "archived": False,
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
    assert info.get("title") == title


@pytest.mark.parametrize("thread", [None, [], {}, {"id": "t"}, {"id": 5, "cwd": "/w"}])
def test_what_is_no_thread_is_left_out(thread: Any) -> None:
    assert session_info(thread, None) is None


@pytest.mark.parametrize("seconds", [None, "5", True, [5]])
def test_a_time_that_is_none_is_none(seconds: Any) -> None:
    assert updated_at({**THREAD, "updatedAt": seconds}) is None


def test_all_providers_are_listed_and_filter_and_cursor_are_codex_own() -> None:
    assert {"cwd", "cursor"}.isdisjoint(list_params(None, PAGE))
    params = list_params("/w", PAGE._replace(cursor="c"))
    assert (params["cwd"], params["cursor"]) == ("/w", "c")
    assert params["modelProviders"] == []
    assert params["archived"] is False


def test_the_archive_follows_behind_all_other_sessions_where_both_are_wanted() -> None:
    seen = []
    cursor: str | None = None
    codex = iter(["c1", None, "a1", None])
    while True:
        page = list_page("include", cursor)
        assert page is not None
        seen.append((page.archived, page.cursor))
        cursor = page.next(next(codex))
        if cursor is None:
            break
    assert seen == [(False, None), (False, "c1"), (True, None), (True, "a1")]


@pytest.mark.parametrize("wanted", [None, "exclude", "only"])
def test_one_of_them_has_codex_own_cursors(wanted: str | None) -> None:
    page = list_page(wanted, "archived:c")
    assert page == ListPage(archived=wanted == "only", cursor="archived:c", then_archive=False)
    assert (page.next("d"), page.next(None)) == ("d", None)


@pytest.mark.parametrize("wanted", ["", "all", "_mine", "Exclude"])
def test_a_filter_that_is_not_known_is_none(wanted: str) -> None:
    assert list_page(wanted, None) is None


@pytest.mark.parametrize(
    ("path", "archived"),
    [
        ("/codex-home/archived_sessions/rollout-1.jsonl", True),
        ("/codex-home/sessions/2026/11/22/rollout-1.jsonl", False),
        ("/archived_sessions/.codex/sessions/2026/11/22/rollout-1.jsonl", False),
        (None, False),
        (7, False),
    ],
)
def test_the_folder_tells_whether_a_thread_is_archived(path: Any, archived: bool) -> None:
    assert is_archived({"id": "t", "path": path}) is archived
