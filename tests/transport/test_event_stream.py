"""Server-sent events: what they hold, whatever the chunks, and what is refused."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.transport import http_requests
from codex_acp.transport.http_requests import EventStream, EventTooLarge

STREAM = (
    b"\xef\xbb\xbfdata: {\"a\":1}\n\n"
    b": still here\n\n"
    b"event: message\r\nid: 7\r\ndata:{\"b\":\r\ndata: 2}\r\n\r\n"
    b"retry: 10\rdata: [3]\r\r"
    b"data\n\n"
    b"data: \xc3\xa9\n\n"
)  # fmt: skip

EVENTS = [b'{"a":1}', b'{"b":\n2}', b"[3]", "é".encode()]


def in_chunks(data: bytes, cuts: list[int], limit: int = 1000) -> list[bytes]:
    stream = EventStream(limit)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [event for begin, end in pairwise(edges) for event in stream.feed(data[begin:end])]


def feed_often(stream: EventStream, chunk: bytes) -> None:
    for _ in range(1000):
        stream.feed(chunk)


@given(st.lists(st.integers(0, 1000)))
def test_the_chunks_make_no_difference(cuts: list[int]) -> None:
    assert in_chunks(STREAM, cuts) == EVENTS
    assert in_chunks(STREAM, list(range(len(STREAM)))) == EVENTS


@pytest.mark.parametrize(
    ("data", "inside"),
    [
        (b"data: 1", True),
        (b"data: 1\n", True),
        (b"data: 1\n\n", False),
        (b": x", False),
        (b"event: message\nda", True),
        (b"", False),
    ],
)
def test_it_is_known_whether_an_event_is_whole(data: bytes, inside: bool) -> None:
    stream = EventStream(100)
    stream.feed(data)
    assert stream.has_unfinished_event is inside


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    "piece",
    [b"data: " + b"x" * 200, b"x", b"data: x\n", b"data:\n", b"data: " + b"x" * 200 + b"\n"],
    ids=["line", "growing line", "lines", "empty lines", "whole line"],
)
def test_an_event_that_never_ends_is_refused(piece: bytes) -> None:
    stream = EventStream(100)
    stream.feed(b"data: ")
    with pytest.raises(EventTooLarge, match="above the limit of 100 bytes"):
        feed_often(stream, piece)


@pytest.mark.parametrize("cuts", [[], list(range(200))], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "byte order mark"])
def test_an_event_may_have_exactly_as_many_bytes_as_the_limit(mark: bytes, cuts: list[int]) -> None:
    assert in_chunks(mark + b"data: " + b"x" * 100 + b"\n\n", cuts, limit=100) == [b"x" * 100]
    with pytest.raises(EventTooLarge):
        in_chunks(mark + b"data: " + b"x" * 101 + b"\n\n", cuts, limit=100)


@pytest.mark.attack("agent")
@pytest.mark.parametrize("piece", [b":\n", b": x\n\n", b"event: much\n", b"x", b"id\n"])
def test_what_says_nothing_is_bounded_and_kept_like_a_message(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "MAX_IDLE_BYTES", 400_000)
    stream = EventStream(50_000)
    stream.feed(b"noname")
    chunk = piece * (10_000 // len(piece))
    bound = "above the limit" if piece == b"x" else "of comments with no message"
    tracemalloc.start()
    try:
        with pytest.raises(EventTooLarge, match=bound):
            feed_often(stream, chunk)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.attack("agent")
@pytest.mark.parametrize("line", [b"data:\n", b"a\n", b":\n"])
def test_an_event_of_many_short_lines_takes_no_more_memory_than_its_bytes(line: bytes) -> None:
    size = 100_000
    stream = EventStream(size)
    tracemalloc.start()
    try:
        for _ in range(size // 1000):
            stream.feed(line * (1000 // len(line)))
        stream.feed(b"\n\n")
        assert tracemalloc.get_traced_memory()[1] < 2 * size
    finally:
        tracemalloc.stop()


def test_signs_of_life_between_messages_are_counted_from_the_last_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_requests, "MAX_IDLE_BYTES", 20)
    stream = EventStream(100)
    stream.feed(b"event: message\ndata: 1\n\nevent: ")
    assert not stream.has_keep_alive
    stream.feed(b"message\ndata: 1\n\n")
    for _ in range(10):
        assert stream.feed(b":\n\n:\n\ndata: 1\n\n") == [b"1"]
    assert stream.has_keep_alive
