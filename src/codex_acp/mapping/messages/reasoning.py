"""The model's reasoning → thoughts: its summary, or the raw text where there is no summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.session_events import SessionEvents, ThoughtChunk
from codex_acp.mapping.streamed_text import SentThought, add_piece, left_to_send

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.state import SessionState

_BLANK_LINE: Final = "\n\n"
"""Between two parts; it comes with the first text of the later one."""


def summary_text_delta(
    state: SessionState, params: models.ReasoningSummaryTextDeltaNotification
) -> SessionEvents:
    """``item/reasoning/summaryTextDelta`` → a thought of the item."""
    return _delta(state, params.item_id, params.summary_index, params.delta, raw=False)


def text_delta(state: SessionState, params: models.ReasoningTextDeltaNotification) -> SessionEvents:
    """``item/reasoning/textDelta``: raw reasoning, shown only while there is no summary."""
    return _delta(state, params.item_id, params.content_index, params.delta, raw=True)


def reasoning_completed(state: SessionState, item: models.ReasoningThreadItem) -> SessionEvents:
    """Return the text that no delta carried: of the summary, or of raw text that was begun."""
    summary, content = (_BLANK_LINE.join(filter(None, p)) for p in (item.summary, item.content))
    thought = state.thoughts.setdefault(item.id, SentThought(raw=not summary, part=0))
    whole = content if thought.raw else summary
    left = left_to_send(thought.pieces, item.id, whole) if whole else None
    return () if left is None else (ThoughtChunk(*left),)


def _delta(state: SessionState, item_id: str, part: int, delta: str, *, raw: bool) -> SessionEvents:
    if not delta:
        return ()
    thought = state.thoughts.get(item_id)
    if thought is None:
        state.thoughts[item_id] = SentThought(raw, part, [delta])
        return (ThoughtChunk(item_id, delta),)
    if raw and not thought.raw:
        return ()
    text = delta
    if (raw, part) != (thought.raw, thought.part):
        text = _BLANK_LINE + delta
        if raw != thought.raw:  # the summary begins: what counts from now on
            thought.pieces.clear()
            thought.pieces.append(delta)
        else:
            add_piece(thought.pieces, text)
        thought.raw, thought.part = raw, part
    else:
        add_piece(thought.pieces, delta)
    return (ThoughtChunk(item_id, text),)
