"""Reasoning: the summary once, part by part; the raw text only where there is no summary."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex.types import (
    ReasoningSummaryTextDeltaNotification,
    ReasoningTextDeltaNotification,
    ReasoningThreadItem,
)
from codex_acp.mapping.events import SessionEvents, ThoughtChunk
from codex_acp.mapping.messages import reasoning_completed, reasoning_text_delta, summary_text_delta
from codex_acp.mapping.state import SessionState


def summary(state: SessionState, text: str, part: int = 0, item: str = "r1") -> str:
    params = ReasoningSummaryTextDeltaNotification(
        delta=text, item_id=item, summary_index=part, thread_id="t", turn_id="u"
    )
    return said(summary_text_delta(state, params), item)


def raw(state: SessionState, text: str, part: int = 0, item: str = "r1") -> str:
    params = ReasoningTextDeltaNotification(
        delta=text, item_id=item, content_index=part, thread_id="t", turn_id="u"
    )
    return said(reasoning_text_delta(state, params), item)


def completed(
    state: SessionState, summary: list[str], content: list[str] | None = None, item: str = "r1"
) -> str:
    whole = ReasoningThreadItem(id=item, summary=summary, content=content or [])
    return said(reasoning_completed(state, whole), item)


def said(updates: SessionEvents, item: str) -> str:
    texts = []
    for update in updates:
        assert isinstance(update, ThoughtChunk)
        assert update.message_id == item
        texts.append(update.text)
    return "".join(texts)


def test_a_delta_of_the_summary_is_a_thought_of_its_item() -> None:
    assert summary(SessionState(), "I look.") == "I look."


def test_a_blank_line_parts_two_parts_of_the_summary() -> None:
    state = SessionState()
    sent = [summary(state, "One", 0), summary(state, ".", 0), summary(state, "Two.", 1)]

    assert sent == ["One", ".", "\n\nTwo."]


def test_the_first_part_that_is_sent_begins_without_a_blank_line() -> None:
    assert summary(SessionState(), "Two.", 1) == "Two."


def test_two_items_do_not_count_for_each_other() -> None:
    state = SessionState()
    summary(state, "One.", 0, "r1")

    assert summary(state, "Two.", 1, "r2") == "Two."


def test_raw_reasoning_is_shown_where_there_is_no_summary() -> None:
    state = SessionState()

    assert [raw(state, "Hm."), raw(state, "So.", 1)] == ["Hm.", "\n\nSo."]


def test_raw_reasoning_is_not_shown_beside_a_summary() -> None:
    state = SessionState()
    summary(state, "I look.")

    assert raw(state, "Hm.") == ""
    assert completed(state, ["I look."], ["Hm. And more."]) == ""


def test_a_summary_that_comes_after_raw_reasoning_is_still_shown() -> None:
    state = SessionState()
    raw(state, "Hm.")

    assert summary(state, "I look.") == "\n\nI look."
    assert completed(state, ["I look.", "I mend."], ["Hm."]) == "\n\nI mend."


def test_a_completed_item_sends_only_what_no_delta_carried() -> None:
    state = SessionState()
    summary(state, "I lo")

    assert completed(state, ["I look.", "I mend."]) == "ok.\n\nI mend."
    assert completed(state, ["I look.", "I mend."]) == ""


def test_a_completed_item_without_deltas_is_sent_whole_by_its_summary() -> None:
    assert completed(SessionState(), ["I look.", ""], ["Hm."]) == "I look."
    assert completed(SessionState(), [], ["Hm."]) == "Hm."
    assert completed(SessionState(), []) == ""


def test_raw_reasoning_that_was_begun_is_completed_as_such() -> None:
    state = SessionState()
    raw(state, "Hm")

    assert completed(state, ["I look."], ["Hm."]) == "."


PART = st.text(alphabet="ab .", min_size=1, max_size=8).filter(str.strip)


@given(st.lists(PART, min_size=1, max_size=4), st.integers(0, 20), st.booleans())
def test_however_reasoning_is_cut_it_arrives_whole_and_once(
    parts: list[str], streamed: int, is_raw: bool
) -> None:
    state = SessionState()
    delta = raw if is_raw else summary
    sent = ""
    left = streamed
    for number, part in enumerate(parts):
        places = sorted({0, min(left, len(part)), min(left // 2, len(part))})
        sent += "".join(delta(state, part[a:b], number) for a, b in pairwise(places))
        left -= len(part)
        if left <= 0:
            break
    whole = ([], parts) if is_raw else (parts, [])
    sent += completed(state, *whole) + completed(state, *whole)

    assert sent == "\n\n".join(parts)
