"""Messages of the agent and of the person → chunks.

A completed item sends only what its deltas did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.events.session_events import SessionEvents, TextChunk, UserMessage
from codex_acp.mapping.prompt.input_blocks import content_block
from codex_acp.mapping.streamed_text import add_piece, left_to_send

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.state import SessionState


def agent_message_delta(
    state: SessionState, params: models.AgentMessageDeltaNotification
) -> SessionEvents:
    """``item/agentMessage/delta`` → one chunk."""
    return text_delta(state, params.item_id, params.delta)


def agent_message_completed(
    state: SessionState, item: models.AgentMessageThreadItem
) -> SessionEvents:
    """The rest of a message, and the questions that it asks the person without waiting."""
    if item.text == state.review_text and item.id not in state.sent_text:
        return ()  # the item that ended the review has said it: see `mapping.messages.reviews`
    return text_completed(state, item.id, _with_questions(item))


def text_delta(state: SessionState, item_id: str, delta: str) -> SessionEvents:
    """A piece of an item that is shown as a message; an empty one sends nothing."""
    if not delta:
        return ()
    pieces = state.sent_text.get(item_id)
    if pieces is None:
        state.sent_text[item_id] = [delta]
    else:
        add_piece(pieces, delta)
    return (TextChunk(item_id, delta),)


def text_completed(state: SessionState, item_id: str, whole: str) -> SessionEvents:
    """Return the text that no delta carried; nothing the second time."""
    left = left_to_send(state.sent_text.setdefault(item_id, []), item_id, whole)
    return () if left is None else (TextChunk(*left),)


def user_message(
    state: SessionState, item: models.UserMessageThreadItem, live: bool
) -> SessionEvents:
    """A message of the person; ``live``: while the turn runs.

    Live, the client knows what it has sent itself: only a message with the id of another client
    (``clientUserMessageId``) is shown.
    """
    from_here = item.client_id is None or item.client_id in state.own_messages
    if live and from_here and not state.is_sub_agent:
        return ()
    if item.id in state.sent_text:
        return ()
    state.sent_text[item.id] = []  # Codex starts and completes it; the second time says nothing
    return (UserMessage(item.id, [content_block(part) for part in item.content], item.client_id),)


def _with_questions(item: models.AgentMessageThreadItem) -> str:
    """The text, behind it the questions and options that it does not contain already."""
    text = item.text
    for question in item.questions or ():
        lines = [] if question.title in text else [question.title]
        lines += [f"- {option}" for option in question.options or () if option not in text]
        if lines:
            text = "\n\n".join(part for part in (text, "\n".join(lines)) if part)
    return text
