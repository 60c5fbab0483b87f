"""Ids are never used twice, compare with their type, and settle once."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.jsonrpc import OutgoingCalls


def assert_unknown(calls: OutgoingCalls[Any], request_id: int | str) -> None:
    with pytest.raises(KeyError):
        calls.settle(request_id)


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
    assert_unknown(calls, 0)


@pytest.mark.parametrize("other", ["0", False, 1, "", -1])
def test_an_id_of_another_type_or_value_is_unknown(other: int | str) -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert_unknown(calls, other)
    assert calls.settle(0) == "a"


def test_the_late_answer_of_an_abandoned_call_is_told_from_an_unknown_one() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.abandon(0)
    assert calls.settle(0) is None
    assert_unknown(calls, 0)


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
    assert_unknown(calls, 0)


def test_abandoned_ids_take_bounded_memory() -> None:
    calls = OutgoingCalls[int]()
    for number in range(10_000):
        calls.abandon(calls.open(number))
    assert calls.settle(9_999) is None
    assert_unknown(calls, 0)


def test_a_waiter_that_is_kept_gets_its_late_answer_once() -> None:
    calls = OutgoingCalls[str]()
    calls.open("a")
    assert calls.abandon(0, keep=True)
    assert calls.settle(0) == "a"
    assert_unknown(calls, 0)


def test_waiters_that_are_kept_take_bounded_memory() -> None:
    calls = OutgoingCalls[int]()
    for number in range(10_000):
        calls.abandon(calls.open(number), keep=True)
    assert calls.settle(9_999) == 9_999
    assert_unknown(calls, 0)
