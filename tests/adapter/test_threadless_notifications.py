"""Notifications that no session's thread claims: each reaches the right sessions, once."""

from __future__ import annotations

from typing import cast

from codex_acp.adapter.server.threadless_notifications import MAX_KEPT, ThreadlessNotifications
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.notification_router import NotificationRouter, NotificationSink
from codex_acp.errors import TransportError
from codex_acp.jsonrpc import JsonValue


class Heard:
    """A session's sink."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def on_notification(self, method: str, params: JsonValue) -> None:
        del params
        self.log.append(method)

    def on_batch_end(self) -> None: ...

    def on_closed(self, error: TransportError | None) -> None:
        del error


def unclaimed(*everyone: NotificationSink) -> tuple[NotificationRouter, ThreadlessNotifications]:
    router = NotificationRouter()
    codex = cast("AppServerConnection", router)
    return router, ThreadlessNotifications(codex, lambda: everyone, lambda: False)


def test_what_has_no_thread_goes_to_all_open_sessions() -> None:
    one, two = Heard(), Heard()
    router, sink = unclaimed(one, two)
    router.on_notification("configWarning", {"summary": "!"})
    assert one.log == two.log == ["configWarning"]
    assert sink.take(None, "t") == []


def test_while_no_session_is_open_it_waits_for_the_first() -> None:
    router, sink = unclaimed()
    router.on_notification("configWarning", {})
    assert sink.take(None, "t1") == [("configWarning", {})]
    assert sink.take(None, "t2") == []


def test_while_one_is_opened_it_goes_to_that_one_alone() -> None:
    other = Heard()
    router, sink = unclaimed(other)
    with sink.opening():
        router.on_notification("deprecationNotice", {})
        router.on_notification("mcp", {"threadId": "new"})
        router.on_notification("mcp", {"threadId": "a sub-agent"})
        taken = sink.take(None, "new")
    assert [method for method, _ in taken] == ["deprecationNotice", "mcp"]
    assert other.log == []
    assert sink.take(None, "a sub-agent") == []


def test_what_is_another_threads_is_dropped_unless_that_may_be_the_one() -> None:
    router, sink = unclaimed(Heard())
    router.on_notification("turn/started", {"threadId": "a sub-agent"})
    with sink.opening():
        assert sink.take(None, "a sub-agent") == []


def test_what_is_kept_is_bounded() -> None:
    router, sink = unclaimed()
    for number in range(MAX_KEPT + 5):
        router.on_notification(str(number), {})
    kept = sink.take(None, "t")
    assert len(kept) == MAX_KEPT
    assert kept[-1][0] == str(MAX_KEPT + 4)
