"""What Codex reports before a session's object exists: none is lost, none is out of order."""

from __future__ import annotations

from typing import cast

import pytest

from codex_acp.adapter.server.threadless_notifications import HeldNotifications
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.notification_router import NotificationRouter
from codex_acp.errors import TransportError
from codex_acp.jsonrpc import JsonValue


class Heard:
    """A sink that notes what it hears."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def on_notification(self, method: str, params: JsonValue) -> None:
        del params
        self.log.append(method)
        if method == "bad":
            raise RuntimeError(method)

    def on_batch_end(self) -> None:
        self.log.append("end")

    def on_closed(self, error: TransportError | None) -> None:
        del error
        self.log.append("closed")


def hear(router: NotificationRouter, methods: str) -> None:
    for method in methods:
        router.on_notification(method, {"threadId": "t"})


@pytest.mark.parametrize("thread_id", ["t", None])
def test_what_was_kept_comes_first_and_the_rest_follows(thread_id: str | None) -> None:
    router, heard = NotificationRouter(), Heard()
    early = HeldNotifications(cast("AppServerConnection", router), thread_id)
    hear(router, "abc")
    router.on_batch_end()
    if thread_id is None:
        router.subscribe_all(heard)
    else:
        router.subscribe(thread_id, heard)
    early.hand_over(heard)
    hear(router, "de")
    router.on_closed(None)
    assert heard.log == ["a", "b", "c", "end", "d", "e", "closed"]


def test_a_sink_that_fails_still_gets_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    router, heard = NotificationRouter(), Heard()
    early = HeldNotifications(cast("AppServerConnection", router), "t")
    router.on_notification("bad", {"threadId": "t"})
    router.on_notification("good", {"threadId": "t"})
    early.hand_over(heard)
    assert heard.log == ["bad", "good", "end"]
    assert "a sink failed at bad" in caplog.text


def test_nothing_is_kept_twice() -> None:
    router, heard = NotificationRouter(), Heard()
    early = HeldNotifications(cast("AppServerConnection", router), "t")
    hear(router, "a")
    early.hand_over(heard)
    early.hand_over(heard)
    hear(router, "b")
    assert heard.log == ["a", "end"]
