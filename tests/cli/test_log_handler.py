"""A record of the log becomes a line: whole, harmless, and without secrets."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_acp.cli.log_handler import MAX_RECORD, MAX_REMEMBERED, REPEAT_SECONDS, LogHandler
from codex_acp.transcript.secrets import remember_secrets


class Log:
    """A handler on a file, and records with a time of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.handler = LogHandler(self._fd, str(path))

    def log(self, text: str, *args: object, at: float = 0.0, **more: object) -> None:
        made = {"name": "a.logger", "levelname": "WARNING", "levelno": logging.WARNING}
        record = logging.makeLogRecord({**made, "msg": text, "args": args, "created": at, **more})
        self.handler.handle(record)

    def lines(self) -> list[str]:
        """What stands behind the name of the logger, of each line."""
        self.handler.close()
        return [line.partition("a.logger: ")[2] or line for line in self.text().splitlines()]

    def text(self) -> str:
        return self.path.read_text()

    def close(self) -> None:
        self.handler.close()
        os.close(self._fd)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    # A busy machine may not write in the time that the end of a process gives it.
    monkeypatch.setattr("codex_acp.cli.log_handler.CLOSE_SECONDS", 60.0)
    log = Log(tmp_path / "log")
    yield log
    log.close()


def test_a_record_that_comes_again_is_counted_and_told_when_it_has_been_a_while(log: Log) -> None:
    for at in (0.0, 1.0, 2.0, REPEAT_SECONDS + 1):
        log.log("the %s", "same", at=at)
    log.log("another", at=REPEAT_SECONDS + 2)
    log.log("the %s", "same", at=REPEAT_SECONDS + 3)
    assert log.lines() == [
        "the same",
        "the same [2 more since the last]",
        "another",
        "the same [1 more of it]",
    ]


def test_few_are_remembered_and_none_is_lost(log: Log) -> None:
    for _ in range(2):
        log.log("first")
    for number in range(MAX_REMEMBERED):
        log.log("n %d", number)
    lines = log.lines()
    assert lines.count("first [1 more of it]") == 1
    assert len(lines) == MAX_REMEMBERED + 2


def test_a_record_that_cannot_be_shown_is_named_and_raises_nothing(log: Log) -> None:
    class Broken:
        def __str__(self) -> str:
            raise KeyError("secret")

    log.log("it is %s", Broken(), pathname="x.py", lineno=7)
    log.log("%d of %d", 1, pathname="y.py", lineno=8)
    assert log.lines() == [
        "a record of x.py:7 is not to be shown: KeyError",
        "a record of y.py:8 is not to be shown: TypeError",
    ]


def test_secrets_go_from_arguments_and_exceptions(log: Log) -> None:
    try:
        raise ValueError("api_key=abcdefgh")
    except ValueError as error:
        failed = (type(error), error, error.__traceback__)
    log.log("Authorization: Bearer %s", "abcdefgh", exc_info=failed)
    lines = log.lines()
    assert "abcdefgh" not in log.text()
    assert lines[-1] == "  ValueError: api_key=[redacted]"


def test_what_a_peer_wrote_looks_like_no_line_of_the_log_and_moves_no_cursor(log: Log) -> None:
    log.log("it said %s", "hi\n2026-01-01 00:00:00,000 ERROR x: forged\x1b[2J\r\x9b\u202e")
    assert log.lines() == [
        "it said hi",
        "  2026-01-01 00:00:00,000 ERROR x: forged\\x1b[2J\\x0d\\x9b\\u202e",
    ]


def test_a_record_is_bounded_and_says_so(log: Log) -> None:
    log.log("%s", "many words " * MAX_RECORD)
    (line,) = log.lines()
    assert len(line) <= MAX_RECORD + 10
    assert line.endswith("words [...]")


def test_a_lone_surrogate_is_written_as_its_escape(log: Log) -> None:
    log.log("%s", "\ud800")
    assert log.lines() == ["\\ud800"]


@pytest.mark.attack("app-server")
def test_what_a_variable_of_this_process_holds_as_a_secret_is_in_no_line(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "swordfish")
    monkeypatch.setenv("AUTH_TYPE", "chatgpt")
    log.log("the key swordfish of chatgpt is refused")
    assert log.lines() == ["the key [redacted] of chatgpt is refused"]


@pytest.mark.attack("MCP server")
def test_of_a_secret_with_spaces_at_the_cut_of_a_record_no_half_is_left(log: Log) -> None:
    secret = "correct horse battery staple"
    remember_secrets([secret])
    for shift in range(len(secret)):
        log.log("x" * (MAX_RECORD - 60 - shift) + f" {secret} and on" * 3)
    assert not [word for word in secret.split() if word in log.text() + str(log.lines())]
