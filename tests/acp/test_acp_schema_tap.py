"""The schema tap sees what is wrong; without this, the tests that use it could not fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.acp_schema import SchemaTap, SideName

V = {"jsonrpc": "2.0"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def tapped(side: SideName, *sent: dict[str, Any], asked: dict[str, Any] | None = None) -> SchemaTap:
    tap = SchemaTap()
    on_line = tap.on(side)
    if asked is not None:
        on_line("received", line({**V, **asked}))
    for message in sent:
        on_line("sent", line(message))
    return tap


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("agent", {**V, "method": "session/update", "params": {"sessionId": "s", "update": CHUNK}}),
        ("client", {**V, "method": "session/cancel", "params": {"sessionId": "s"}}),
        ("client", {**V, "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
        ("agent", {**V, "method": "$/cancel_request", "params": {"requestId": 0}}),
        ("agent", {**V, "id": None, "error": {"code": -32700, "message": "no"}}),
    ],
)
def test_what_fits_is_no_problem(side: SideName, message: dict[str, Any]) -> None:
    tap = tapped(side, message)
    tap.check()
    assert tap.sent_by(side) == [message]


@pytest.mark.parametrize(
    ("side", "message", "problem"),
    [
        ("agent", {"method": "session/update", "params": {}}, "jsonrpc"),
        ("agent", {**V, "method": "session/update", "params": {"sessionId": "s"}}, "update"),
        ("agent", {**V, "method": "session/update", "params": None}, "SessionNotification"),
        (
            "agent",
            {**V, "method": "session/update", "params": {"sessionId": "s", "update": {}}},
            "SessionNotification",
        ),
        ("agent", {**V, "method": "session/cancel", "params": {}}, "no such notification"),
        ("client", {**V, "id": 1, "method": "session/update", "params": {}}, "no such request"),
        (
            "client",
            {**V, "id": 1.5, "method": "initialize", "params": {"protocolVersion": 1}},
            "1.5",
        ),
        ("client", {**V, "id": 1, "method": "initialize", "params": {}}, "protocolVersion"),
        ("agent", {**V, "id": None, "error": {"code": "x", "message": "no"}}, "code"),
        ("agent", {**V, "id": 1, "result": {}}, "without being asked"),
    ],
)
def test_what_does_not_fit_is_told(side: SideName, message: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        tapped(side, message).check()


def test_a_result_is_held_against_the_method_it_answers() -> None:
    asked = {"id": 1, "method": "session/prompt", "params": {}}
    tapped("agent", {**V, "id": 1, "result": {"stopReason": "end_turn"}}, asked=asked).check()
    with pytest.raises(AssertionError, match="stopReason"):
        tapped("agent", {**V, "id": 1, "result": {}}, asked=asked).check()


def test_a_second_answer_is_a_problem_and_a_missing_one_is_listed() -> None:
    asked = {"id": 1, "method": "logout", "params": {}}
    answer = {**V, "id": 1, "result": {}}
    assert tapped("agent", asked=asked).unanswered("agent") == ["logout"]
    assert tapped("agent", answer, asked=asked).unanswered("agent") == []
    with pytest.raises(AssertionError, match="without being asked"):
        tapped("agent", answer, answer, asked=asked).check()


def test_two_lines_in_one_message_are_a_problem() -> None:
    tap = SchemaTap()
    tap.on("agent")("sent", b'{"jsonrpc":"2.0",\n"id":null,"error":{"code":1,"message":""}}\n')
    with pytest.raises(AssertionError, match="one line"):
        tap.check()
