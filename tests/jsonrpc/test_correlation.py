"""Ids are never used twice, compare with their type, and settle once."""

from __future__ import annotations

import pytest

from codex_acp.jsonrpc.correlation import OutgoingCalls, Stray


def test_ids_count_up_from_zero_and_none_is_used_twice() -> None:
    calls = OutgoingCalls[str]()
    assert [calls.open("a"), calls.open("b")] == [0, 1]
    calls.settle(0)
    calls.abandon(1)
    assert calls.open("c") == 2


def test_an_answer_finds_its_waiter_once() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.settle(0) == "a"
    assert calls.settle(0) is Stray.UNKNOWN


def test_a_waiter_may_be_any_value() -> None:
    calls = OutgoingCalls[None]()
    calls.open(None)
    calls.open(None)
    assert calls.settle(0) is None
    assert calls.abandon(1)


@pytest.mark.parametrize("other", ["0", False, 1, "", -1])
def test_an_id_of_another_type_or_value_is_unknown(other: int | str) -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.settle(other) is Stray.UNKNOWN
    assert calls.settle(0) == "a"


def test_the_late_answer_of_an_abandoned_call_is_told_from_an_unknown_one() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.abandon(0)
    assert calls.settle(0) is Stray.ABANDONED
    assert calls.settle(0) is Stray.UNKNOWN


def test_only_an_open_call_can_be_abandoned() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.abandon(0)
    assert not calls.abandon(0)
    assert not calls.abandon(5)
    calls.open("b")
    calls.settle(1)
    assert not calls.abandon(1)


def test_closing_gives_the_waiters_in_order() -> None:
    calls = OutgoingCalls[str]()
    for waiter in "abc":
        calls.open(waiter)
    calls.settle(1)
    assert calls.close() == ["a", "c"]
    assert calls.close() == []
    assert calls.settle(0) is Stray.UNKNOWN


def test_abandoned_ids_take_bounded_memory() -> None:
    calls = OutgoingCalls[int]()
    for number in range(10_000):
        calls.abandon(calls.open(number))
    assert calls.settle(9_999) is Stray.ABANDONED
    assert calls.settle(0) is Stray.UNKNOWN


def test_a_waiter_that_is_kept_gets_its_late_answer_once() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.abandon(0, keep=True)
    assert calls.settle(0) == "a"
    assert calls.settle(0) is Stray.UNKNOWN


def test_waiters_that_are_kept_take_bounded_memory() -> None:
    calls = OutgoingCalls[int]()
    for number in range(10_000):
        calls.abandon(calls.open(number), keep=True)
    assert calls.settle(9_999) == 9_999
    assert calls.settle(0) is Stray.UNKNOWN
