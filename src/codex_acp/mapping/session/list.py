"""Threads that Codex has stored → the sessions that a client can list.

Read from plain JSON, field by field: one odd thread must not hide all others.
Source: schema definitions ThreadListParams, Thread; ACP page "Session List".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.acp._generated.v1.models import SessionInfo
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["list_params", "session_info", "title_of", "updated_at"]

PAGE: Final = 50
"""Sessions a page: what a person looks through at once, and read within milliseconds."""

MAX_TITLE: Final = 120
"""Characters of a title that is made from the first prompt, which may be a whole file."""

SOURCES: Final[tuple[JsonValue, ...]] = ("cli", "vscode", "exec", "appServer")
"""Threads that a person began, in whichever program. Sub-agents' belong to the one above them."""


def list_params(cwd: str | None, cursor: str | None) -> dict[str, JsonValue]:
    """``thread/list``: the newest first, of every model provider, and none from the archive."""
    params: dict[str, JsonValue] = {
        "limit": PAGE,
        "sortKey": "updated_at",
        "sourceKinds": [*SOURCES],
        "modelProviders": [],
        "archived": False,
    }
    if cwd is not None:
        params["cwd"] = cwd
    if cursor is not None:
        params["cursor"] = cursor
    return params


def session_info(thread: JsonValue, updated: str | None) -> SessionInfo | None:
    """A thread as a session, ``updated`` in ISO 8601; None for one that has no id or no cwd."""
    if not isinstance(thread, dict):
        return None
    thread_id, cwd = thread.get("id"), thread.get("cwd")
    if not isinstance(thread_id, str) or not isinstance(cwd, str):
        return None
    info = SessionInfo(session_id=thread_id, cwd=cwd)
    title = title_of(thread)
    if title is not None:
        info.title = title
    if updated is not None:
        info.updated_at = updated
    return info


def updated_at(thread: JsonValue) -> float | None:
    """When something last happened in a thread, in seconds since 1970."""
    seconds = thread.get("updatedAt") if isinstance(thread, dict) else None
    return seconds if type(seconds) in (int, float) else None  # type: ignore[return-value]


def title_of(thread: JsonValue) -> str | None:
    """The name that a person gave, else the first line of the first prompt."""
    if not isinstance(thread, dict):
        return None
    for key in ("name", "preview"):
        text = thread.get(key)
        if isinstance(text, str) and text.strip():
            line = visible(text.strip().splitlines()[0].rstrip())
            return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
    return None
