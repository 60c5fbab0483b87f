"""The notifications that no open session's thread claims, and whom they are given to.

Some have no thread: they are about the account, the configuration, the whole process. Each goes
to every open session, or while one is being opened to that one alone. Some belong to a thread
that is just being opened and has no sink yet. Must not know what any of them means.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codex_acp.codex.connection.notification_router import NotificationSink, thread_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

MAX_KEPT: Final = 1_000
"""Codex says a few dozen things while a thread is opened; the oldest beyond this are dropped."""


class ThreadlessNotifications(NotificationSink):
    """A sink of one connection; ``everyone`` gives the sinks of the sessions open on it."""

    def __init__(
        self, client: AppServerConnection, everyone: Callable[[], Iterable[NotificationSink]]
    ) -> None:
        self._everyone = everyone
        self._kept: list[tuple[str | None, str, JsonValue]] = []
        self._openings = 0
        client.subscribe(None, self)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """While a thread is opened: what nobody claims may be its, see `take`."""
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1
            if not self._openings:
                self._kept = [kept for kept in self._kept if kept[0] is None]

    def take(self, thread_id: str) -> list[tuple[str, JsonValue]]:
        """What came for a thread that has just been opened, and what has no thread, in order."""
        taken = [kept[1:] for kept in self._kept if kept[0] in (None, thread_id)]
        self._kept = [kept for kept in self._kept if kept[0] not in (None, thread_id)]
        return taken

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`."""
        thread_id = thread_of(params)
        if thread_id is None and not self._openings:
            everyone = list(self._everyone())
            for sink in everyone:
                sink.on_notification(method, params)
            if everyone:
                return
        elif not self._openings:
            return  # a sub-agent's, or one of a session that was closed
        self._kept.append((thread_id, method, params))
        del self._kept[:-MAX_KEPT]

    def on_closed(self, error: TransportError | None) -> None:
        """See `NotificationSink`: each session hears that itself."""
        del error
        self._kept = []
