"""Map changes of a thread as a whole: its title, its goal, and actions of other clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.session_events import SessionEvents, Severity, TitleChanged
from codex_acp.mapping.messages.lines import say
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
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
    del state
    name = params.thread_name
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
