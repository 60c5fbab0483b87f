"""Items of a thread → updates: when they start, when they complete, and those of the past.

Owns only which module an item belongs to: tool calls, messages, thoughts, plans, notices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.item_calls import status_of
from codex_acp.mapping.calls.running_calls import call_completed, call_started, whole_call
from codex_acp.mapping.events.session_events import (
    MessageAnew,
    TextChunk,
    ThoughtChunk,
    ThoughtLine,
)
from codex_acp.mapping.messages import (
    agent_message_completed,
    compaction_completed,
    compaction_started,
    hook_prompt,
    plan_completed,
    reasoning_completed,
    user_message,
)
from codex_acp.mapping.reviews import review_mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.mapping.events.session_events import SessionEvent, SessionEvents
    from codex_acp.mapping.state import SessionState


def item_started(state: SessionState, params: models.ItemStartedNotification) -> SessionEvents:
    """``item/started``: a tool call begins; what is only text comes with its deltas."""
    return started(state, params.item)


def item_completed(state: SessionState, params: models.ItemCompletedNotification) -> SessionEvents:
    """``item/completed``: a tool call as it ended; of a text what its deltas have not shown."""
    return finished(state, params.item, live=True)


def started(state: SessionState, item: models.ThreadItem) -> SessionEvents:
    """An item that may still change."""
    match item:
        case models.ContextCompactionThreadItem():
            return compaction_started(state, item)
        case (
            models.AgentMessageThreadItem()
            | models.ReasoningThreadItem()
            | models.PlanThreadItem()
            | models.UserMessageThreadItem()
            | models.HookPromptThreadItem()
            | models.EnteredReviewModeThreadItem()
            | models.ExitedReviewModeThreadItem()
        ):
            return ()  # shown when it completes, or piece by piece
    return call_started(state, item)


def finished(state: SessionState, item: models.ThreadItem, *, live: bool) -> SessionEvents:
    """An item as it ended; ``live`` unless it is told of a past turn."""
    match item:
        case models.ContextCompactionThreadItem():
            return compaction_completed(state, item)
        case models.AgentMessageThreadItem():
            return agent_message_completed(state, item)
        case models.ReasoningThreadItem():
            return reasoning_completed(state, item)
        case models.PlanThreadItem():
            return plan_completed(state, item)
        case models.UserMessageThreadItem():
            return user_message(state, item, live=live)
        case models.HookPromptThreadItem():
            return hook_prompt(state, item)
        case models.EnteredReviewModeThreadItem() | models.ExitedReviewModeThreadItem():
            return review_mode(state, item)
    return call_completed(state, item) if live else whole_call(state, item)


def whole_item(
    state: SessionState, item: models.ThreadItem, *, turn_running: bool
) -> SessionEvents:
    """An item of a thread's history: a tool call is final in its one ``tool_call``.

    One that is in progress stays open if its turn runs; else it was cut off, and has failed.
    """
    if turn_running and status_of(item) == "inProgress":
        return started(state, item)
    return [*_anew(finished(state, item, live=False))]


def _anew(events: SessionEvents) -> Iterator[SessionEvent]:
    """The events, and before the first piece of each message that it begins anew."""
    begun: set[str] = set()
    for event in events:
        if isinstance(event, TextChunk | ThoughtChunk | ThoughtLine):
            if event.message_id not in begun:
                yield MessageAnew(event.message_id, not isinstance(event, TextChunk))
            begun.add(event.message_id)
        yield event
