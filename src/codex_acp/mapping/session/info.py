"""Map changes of a thread as a whole: its title, its goal, and actions of other clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import text_at, value_at
from codex_acp.mapping.events.content import TextBlock
from codex_acp.mapping.events.session_events import SessionEvents, Severity, TitleChanged
from codex_acp.mapping.messages import say
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex._generated import models
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.state import SessionState

_GOAL: Final[dict[str, tuple[str, Severity]]] = {
    "active": ("Goal", "info"),
    "paused": ("Goal paused", "info"),
    "blocked": ("Goal blocked", "warning"),
    "usageLimited": ("Goal stopped by the usage limit", "warning"),
    "budgetLimited": ("Goal stopped: its token budget is used up", "warning"),
    "complete": ("Goal reached", "info"),
}
"""Status of a goal → how it is said."""


def thread_name_updated(
    state: SessionState, params: models.ThreadNameUpdatedNotification
) -> SessionEvents:
    """``thread/name/updated`` → the session's title; no name clears it."""
    name = params.thread_name
    state.titled = True
    return (TitleChanged(None if name is None else visible(name)),)


def goal_updated(
    state: SessionState, params: models.ThreadGoalUpdatedNotification
) -> SessionEvents:
    """``thread/goal/updated`` → a line if the goal or its status is another one.

    Codex also sends it each time it has counted the tokens.
    """
    goal = params.goal
    news = (goal.objective, str(goal.status))
    if news == state.goal:
        return ()
    state.goal = news
    words, severity = _GOAL.get(goal.status, (f"Goal {goal.status}", "info"))
    return say(state, f"{words}: {goal.objective}", severity)


def goal_cleared(
    state: SessionState, params: models.ThreadGoalClearedNotification
) -> SessionEvents:
    """``thread/goal/cleared`` → a line if there was a goal: Codex says it without one, too."""
    del params
    if state.goal is None:
        return ()
    state.goal = None
    return say(state, "The goal was cleared", "info")


def thread_archived(
    state: SessionState, params: models.ThreadArchivedNotification
) -> SessionEvents:
    """``thread/archived``: by another client, or the session would be gone."""
    del params
    return say(state, "This session was archived", "warning")


def thread_unarchived(
    state: SessionState, params: models.ThreadUnarchivedNotification
) -> SessionEvents:
    """``thread/unarchived``."""
    del params
    return say(state, "This session was taken out of the archive", "info")


def thread_deleted(state: SessionState, params: models.ThreadDeletedNotification) -> SessionEvents:
    """``thread/deleted``: by another client, or the session would be gone."""
    del params
    return say(state, "This session was deleted; what is said now is not kept", "warning")


def thread_reverted(
    state: SessionState, params: models.ThreadRevertedNotification
) -> SessionEvents:
    """``thread/reverted``: what the person sees is more than what the model knows."""
    del params
    text = "This session was taken back to an earlier point; the model forgets what came after"
    return say(state, text, "warning")


# Threads that Codex has stored → the sessions that a client can list.

PAGE: Final = 50
"""Sessions a page: what a person looks through at once, and read within milliseconds."""
MAX_TITLE: Final = 120
"""Characters of a title that is made from the first prompt, which may be a whole file."""
SOURCES: Final[tuple[JsonValue, ...]] = ("cli", "vscode", "exec", "appServer")
"""Threads that a person began, in whichever program. Sub-agents' belong to the one above them."""


ARCHIVE: Final = "archived:"
"""Before Codex's cursor, where the archive is listed behind all other sessions."""
ARCHIVE_FOLDER: Final = "archived_sessions"
"""The folder of Codex's home that holds the archived threads: nothing else tells them."""


class ListPage(NamedTuple):
    """Codex lists its archive, or everything else, and never both: which page is asked for."""

    archived: bool
    cursor: str | None
    """Codex's own."""
    both: bool
    """Whether the archive follows behind the last page of all others."""

    def next(self, cursor: str | None) -> str | None:
        """The cursor of the page that follows, ``cursor`` being Codex's own; None: this is all."""
        if self.both and self.archived:
            return None if cursor is None else ARCHIVE + cursor
        return ARCHIVE if self.both and cursor is None else cursor


def list_page(wanted: str | None, cursor: str | None) -> ListPage | None:
    """Return the page that ``archived`` and ``cursor`` ask for; None: there is no such filter."""
    if wanted is None or wanted == "exclude":
        return ListPage(archived=False, cursor=cursor, both=False)
    if wanted == "only":
        return ListPage(archived=True, cursor=cursor, both=False)
    if wanted != "include":
        return None
    if cursor is None or not cursor.startswith(ARCHIVE):
        return ListPage(archived=False, cursor=cursor, both=True)
    return ListPage(archived=True, cursor=cursor.removeprefix(ARCHIVE) or None, both=True)


def list_params(cwd: str | None, page: ListPage) -> dict[str, JsonValue]:
    """``thread/list``: the newest first, of every model provider."""
    params: dict[str, JsonValue] = {
        "limit": PAGE,
        "sortKey": "updated_at",
        "sourceKinds": [*SOURCES],
        "modelProviders": [],
        "archived": page.archived,
    }
    if cwd is not None:
        params["cwd"] = cwd
    if page.cursor is not None:
        params["cursor"] = page.cursor
    return params


def is_archived(thread: JsonValue) -> bool:
    """Whether a thread, as ``thread/read`` tells of it, is in the archive."""
    path = text_at(thread, "path") or ""
    return path.replace("\\", "/").split("/")[-2:-1] == [ARCHIVE_FOLDER]


def session_info(
    thread: JsonValue, updated: str | None, *, archived: bool = False
) -> dict[str, JsonValue] | None:
    """A thread as ``SessionInfo``, ``updated`` in ISO 8601; None for one without id or cwd."""
    thread_id, cwd = text_at(thread, "id"), text_at(thread, "cwd")
    if thread_id is None or cwd is None:
        return None
    info: dict[str, JsonValue] = {"sessionId": thread_id, "cwd": cwd, "archived": archived}
    title = title_of(thread)
    if title is not None:
        info["title"] = title
    if updated is not None:
        info["updatedAt"] = updated
    return info


def updated_at(thread: JsonValue) -> float | None:
    """When something last happened in a thread, in seconds since 1970."""
    seconds = value_at(thread, "updatedAt")
    return seconds if type(seconds) in (int, float) else None


def prompt_title(prompt: Sequence[Block]) -> str | None:
    """The title that Codex will list for a thread which begins so; None for a command."""
    text = next((block.text for block in prompt if isinstance(block, TextBlock)), "")
    return None if text.startswith("/") else title_of({"preview": text})


def title_of(thread: JsonValue) -> str | None:
    """The name that a person gave, else the first line of the first prompt."""
    for key in ("name", "preview"):
        text = text_at(thread, key)
        if text and text.strip():
            line = visible(text.strip().splitlines()[0].rstrip())
            return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
    return None
