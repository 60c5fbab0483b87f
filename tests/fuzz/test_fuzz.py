"""A round of each kind with a fixed seed; ``nox -s fuzz`` runs as many as one has time for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import library_rounds, rounds
from tests.fuzz.__main__ import KINDS
from tests.fuzz.adapter_process import AdapterProcess, FuzzFailure
from tests.fuzz.answer_book import AnswerBook
from tests.fuzz.mutations import damaged, mutated, to_line
from tests.fuzz.rounds import Round

MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "a": [1]}}


ROUNDS = [
    pytest.param(kind, marks=pytest.mark.attack(by))
    for kind, by in zip(
        KINDS, ("client", "app-server", "app-server", "agent", "client"), strict=True
    )
]


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ROUNDS)
def test_whatever_one_side_says_the_other_answers_and_works_on(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "LINES", 150)
    monkeypatch.setattr(library_rounds, "TURNS", 8)
    made = Round()
    KINDS[kind](1, made)
    assert sum(made.counts.values()) > 20


def test_the_same_seed_makes_the_same_lines() -> None:
    def lines(seed: int) -> list[bytes]:
        random = Random(seed)
        made = [to_line(mutated(MESSAGE, random)) for _ in range(50)]
        return made + [damaged(to_line(MESSAGE), random) for _ in range(50)]

    assert lines(3) == lines(3)
    assert lines(3) != lines(4)


@pytest.mark.e2e
def test_a_round_that_failed_is_replayed_line_by_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def settle(process: AdapterProcess) -> None:
        if process.book.requests > 1:
            raise FuzzFailure("pretended")

    monkeypatch.setattr(AdapterProcess, "settle", settle)
    with pytest.raises(FuzzFailure, match=r"the line is b'.*levitate"):
        rounds.replay([b"\n", b'{"jsonrpc":"2.0","id":5,"method":"session/levitate"}\n'])


class TestTheBookOfAnswers:
    def test_a_request_is_owed_one_answer(self) -> None:
        book = AnswerBook()
        book.sent(to_line(MESSAGE)[:20])
        assert book.left == []
        book.sent(to_line(MESSAGE)[20:])
        assert len(book.left) == 1
        book.answered({"id": 1, "result": {}})
        assert (book.left, book.wrong) == ([], [])
        book.answered({"id": 1, "result": {}})
        assert len(book.wrong) == 1

    def test_an_id_of_another_type_is_another_id(self) -> None:
        book = AnswerBook()
        book.sent(to_line(MESSAGE))
        book.answered({"id": "1", "error": {"code": -32603, "message": ""}})
        assert len(book.wrong) == 1
        assert book.errors == Counter({-32603: 1})

    @pytest.mark.parametrize("line", ["[1]", '{"id":1}', '{"id":1,"result":{}}', '{"method":"a"}'])
    def test_what_is_no_request_is_owed_nothing(self, line: str) -> None:
        book = AnswerBook()
        book.sent(line.encode() + b"\n")
        assert book.left == []

    def test_a_line_that_cannot_be_read_may_be_answered_under_the_id_at_its_head(self) -> None:
        book = AnswerBook()
        book.sent(json.dumps(MESSAGE).encode()[:-3] + b"\n")
        book.answered({"id": 1, "error": {"code": -32700, "message": ""}})
        assert (book.left, book.wrong) == ([], [])
