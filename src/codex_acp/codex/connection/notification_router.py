"""Route notifications to sinks: by thread, synchronously, in the order of the server.

Owns the table of sinks. Reads only a notification's thread, and whether the thread is unloaded.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from codex_acp._json import text_at
from codex_acp._record import NamedTuple

if TYPE_CHECKING:
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue

logger = logging.getLogger(__name__)


class NotificationSink(Protocol):
    """A receiver of notifications. No method may block; the router logs what a method raises.

    A class that inherits from this may leave out methods.
    """

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Take a notification, not yet decoded (`decode_notification` decodes it)."""

    def on_batch_end(self) -> None:
        """Note the end of a read that had a notification for this sink."""
        return

    def on_closed(self, error: TransportError | None) -> None:
        """Note, once, that the connection has ended; ``error`` is None if it ended cleanly."""
        del error


def is_unloaded(method: str, params: JsonValue) -> bool:
    """Return whether a notification reports that Codex unloaded the thread: no turn can begin."""
    return method == "thread/closed" or text_at(params, "status", "type") == "notLoaded"


def thread_of(params: JsonValue) -> str | None:
    """Return the thread id of params: ``threadId``, else ``thread.id``, else None."""
    thread_id = params.get("threadId") if type(params) is dict else None  # the usual case, fast
    return thread_id if isinstance(thread_id, str) else text_at(params, "thread", "id")


class _Subscription(NamedTuple):
    sink: NotificationSink
    methods: frozenset[str] | None
    """Methods that the sink gets; None for all."""


class NotificationRouter:
    """Gives each notification to the sinks of its thread, else to the sinks of thread None."""

    def __init__(self) -> None:
        # Replaced and never changed: a sink may subscribe or unsubscribe while it is called.
        self._by_thread: dict[str | None, tuple[_Subscription, ...]] = {}
        self._of_all: tuple[_Subscription, ...] = ()
        self._touched: dict[int, NotificationSink] = {}
        """Sinks that got a notification of this batch."""
        self._closed: tuple[TransportError | None] | None = None
        """The error with which the connection ended, in a tuple; None while it is open."""

    def subscribe(
        self, thread_id: str | None, sink: NotificationSink, methods: frozenset[str] | None = None
    ) -> None:
        """Add a sink, as `AppServerConnection.subscribe` does. Notifications of a thread with a
        sink never go to the sinks of thread None, even if the thread's sink does not get the
        method."""
        if self._closed is not None:
            self._close_sink(sink, self._closed[0])
            return
        subscriptions = self._by_thread.get(thread_id, ())
        self._by_thread[thread_id] = (*subscriptions, _Subscription(sink, methods))

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Remove a sink, if it is there; none of its methods is called any more."""
        others = tuple(s for s in self._by_thread.get(thread_id, ()) if s.sink is not sink)
        if others:
            self._by_thread[thread_id] = others
        else:
            self._by_thread.pop(thread_id, None)
        self._forget(sink)

    def subscribe_all(self, sink: NotificationSink, methods: frozenset[str] | None = None) -> None:
        """Add a sink that gets every notification, or those of ``methods``, before all others, so
        that a question is withdrawn before the end of its turn is shown."""
        if self._closed is not None:
            self._close_sink(sink, self._closed[0])
            return
        self._of_all = (*self._of_all, _Subscription(sink, methods))

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Remove a sink of `subscribe_all`, if it is there."""
        self._of_all = tuple(s for s in self._of_all if s.sink is not sink)
        self._forget(sink)

    def on_notification(self, method: str, params: JsonValue) -> None:
        of_thread = self._by_thread.get(thread_of(params)) or self._by_thread.get(None, ())
        for sink, methods in (*self._of_all, *of_thread):
            if methods is not None and method not in methods:
                continue
            self._touched[id(sink)] = sink
            try:
                sink.on_notification(method, params)
            except Exception:
                logger.exception("a sink failed at %s", method)

    def on_batch_end(self) -> None:
        """Call `on_batch_end` of the sinks that got a notification."""
        touched, self._touched = self._touched, {}
        for sink in touched.values():
            try:
                sink.on_batch_end()
            except Exception:
                logger.exception("a sink failed at the end of a batch")

    def on_closed(self, error: TransportError | None) -> None:
        """Call `on_closed` of each sink, once, and forget the sinks."""
        if self._closed is not None:
            return
        self._closed = (error,)
        sinks = self._all_sinks()
        self._by_thread, self._of_all, self._touched = {}, (), {}
        for sink in {id(sink): sink for sink in sinks}.values():
            self._close_sink(sink, error)

    def _all_sinks(self) -> list[NotificationSink]:
        threads = [s.sink for subscriptions in self._by_thread.values() for s in subscriptions]
        return [s.sink for s in self._of_all] + threads

    def _close_sink(self, sink: NotificationSink, error: TransportError | None) -> None:
        try:
            sink.on_closed(error)
        except Exception:
            logger.exception("a sink failed at the end of the connection")

    def _forget(self, sink: NotificationSink) -> None:
        if id(sink) in self._touched and all(s is not sink for s in self._all_sinks()):
            del self._touched[id(sink)]
