"""The end of stderr is kept, and its lines are given on, in bounded memory."""

from __future__ import annotations

import pytest

from codex_acp._glyphs import plain_text
from codex_acp.transport.child import LINE_SIZE, TAIL_SIZE, StderrTail


def test_the_last_bytes_are_kept_however_they_came() -> None:
    for size in (1, 100, 5000, 20_000):
        tail = StderrTail(None)
        text = "".join(f"{number % 10}\n" for number in range(10_000))
        for start in range(0, len(text), size):
            tail.feed(text[start : start + size].encode())
        assert tail.text() == text[2 - TAIL_SIZE : -1]


@pytest.mark.attack("app-server")
@pytest.mark.parametrize("between", [b" and ", b"\n"])
def test_no_half_of_a_secret_is_kept_or_given(between: bytes) -> None:
    secret = b"Authorization:Bearer/" + b"0123456789" * 3
    lines: list[str] = []
    for before in range(0, 40, 3):
        tail = StderrTail(lines.append)
        tail.feed(b"x" * (LINE_SIZE - before - 1) + b" ")
        tail.feed(secret)
        tail.feed(between + b"y" * (TAIL_SIZE - before - len(between)))
        tail.end()
        lines.append(tail.text())
    whole = secret.decode()
    assert all(line.count("0123456789") == 3 * line.count(whole) for line in lines)


def test_what_is_not_utf8_is_replaced() -> None:
    tail = StderrTail(None)
    tail.feed(b"a\xffb")
    assert tail.text() == "a\ufffdb"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            b"\x1b[2m12:00\x1b[0m \x1b[31mERROR\x1b[0m it broke\r\nhere",
            "12:00 ERROR it broke\nhere",
        ),
        (b"\x1b]0;a title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        (b"\xc2\x9b2Ja\x1bcb\x1b(Bc\x1b[1;1H", "abc"),
        (b"a\x1b]0;no end", "a0;no end"),
        (b"a\tb\x00\x07\x7f\rc\x1b", "a\tb\\x00\\x07\\x7f\\x0dc\\x1b"),
        ("a\u202ecba\u2028".encode(), "a\\u202ecba\\u2028"),
    ],
)
def test_what_steers_a_terminal_is_taken_out(written: bytes, shown: str) -> None:
    lines: list[str] = []
    tail = StderrTail(lines.append)
    tail.feed(written)
    tail.end()
    assert tail.text() == shown
    assert "\n".join(lines) == shown


def test_titles_that_never_end_cost_no_more_than_their_length() -> None:
    assert plain_text("\x9d\x90a" * 500_000) == r"\x9d\x90a" * 500_000


def test_lines_are_whole_and_the_rest_comes_at_the_end() -> None:
    lines: list[str] = []
    tail = StderrTail(lines.append)
    for chunk in (b"on", b"e\r\ntwo\n", b"\nrest"):
        tail.feed(chunk)
    assert lines == ["one", "two", ""]
    tail.end()
    tail.end()
    assert lines == ["one", "two", "", "rest"]


def test_a_line_without_end_is_cut() -> None:
    lines: list[str] = []
    tail = StderrTail(lines.append)
    for _ in range(100):
        tail.feed(b"x" * 1000)
    tail.feed(b"\nnext\n")
    assert lines == ["", "next"]
    tail.feed(b"word " * LINE_SIZE)
    assert len(lines[-1]) > LINE_SIZE - 10
    assert set(lines[-1].split()) == {"word"}


def test_a_failing_callback_is_logged_and_the_next_line_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        if line == "bad":
            raise ValueError

    StderrTail(take).feed(b"bad\ngood\n")
    assert lines == ["bad", "good"]
    assert "callback" in caplog.text
