"""Read the history of a thread from Codex page by page, and show it.

Each page is sent to the client and dropped before the next page is read, so that a long history
costs no more memory than a short one. The mapping decides how an item looks. Source: schema
definitions ThreadItemsListParams, ThreadTurnsListParams, ThreadReadParams.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp._record import record
from codex_acp.codex._generated.methods import MODELS
from codex_acp.errors import ErrorReply, InvalidPayload, PeerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

    ReadPage: TypeAlias = "Callable[[AppServerConnection, str, str | None], Awaitable[_Page]]"

logger = logging.getLogger(__name__)

ITEMS_PER_PAGE: Final = 50
"""Items of one page: an item can have a megabyte of output, and a message has a size limit."""

TURNS_PER_PAGE: Final = 5
"""Turns of one page: a turn can have hundreds of items."""

MAX_REASON: Final = 500
"""Characters of Codex's error message that are shown."""


class _Entry(NamedTuple):
    """One item as raw JSON, with the id of its turn."""

    turn_id: str
    item: JsonValue


class _Page(NamedTuple):
    """Items in the order in which they happened, and the cursor of the next page."""

    entries: list[_Entry]
    cursor: str | None


@record
class HistoryReader:
    """Reads a thread's items; calls ``show`` with each item and the id of its turn.

    ``page_shown`` waits until the client has received a page's items. ``newest`` is
    ``itemsBackwardsCursor`` of the result of ``thread/resume``, the cursor of the last item of the
    history: Codex reports later items as notifications.
    """

    codex: AppServerConnection
    thread_id: str
    show: Callable[[ThreadItem, str], None]
    page_shown: Callable[[], Awaitable[None]]
    newest: str | None = None
    _unreadable: int = 0

    async def read(self) -> str | None:
        """Show the history; return a text for the person about missing parts, or None. Raises
        TransportError; an error reply of Codex becomes part of the text."""
        why = "Codex gave no reason"
        for read_page in (_items, _turns, _whole):
            try:
                first = await read_page(self.codex, self.thread_id, None)
            except PeerError as error:
                why = _reason(error)
                logger.info("%s of thread %s: %s", read_page.__name__, self.thread_id, why)
                continue
            return await self._read_pages(read_page, first)
        return f"The history of this session could not be read and is not shown: {why}"

    async def _read_pages(self, read_page: ReadPage, page: _Page) -> str | None:
        newest = await self._newest_item() if read_page is _items else None
        seen: set[str] = set()
        while True:
            is_last = self._show_page(page, newest)
            await self.page_shown()
            if is_last or page.cursor is None:
                break
            if page.cursor in seen:
                return "The rest of this session's history is not shown: Codex repeats a page"
            seen.add(page.cursor)
            try:
                page = await read_page(self.codex, self.thread_id, page.cursor)
            except PeerError as error:
                return f"The rest of this session's history is not shown: {_reason(error)}"
        if self._unreadable:
            return f"{self._unreadable} entries of this session's history could not be read"
        return None

    def _show_page(self, page: _Page, newest: tuple[str, str | None] | None) -> bool:
        """Show the items of a page up to ``newest``; return whether ``newest`` was among them."""
        for turn_id, raw in page.entries:
            try:
                item: ThreadItem = MODELS.decode("ThreadItem", raw, "an item of the history")
            except InvalidPayload as error:
                self._unreadable += 1
                logger.warning("thread %s: %s", self.thread_id, error)
            else:
                self.show(item, turn_id)
            if newest is not None and newest == (turn_id, text_at(raw, "id")):
                return True
        return False

    async def _newest_item(self) -> tuple[str, str | None] | None:
        """Return turn and id of the newest item when the thread was opened; None: unknown."""
        if self.newest is None:
            return None
        try:
            page = await _items(self.codex, self.thread_id, self.newest, "desc", 1)
        except PeerError as error:
            logger.warning("thread %s: its newest item: %s", self.thread_id, _reason(error))
            return None
        return next(((turn_id, text_at(raw, "id")) for turn_id, raw in page.entries), None)


async def running_turn(codex: AppServerConnection, thread_id: str) -> JsonValue:
    """Return a thread's running turn with its stored items. Raises ErrorReply, TransportError."""
    params: JsonValue = {
        "threadId": thread_id, "limit": 1, "sortDirection": "desc", "itemsView": "full",
    }  # fmt: skip
    for turn in _list(await codex.call_raw("thread/turns/list", params), "data"):
        if value_at(turn, "status") == "inProgress":
            return turn
    return None


# Calls that read a page.


async def _items(
    codex: AppServerConnection,
    thread_id: str,
    cursor: str | None,
    direction: str = "asc",
    limit: int = ITEMS_PER_PAGE,
) -> _Page:
    """Read a page with ``thread/items/list``."""
    params: dict[str, JsonValue] = {
        "threadId": thread_id, "limit": limit, "sortDirection": direction,
    }  # fmt: skip
    if cursor is not None:
        params["cursor"] = cursor
    result = await codex.call_raw("thread/items/list", params)
    entries = [
        _Entry(str(entry.get("turnId")), entry.get("item"))
        for entry in _list(result, "data")
        if isinstance(entry, dict)
    ]
    return _Page(entries, text_at(result, "nextCursor") or None)


async def _turns(codex: AppServerConnection, thread_id: str, cursor: str | None) -> _Page:
    """Read a page with ``thread/turns/list``, for a thread of an older Codex."""
    params: dict[str, JsonValue] = {
        "threadId": thread_id, "limit": TURNS_PER_PAGE, "sortDirection": "asc", "itemsView": "full",
    }  # fmt: skip
    if cursor is not None:
        params["cursor"] = cursor
    result = await codex.call_raw("thread/turns/list", params)
    return _Page(_entries_of(_list(result, "data")), text_at(result, "nextCursor") or None)


async def _whole(codex: AppServerConnection, thread_id: str, cursor: str | None) -> _Page:
    """Read the whole history with ``thread/read``, from a Codex without pages."""
    del cursor
    result = await codex.call_raw("thread/read", {"threadId": thread_id, "includeTurns": True})
    return _Page(_entries_of(_list(value_at(result, "thread"), "turns")), None)


def _entries_of(turns: list[JsonValue]) -> list[_Entry]:
    return [
        _Entry(str(turn.get("id")), item)
        for turn in turns
        if isinstance(turn, dict)
        for item in _list(turn, "items")
    ]


def _list(result: JsonValue, key: str) -> list[JsonValue]:
    """Return the list at ``key`` of a result. Raises InvalidPayload if there is none."""
    found = value_at(result, key)
    if not isinstance(found, list):
        raise InvalidPayload("a page of the history", (f"{key}: is not a list",))
    return found


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, ErrorReply) else str(error)
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"
