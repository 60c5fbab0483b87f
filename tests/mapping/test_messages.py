"""The agent's messages: each character is sent once, whether deltas carried it or not."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex.types import (
    AgentMessageDeltaNotification,
    AgentMessageThreadItem,
    AsyncUserInputQuestion,
    ItemCompletedNotification,
    Turn,
    TurnCompletedNotification,
)
from codex_acp.mapping.events import SessionEvents, TextChunk
from codex_acp.mapping.items import item_completed
from codex_acp.mapping.messages import agent_message_completed, message_delta
from codex_acp.mapping.session import turn_completed
from codex_acp.mapping.state import MAX_PIECES, SessionState


def delta(state: SessionState, text: str, item: str = "m1") -> SessionEvents:
    return message_delta(
        state, AgentMessageDeltaNotification(delta=text, item_id=item, thread_id="t", turn_id="u")
    )


def completed(state: SessionState, text: str, item: str = "m1") -> SessionEvents:
    return item_completed(
        state,
        ItemCompletedNotification(
            item=AgentMessageThreadItem(id=item, text=text),
            thread_id="t",
            turn_id="u",
            completed_at_ms=0,
        ),
    )


def question(text: str, title: str, options: list[str] | None) -> AgentMessageThreadItem:
    asked = AsyncUserInputQuestion(title=title, options=options)
    return AgentMessageThreadItem(id="m1", text=text, delivery="async", questions=[asked])


def texts(updates: SessionEvents) -> list[tuple[str | None, str]]:
    found: list[tuple[str | None, str]] = []
    for update in updates:
        assert isinstance(update, TextChunk)
        found.append((update.message_id, update.text))
    return found


def test_a_delta_is_a_chunk_of_its_items_message() -> None:
    assert texts(delta(SessionState(), "Hel")) == [("m1", "Hel")]


def test_an_empty_delta_sends_nothing() -> None:
    assert delta(SessionState(), "") == ()


def test_a_completed_message_whose_deltas_said_all_sends_nothing() -> None:
    state = SessionState()
    delta(state, "Hello")

    assert completed(state, "Hello") == ()


def test_a_message_of_very_many_deltas_is_remembered_as_few_objects() -> None:
    state = SessionState()
    words = [f"{number} " for number in range(2 * MAX_PIECES)]
    for word in words:
        assert texts(delta(state, word)) == [("m1", word)]

    assert len(state.sent_text["m1"]) <= MAX_PIECES
    assert texts(completed(state, "".join(words) + "more")) == [("m1", "more")]


def test_a_completed_message_sends_only_what_no_delta_carried() -> None:
    state = SessionState()
    delta(state, "Hel")

    assert texts(completed(state, "Hello")) == [("m1", "lo")]


def test_a_completed_message_without_deltas_is_sent_whole() -> None:
    assert texts(completed(SessionState(), "Hello")) == [("m1", "Hello")]


def test_a_message_that_completes_twice_is_sent_once() -> None:
    state = SessionState()
    completed(state, "Hello")

    assert completed(state, "Hello") == ()


def test_a_completed_message_that_is_shorter_than_its_deltas_sends_nothing() -> None:
    state = SessionState()
    delta(state, "Hello <citation>")

    assert completed(state, "Hello") == ()


def test_a_completed_message_that_says_something_else_is_a_message_of_its_own() -> None:
    state = SessionState()
    delta(state, "Hullo wurld")

    assert texts(completed(state, "Hello world")) == [("m1:completed", "Hello world")]
    assert completed(state, "Hello world") == ()


def test_blank_space_alone_makes_no_other_text() -> None:
    state = SessionState()
    delta(state, "Intro.\n\n\nEnd.\n")

    assert completed(state, "Intro.\n\nEnd.") == ()


def test_a_question_that_nobody_waits_for_is_shown_with_its_options() -> None:
    item = question("I go on.", "Which color?", ["Red", "Blue"])

    assert texts(agent_message_completed(SessionState(), item)) == [
        ("m1", "I go on.\n\nWhich color?\n- Red\n- Blue")
    ]


def test_a_question_that_the_text_already_asks_is_not_repeated() -> None:
    state = SessionState()
    delta(state, "Which color? Red or Blue.")
    item = question("Which color? Red or Blue.", "Which color?", ["Red", "Blue"])

    assert agent_message_completed(state, item) == ()


def test_a_question_whose_text_is_empty_is_the_message() -> None:
    item = question("", "Which color?", None)

    assert texts(agent_message_completed(SessionState(), item)) == [("m1", "Which color?")]


def test_two_messages_do_not_count_for_each_other() -> None:
    state = SessionState()
    delta(state, "one", "m1")

    assert texts(completed(state, "two", "m2")) == [("m2", "two")]


def test_the_end_of_the_turn_forgets_what_was_sent() -> None:
    state = SessionState()
    delta(state, "never completed")
    turn = Turn(id="u", items=[], status="completed")
    turn_completed(state, TurnCompletedNotification(thread_id="t", turn=turn))

    assert state == SessionState()


@given(st.text(), st.lists(st.integers(0, 40), max_size=6), st.integers(0, 40))
def test_however_a_text_is_cut_it_arrives_whole_and_once(
    text: str, cuts: list[int], streamed: int
) -> None:
    state = SessionState()
    places = sorted({0, *(c for c in cuts if c < streamed), streamed})
    sent = ""
    for begin, end in pairwise(places):
        sent += "".join(t for _, t in texts(delta(state, text[begin:end])))
    for _ in range(2):
        sent += "".join(t for _, t in texts(completed(state, text)))

    assert sent == text


@given(st.lists(st.text(max_size=8), max_size=6), st.text(max_size=30))
def test_whatever_the_deltas_said_the_completed_text_is_there_whole(
    deltas: list[str], text: str
) -> None:
    state = SessionState()
    for piece in deltas:
        delta(state, piece)
    sent = "".join(deltas)
    rest = texts(completed(state, text))

    assert completed(state, text) == ()
    if not rest:
        assert sent.startswith(text) or sent.split() == text.split()
    else:
        ((message, more),) = rest
        assert (sent if message == "m1" else "") + more == text
