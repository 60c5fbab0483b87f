"""Who hears which notification, when, and what a failing sink may break: nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from codex_acp.codex.client import CodexClient
from codex_acp.codex.connection.notification_decoding import (
    NotificationDecoder,
    decode_notification,
)
from codex_acp.codex.connection.notification_router import NotificationRouter, thread_of
from codex_acp.codex.connection.server_requests import MAX_KINDS
from codex_acp.codex.types import (
    ItemAgentMessageDeltaEvent,
    SkillsChangedEvent,
    UnknownNotification,
)
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Entry, Expect, ExpectNotification, Notify, ScriptedAppServer

DELTA: dict[str, JsonValue] = {"threadId": "a", "turnId": "u", "itemId": "i", "delta": "hi"}


class Sink:
    """Writes down what it hears."""

    def __init__(self, log: list[str] | None = None, name: str = "") -> None:
        self.log = [] if log is None else log
        self.name = name

    def on_notification(self, method: str, params: JsonValue) -> None:
        del params
        self.log.append(f"{self.name}{method}")

    def on_batch_end(self) -> None:
        self.log.append(f"{self.name}end")

    def on_closed(self, error: TransportError | None) -> None:
        self.log.append(f"{self.name}closed {type(error).__name__}")


class Failing:
    """Raises at every turn."""

    def on_notification(self, method: str, params: JsonValue) -> None:
        raise ValueError(method, params)

    def on_batch_end(self) -> None:
        raise ValueError

    def on_closed(self, error: TransportError | None) -> None:
        raise ValueError(error)


@pytest.mark.parametrize(
    ("params", "thread"),
    [
        ({"threadId": "a", "thread": {"id": "b"}}, "a"),
        ({"thread": {"id": "b"}}, "b"),
        ({"threadId": None, "thread": {"id": "b"}}, "b"),
        ({"threadId": 7}, None),
        ({"thread": {"id": 7}}, None),
        ({"thread": "b"}, None),
        ({}, None),
        (None, None),
        (["a"], None),
    ],
)
def test_the_thread_of_a_notification(params: Any, thread: str | None) -> None:
    assert thread_of(params) == thread


def test_each_sink_hears_its_thread_and_the_rest_goes_to_the_sink_of_none() -> None:
    router = NotificationRouter()
    a, b, rest, everything = Sink(), Sink(), Sink(), Sink()
    router.subscribe("a", a)
    router.subscribe("b", b)
    router.subscribe(None, rest)
    router.subscribe_all(everything)
    router.on_notification("one", {"threadId": "a"})
    router.on_notification("two", {"threadId": "a-child-nobody-asked-for"})
    router.on_notification("three", {})
    router.on_batch_end()
    assert a.log == ["one", "end"]
    assert b.log == []
    assert rest.log == ["two", "three", "end"]
    assert everything.log == ["one", "two", "three", "end"]


def test_sinks_of_one_thread_all_hear_it_in_the_order_they_came() -> None:
    router = NotificationRouter()
    log: list[str] = []
    first, second = Sink(log, "1:"), Sink(log, "2:")
    router.subscribe("a", first)
    router.subscribe("a", second)
    router.on_notification("x", {"threadId": "a"})
    router.on_batch_end()
    assert log == ["1:x", "2:x", "1:end", "2:end"]


def test_a_sink_hears_only_the_methods_that_it_named() -> None:
    router = NotificationRouter()
    log: list[str] = []
    router.subscribe("a", Sink(log, "all:"))
    router.subscribe("a", Sink(log, "x:"), frozenset({"x"}))
    router.subscribe_all(Sink(log, "everywhere x:"), frozenset({"x"}))
    rest = Sink()
    router.subscribe(None, rest)
    router.on_notification("x", {"threadId": "a"})
    router.on_notification("y", {"threadId": "a"})
    router.on_notification("x", {"threadId": "b"})
    router.on_batch_end()
    assert log[:4] == ["everywhere x:x", "all:x", "x:x", "all:y"]
    assert log[4:] == ["everywhere x:x", "everywhere x:end", "all:end", "x:end"]
    assert rest.log == ["x", "end"], "what a thread's sinks do not want goes to nobody else"


def test_a_thread_whose_sinks_want_nothing_of_it_is_not_the_rest() -> None:
    router, named, rest = NotificationRouter(), Sink(), Sink()
    router.subscribe(None, rest)
    router.subscribe("a", named, frozenset({"x"}))
    router.on_notification("y", {"threadId": "a"})
    assert (named.log, rest.log) == ([], [])
    router.unsubscribe("a", named)
    router.on_notification("y", {"threadId": "a"})
    assert rest.log == ["y"]


def test_several_sinks_of_one_notification_have_it_read_and_counted_once() -> None:
    decoder = NotificationDecoder()
    params: JsonValue = dict(DELTA)
    first = decoder.decode("item/agentMessage/delta", params)
    assert decoder.decode("item/agentMessage/delta", params) is first
    assert decoder.decode("item/agentMessage/delta", dict(DELTA)) is not first
    strange: JsonValue = {}
    for _ in range(3):
        decoder.decode("vault/opened", strange)
    assert decoder.unreadable == {"vault/opened": 1}
    decoder.forget()
    decoder.decode("vault/opened", strange)
    assert decoder.unreadable == {"vault/opened": 2}


def test_after_unsubscribing_a_sink_hears_nothing_not_even_the_end() -> None:
    router, sink, rest = NotificationRouter(), Sink(), Sink()
    router.subscribe("a", sink)
    router.subscribe(None, rest)
    router.on_notification("x", {"threadId": "a"})
    router.unsubscribe("a", sink)
    router.unsubscribe("a", sink)
    router.on_notification("y", {"threadId": "a"})
    router.on_batch_end()
    router.on_closed(None)
    assert sink.log == ["x"]
    assert rest.log == ["y", "end", "closed NoneType"]


def test_a_sink_of_two_threads_that_leaves_one_still_hears_the_other() -> None:
    router, sink = NotificationRouter(), Sink()
    router.subscribe("a", sink)
    router.subscribe("b", sink)
    router.on_notification("x", {"threadId": "a"})
    router.unsubscribe("a", sink)
    router.on_batch_end()
    router.on_notification("y", {"threadId": "b"})
    assert sink.log == ["x", "end", "y"]
    router.on_closed(None)
    assert sink.log[-1:] == ["closed NoneType"]


def test_a_sink_may_leave_while_it_is_told() -> None:
    router = NotificationRouter()
    log: list[str] = []

    class Leaving(Sink):
        def on_notification(self, method: str, params: JsonValue) -> None:
            super().on_notification(method, params)
            router.unsubscribe("a", self)

    router.subscribe("a", Leaving(log, "1:"))
    router.subscribe("a", Sink(log, "2:"))
    router.on_notification("x", {"threadId": "a"})
    router.on_batch_end()
    assert log == ["1:x", "2:x", "2:end"]


def test_a_sink_that_raises_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    router, sink = NotificationRouter(), Sink()
    router.subscribe("a", Failing())
    router.subscribe("a", sink)
    router.on_notification("x", {"threadId": "a"})
    router.on_batch_end()
    router.on_closed(None)
    assert sink.log == ["x", "end", "closed NoneType"]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 3


def test_the_end_is_told_once_and_also_to_who_comes_late() -> None:
    router, early, late, later = NotificationRouter(), Sink(), Sink(), Sink()
    router.subscribe("a", early)
    router.subscribe_all(early)
    router.on_closed(ConnectionClosed("gone"))
    router.on_closed(None)
    router.subscribe("a", late)
    router.subscribe_all(later)
    assert early.log == late.log == later.log == ["closed ConnectionClosed"]


async def test_a_client_delivers_in_order_and_says_when_a_batch_ends() -> None:
    script: list[Entry] = [
        Expect("initialize"),
        ExpectNotification("initialized"),
        Notify("item/agentMessage/delta", dict(DELTA), times=3),
        Notify("skills/changed", {}),
    ]
    async with ScriptedAppServer(script) as server:
        client = CodexClient(server.link)
        sink, rest = Sink(), Sink()
        client.subscribe("a", sink)
        client.subscribe(None, rest)
        async with client:
            await server.wait_finished()
            await client_has_read(client, server)
        assert [line for line in sink.log if line != "end"] == [
            *["item/agentMessage/delta"] * 3,
            "closed NoneType",
        ]
        assert rest.log == ["skills/changed", "end", "closed NoneType"]


async def client_has_read(client: CodexClient, server: ScriptedAppServer) -> None:
    """An answer comes after all that was sent before it."""
    server.play(Expect("test/barrier"))
    await client.call_raw("test/barrier")


async def test_a_sink_of_a_client_that_was_never_started_hears_its_end() -> None:
    async with ScriptedAppServer() as server:
        client, sink = CodexClient(server.link), Sink()
        client.subscribe("a", sink)
        await client.aclose()
        assert sink.log == ["closed NoneType"]


def test_a_known_notification_is_its_event() -> None:
    event = decode_notification("item/agentMessage/delta", DELTA)
    assert isinstance(event, ItemAgentMessageDeltaEvent)
    assert (event.params.delta, event.params.thread_id) == ("hi", "a")


@pytest.mark.parametrize("params", [{}, None])
def test_a_notification_without_params_is_its_event(params: JsonValue) -> None:
    assert isinstance(decode_notification("skills/changed", params), SkillsChangedEvent)


def test_what_cannot_be_read_is_an_event_with_the_raw_params_and_the_problem() -> None:
    assert decode_notification("brand/new", {"a": 1}) == UnknownNotification({"a": 1}, "brand/new")
    event = decode_notification("item/agentMessage/delta", {**DELTA, "delta": 7})
    assert isinstance(event, UnknownNotification)
    assert event.params == {**DELTA, "delta": 7}
    assert event.problem is not None
    assert event.problem.startswith("delta: ")


def test_each_kind_of_unreadable_notification_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    decoder = NotificationDecoder()
    for _ in range(3):
        decoder.decode("brand/new", {})
        decoder.decode("item/agentMessage/delta", {**DELTA, "delta": 7})
        decoder.decode("item/agentMessage/delta", DELTA)
    assert sorted(decoder.unreadable.values()) == [3, 3]
    warnings = [r.getMessage() for r in caplog.records]
    assert len(warnings) == 2
    assert "brand/new" in warnings[0]
    assert "delta: " in warnings[1]


def test_a_peer_cannot_make_the_count_grow_without_end(caplog: pytest.LogCaptureFixture) -> None:
    decoder = NotificationDecoder()
    for number in range(MAX_KINDS + 50):
        decoder.decode(f"brand/new/{number}", {})
    assert len(decoder.unreadable) == MAX_KINDS + 1
    assert decoder.unreadable["(others)"] == 50
    assert len(caplog.records) == MAX_KINDS + 1
