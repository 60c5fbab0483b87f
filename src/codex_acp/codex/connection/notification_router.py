"""Who hears which notification: by thread, synchronously, in the order of the server.

Owns the table of sinks. Must not know what a notification means; reads only its thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["NotificationRouter", "NotificationSink", "thread_of"]

logger = logging.getLogger(__name__)


class NotificationSink(Protocol):
    """Hears notifications as they are read. Nothing here may block; what it raises is logged."""

    def on_notification(self, method: str, params: JsonValue) -> None:
        """A notification, undecoded: see `decode_notification`."""

    def on_batch_end(self) -> None:
        """All that came in one read was delivered; said only if some of it was for this sink."""

    def on_closed(self, error: TransportError | None) -> None:
        """Nothing more will come, said once; None if the connection ended cleanly."""


def thread_of(params: JsonValue) -> str | None:
    """The thread that a notification is about: ``threadId``, else ``thread.id``, else none."""
    if type(params) is not dict:
        return None
    thread_id = params.get("threadId")
    if type(thread_id) is str:
        return thread_id
    thread = params.get("thread")
    if type(thread) is dict:
        thread_id = thread.get("id")
        if type(thread_id) is str:
            return thread_id
    return None


class NotificationRouter:
    """Gives each notification to the sinks of its thread, or to the sinks of the rest."""

    def __init__(self) -> None:
        # Tuples, replaced and never changed: a sink may subscribe or leave while it is called.
        self._by_thread: dict[str | None, tuple[NotificationSink, ...]] = {}
        self._of_all: tuple[NotificationSink, ...] = ()
        self._touched: dict[int, NotificationSink] = {}
        self._closed: tuple[TransportError | None] | None = None

    def subscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Add a sink for a thread; for None, of all that no thread's sink gets.

        If the connection has ended, the sink hears that at once and is not added.
        """
        if self._closed is not None:
            self._tell_closed(sink, self._closed[0])
            return
        self._by_thread[thread_id] = (*self._by_thread.get(thread_id, ()), sink)

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Remove the sink, which hears nothing more, not even the end; none is fine."""
        left = tuple(s for s in self._by_thread.get(thread_id, ()) if s is not sink)
        if left:
            self._by_thread[thread_id] = left
        else:
            self._by_thread.pop(thread_id, None)
        self._forget(sink)

    def subscribe_all(self, sink: NotificationSink) -> None:
        """Add a sink that gets every notification, besides whoever else gets it."""
        if self._closed is not None:
            self._tell_closed(sink, self._closed[0])
            return
        self._of_all = (*self._of_all, sink)

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Remove a sink of `subscribe_all`; none is fine."""
        self._of_all = tuple(s for s in self._of_all if s is not sink)
        self._forget(sink)

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Deliver one notification."""
        sinks = self._by_thread.get(thread_of(params)) or self._by_thread.get(None, ())
        for sink in (*sinks, *self._of_all) if self._of_all else sinks:
            self._touched[id(sink)] = sink
            try:
                sink.on_notification(method, params)
            except Exception:
                logger.exception("a sink failed at %s", method)

    def on_batch_end(self) -> None:
        """Tell the sinks that got something."""
        touched, self._touched = self._touched, {}
        for sink in touched.values():
            try:
                sink.on_batch_end()
            except Exception:
                logger.exception("a sink failed at the end of a batch")

    def on_closed(self, error: TransportError | None) -> None:
        """Tell every sink, once, and let go of them."""
        if self._closed is not None:
            return
        self._closed = (error,)
        everyone = [s for sinks in self._by_thread.values() for s in sinks] + [*self._of_all]
        self._by_thread, self._of_all, self._touched = {}, (), {}
        for sink in {id(s): s for s in everyone}.values():
            self._tell_closed(sink, error)

    def _tell_closed(self, sink: NotificationSink, error: TransportError | None) -> None:
        try:
            sink.on_closed(error)
        except Exception:
            logger.exception("a sink failed at the end of the connection")

    def _forget(self, sink: NotificationSink) -> None:
        if id(sink) not in self._touched:
            return
        still = any(s is sink for sinks in self._by_thread.values() for s in sinks)
        if not still and all(s is not sink for s in self._of_all):
            self._touched.pop(id(sink), None)
