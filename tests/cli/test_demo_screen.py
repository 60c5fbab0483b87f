"""How the demonstration is laid out, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from codex_acp.cli.demo_screen import Screen, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unread(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


@pytest.fixture(autouse=True)
def _colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def shown(out: io.StringIO) -> str:
    screen = Screen(out)
    screen.stage("session", "s-1")
    screen.verdict(True, "all of it")
    return out.getvalue()


def test_colours_are_for_terminals() -> None:
    assert "\x1b[1m" in shown(Terminal())
    assert "\x1b" not in shown(io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in shown(Terminal())


def test_deltas_form_one_text_which_is_written_at_once() -> None:
    out = io.StringIO()
    screen = Screen(out)
    seen = []
    for delta in ("One ", "two\nthree", "."):
        screen.stream(delta)
        seen.append(out.getvalue())
    margin = " " * 21 + "| "
    assert seen == [
        f"{margin}One ",
        f"{margin}One two\n{margin}three",
        f"{margin}One two\n{margin}three.",
    ]
    screen.plain("after")
    assert out.getvalue().endswith("three.\nafter\n")


def test_long_text_is_wrapped_between_deltas() -> None:
    out = io.StringIO()
    screen = Screen(out)
    for number in range(100):
        screen.stream(f"word{number} ")
    lines = out.getvalue().splitlines()
    assert len(lines) > 5
    assert max(len(line.rstrip()) for line in lines) <= 98
    assert "".join(line[23:] for line in lines) == "".join(f"word{n} " for n in range(100))


def test_the_wire_is_shown_only_when_asked_for_and_then_in_place_of_the_text() -> None:
    out = io.StringIO()
    screen = Screen(out, wire=True)
    screen.wire("sent", b'{"id":0}\n')
    screen.wire("received", b'{"text":"\xc3\xa4"}')
    screen.stream("hidden")
    assert out.getvalue() == '--> {"id":0}\n<-- {"text":"ä"}\n'
    out = io.StringIO()
    Screen(out).wire("sent", b"{}")
    assert out.getvalue() == ""


def test_nothing_that_came_over_the_wire_can_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\r\nc\u202e") == "a\\x1b[2Jb\\x07\\r\nc\\u202e"
    assert printable("ä→", "latin-1") == "ä\\u2192"


def test_a_reader_that_went_away_is_noticed_once() -> None:
    told = []
    screen = Screen(Unread())
    screen.on_lost = lambda: told.append(1)
    screen.plain("one")
    screen.stage("two", "three")
    assert screen.lost
    assert told == [1]
