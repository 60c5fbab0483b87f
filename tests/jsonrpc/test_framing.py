"""Lines come out the same however the bytes were cut."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.jsonrpc import LineFramer, TooLong

LIMIT = 12

texts = st.one_of(
    st.text(alphabet="añ€😀 \t\r{}", max_size=8).map(str.encode),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")),
    st.sampled_from([b"", b"\r", b" ", b"x" * LIMIT, b"x" * (LIMIT + 1), b"x" * 40]),
)
streams = st.builds(
    lambda lines, rest: b"".join(lines) + rest,
    st.lists(st.tuples(texts, st.sampled_from([b"\n", b"\r\n"])).map(b"".join), max_size=8),
    texts,
)


def expected(stream: bytes, limit: int) -> list[bytes | TooLong]:
    """The definition, with all bytes at hand."""
    lines: list[bytes | TooLong] = []
    for raw in stream.split(b"\n"):
        if len(raw) > limit:
            lines.append(TooLong(limit, raw[:limit]))
        elif raw.strip():
            lines.append(raw.removesuffix(b"\r"))
    return lines


def framed(chunks: list[bytes], limit: int) -> list[bytes | TooLong]:
    framer = LineFramer(limit)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    last = framer.finish()
    return lines if last is None else [*lines, last]


@given(stream=streams, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_gives_the_lines_of_the_whole(stream: bytes, cuts: list[int]) -> None:
    at = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    chunks = [stream[a:b] for a, b in itertools.pairwise(at)]
    assert framed(chunks, LIMIT) == expected(stream, LIMIT)


@given(stream=streams)
def test_byte_by_byte_gives_the_lines_of_the_whole(stream: bytes) -> None:
    assert framed([bytes([byte]) for byte in stream], LIMIT) == expected(stream, LIMIT)


def test_pieces_of_every_size_make_one_line() -> None:
    framer = LineFramer()
    pieces = [b"%d" % (size % 10) * size for size in (1, 4095, 4096, 2, 3, 70_000, 5_000, 9, 8)]
    for piece in pieces:
        assert framer.feed(piece) == []
    assert framer.feed(b"end\nnext") == [b"".join(pieces) + b"end"]
    assert framer.feed(b" one\n") == [b"next one"]
    assert framer.finish() is None


def test_multibyte_text_split_inside_a_character_is_whole_again() -> None:
    line = "ä€😀".encode()
    for cut in range(len(line) + 1):
        framer = LineFramer()
        assert [*framer.feed(line[:cut]), *framer.feed(line[cut:] + b"\n")] == [line]


def test_a_line_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    framer = LineFramer(4)
    assert framer.feed(b"abcd\nabcde\nok\n") == [b"abcd", TooLong(4, b"abcd"), b"ok"]


def test_a_line_too_long_is_told_once_before_it_ends() -> None:
    framer = LineFramer(4)
    assert framer.feed(b"abcde") == [TooLong(4, b"abcd")]
    assert framer.feed(b"f" * 100) == []
    assert framer.feed(b"g\nok\n") == [b"ok"]
    assert framer.finish() is None


def test_the_end_of_a_stream_gives_the_unterminated_rest_once() -> None:
    framer = LineFramer()
    assert framer.feed(b"a\nrest") == [b"a"]
    assert framer.finish() == b"rest"
    assert framer.finish() is None


@pytest.mark.parametrize("rest", [b"", b" ", b"\r"])
def test_a_blank_rest_is_no_line(rest: bytes) -> None:
    framer = LineFramer()
    framer.feed(b"a\n" + rest)
    assert framer.finish() is None


def test_a_huge_line_in_small_chunks_takes_linear_time() -> None:
    def cpu_seconds(chunks: int) -> float:
        framer = LineFramer(1 << 30)
        start = time.process_time()
        for _ in range(chunks):
            framer.feed(b"x" * 100)
        assert len(framer.feed(b"\n")[0]) == 100 * chunks
        return time.process_time() - start

    small = min(cpu_seconds(10_000) for _ in range(3))
    # Ten times the bytes: quadratic time would be a hundredfold.
    assert cpu_seconds(100_000) < 40 * small
