"""The notifications that no open session's thread claims, and whom they are given to.

Some have no thread: they are about the account, the configuration, the whole process. Each goes
to every open session, or while one is being opened to that one alone. Some belong to a thread
that is just being opened and has no sink yet. Must not know what any of them means.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.codex.connection.notification_router import NotificationSink, thread_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

MAX_KEPT: Final = 10_000
"""Codex says a few dozen things while a thread is opened, and a sub-agent as much as it works; the
oldest beyond this are dropped."""

MAX_SECONDS: Final = 60.0
"""Behind its first notification Codex names a sub-agent at once; whose it is not, is nobody's."""


class _Kept(NamedTuple):
    at: float
    thread_id: str | None
    method: str
    params: JsonValue


class ThreadlessNotifications(NotificationSink):
    """A sink of one connection; ``everyone`` gives the sinks of the sessions open on it.

    ``awaits`` says whether anything runs that may start a sub-agent: what nobody claims may be of
    one, which Codex lets begin before it names it.
    """

    def __init__(
        self,
        client: AppServerConnection,
        everyone: Callable[[], Iterable[NotificationSink]],
        awaits: Callable[[], bool],
    ) -> None:
        self._everyone = everyone
        self._awaits = awaits
        self._kept: list[_Kept] = []
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
            if not self._openings and not self._awaits():
                self._kept = [kept for kept in self._kept if kept.thread_id is None]

    def take(self, *of: str | None) -> list[tuple[str, JsonValue]]:
        """Return what came for threads before anybody heard it, in order; None: for no thread."""
        taken = [(kept.method, kept.params) for kept in self._kept if kept.thread_id in of]
        if taken:
            self._kept = [kept for kept in self._kept if kept.thread_id not in of]
        return taken

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None and not self._openings:
            everyone = list(self._everyone())
            for sink in everyone:
                sink.on_notification(method, params)
            if everyone:
                return
        elif not self._openings and not self._awaits():
            return  # a sub-agent's, or one of a session that was closed
        now = monotonic()
        if not self._openings and self._kept and self._kept[0].at < now - MAX_SECONDS:
            fresh = [k for k in self._kept if k.thread_id is None or k.at >= now - MAX_SECONDS]
            self._kept = fresh
        self._kept.append(_Kept(now, thread_id, method, params))
        del self._kept[:-MAX_KEPT]

    def on_closed(self, error: TransportError | None) -> None:
        """Do nothing: each session hears that itself."""
        del error
        self._kept = []
