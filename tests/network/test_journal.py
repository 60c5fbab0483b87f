"""What is kept of a session that nobody listens to."""

from __future__ import annotations

from codex_acp.adapter.network.network_session import Journal, JournalPosition
from codex_acp.mapping.events import (
    Notice,
    TextChunk,
    ThoughtChunk,
    ToolCallAnnounced,
    ToolCallChanged,
)

TURN = object()
BEFORE = object()


def text(journal: Journal) -> list[object]:
    return list(journal.since(JournalPosition(None, 0)))


def test_pieces_of_one_message_are_one() -> None:
    journal = Journal()
    for piece in ("a", "b", "c"):
        journal.add(TextChunk("m", piece), TURN, sent=False)
    journal.add(ThoughtChunk("m", "d"), TURN, sent=False)
    journal.add(TextChunk("n", "e"), TURN, sent=False)
    journal.add(TextChunk("n", "f"), TURN, sent=True)
    assert text(journal) == [
        TextChunk("m", "abc"),
        ThoughtChunk("m", "d"),
        TextChunk("n", "e"),
        TextChunk("n", "f"),
    ]


def test_of_a_tool_calls_states_the_last_is_kept() -> None:
    journal = Journal()
    journal.add(ToolCallAnnounced(id="c", title="t", status="pending"), TURN, sent=False)
    journal.add(ToolCallChanged(id="c", status="in_progress"), TURN, sent=False)
    journal.add(ToolCallChanged(id="d", status="in_progress"), TURN, sent=False)
    journal.add(ToolCallChanged(id="c", status="completed", title="u"), TURN, sent=False)
    journal.add(ToolCallChanged(id="c", status="failed"), TURN, sent=False)
    assert [(e.id, e.status) for e in text(journal)] == [  # type: ignore[attr-defined]
        ("c", "pending"),
        ("d", "in_progress"),
        ("c", "completed"),
        ("c", "failed"),
    ]


def test_a_load_gets_what_runs_and_what_came_meanwhile() -> None:
    journal = Journal()
    journal.add(TextChunk("a", "before"), BEFORE, sent=False)
    journal.add(TextChunk("b", "runs"), TURN, sent=True)
    loaded = JournalPosition(TURN, journal.next_number)
    journal.add(Notice("info", "later"), None, sent=False)
    assert journal.since(loaded) == [TextChunk("b", "runs"), Notice("info", "later")]


def test_a_resume_gets_what_nobody_heard_and_the_calls_of_what_runs() -> None:
    journal = Journal()
    call = ToolCallAnnounced(id="c", title="t", status="pending")
    journal.add(call, TURN, sent=True)
    journal.add(TextChunk("b", "heard"), TURN, sent=True)
    journal.add(TextChunk("b", "unheard"), TURN, sent=False)
    assert journal.unsent(TURN) == [call, TextChunk("b", "unheard")]
    assert journal.unsent(None) == [TextChunk("b", "unheard")]
    journal.mark_sent(TURN)
    assert journal.unsent(TURN) == [call]
    assert journal.since(JournalPosition(TURN, journal.next_number)) == [
        call,
        TextChunk("b", "heard"),
        TextChunk("b", "unheard"),
    ]
    journal.mark_sent(None)
    assert text(journal) == []


def test_what_does_not_fit_is_dropped_from_the_oldest_on_and_counted() -> None:
    journal = Journal(max_size=100)
    for number in range(30):
        journal.add(TextChunk(str(number), "x" * 10), TURN, sent=False)
    assert len(text(journal)) == 10
    assert journal.dropped == 20
    journal.add(TextChunk("29", "y" * 200), TURN, sent=False)
    assert text(journal) == []
    journal.clear()
    assert journal.dropped == 0
