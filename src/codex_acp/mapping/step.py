"""What a row of the notification table is: a function to ACP updates, or a reason to ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import SessionUpdate

__all__ = ["Ignored", "TextChunk", "ThoughtChunk", "Update", "Updates"]


class TextChunk(NamedTuple):
    """A piece of the agent's message: ``agent_message_chunk``, by far the most frequent update.

    Kept apart from its model because thousands come a second: it is written straight as JSON.
    """

    message_id: str
    text: str


class ThoughtChunk(NamedTuple):
    """A piece of the agent's reasoning: ``agent_thought_chunk``; apart for the same reason."""

    message_id: str
    text: str


Update: TypeAlias = "SessionUpdate | TextChunk | ThoughtChunk"
"""One ACP update of a session."""

Updates: TypeAlias = "Sequence[Update]"
"""ACP updates of one session, in the order in which they are to be sent."""


class Ignored(NamedTuple):
    """A notification that causes no update, and why."""

    reason: str
