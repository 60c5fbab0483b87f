"""Routes notifications to sinks: by thread, synchronously, in the order of the server.

Owns the table of sinks. Must not know what a notification means; reads only its thread, and
whether that is gone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from codex_acp._json import text_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)


class NotificationSink(Protocol):
    """Hears notifications as they are read. Nothing here may block; what it raises is logged.

    A class that inherits from this need not have what it has no use for.
    """

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Called with each notification, undecoded (`decode_notification` reads it)."""

    def on_batch_end(self) -> None:
        """Called after each read that had something for this sink."""
        return

    def on_closed(self, error: TransportError | None) -> None:
        """Called once when nothing more will come; None if the connection ended cleanly."""
        del error


def is_unloaded(method: str, params: JsonValue) -> bool:
    """Whether a notification says that Codex has let go of its thread: no turn can begin there."""
    return method == "thread/closed" or text_at(params, "status", "type") == "notLoaded"


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


class _Subscription(NamedTuple):
    sink: NotificationSink
    methods: frozenset[str] | None
    """Methods that the sink hears; None: all."""

    @property
    def ends(self) -> bool:
        """Whether the end of a batch is anything to it."""
        return type(self.sink).on_batch_end is not NotificationSink.on_batch_end


class _Listeners:
    """Sinks of one thread by method; made anew whenever a sink comes or goes."""

    __slots__ = ("by_method", "others")

    def __init__(self, subscriptions: Iterable[_Subscription]) -> None:
        all_of_them = tuple(subscriptions)
        named = frozenset[str]().union(*(s.methods for s in all_of_them if s.methods is not None))
        self.others = tuple((s.sink, s.ends) for s in all_of_them if s.methods is None)
        """The sinks that want every method, in the order in which they came; see `ends`."""
        self.by_method = {
            method: tuple(
                (s.sink, s.ends) for s in all_of_them if s.methods is None or method in s.methods
            )
            for method in named
        }
        """The same, with those besides that want this one."""


class NotificationRouter:
    """Gives each notification to the sinks of its thread, or to the sinks of the rest."""

    def __init__(self) -> None:
        # Replaced and never changed: a sink may subscribe or leave while it is called.
        self._by_thread: dict[str | None, tuple[_Subscription, ...]] = {}
        self._of_all: tuple[_Subscription, ...] = ()
        self._listeners: dict[str | None, _Listeners] = {}
        self._touched: dict[int, NotificationSink] = {}
        self._closed: tuple[TransportError | None] | None = None

    def subscribe(
        self,
        thread_id: str | None,
        sink: NotificationSink,
        methods: frozenset[str] | None = None,
    ) -> None:
        """Add a sink, as `AppServerConnection.subscribe` says.

        A notification that a thread's sink does not want goes to nobody else for that.
        """
        if self._closed is not None:
            self._tell_closed(sink, self._closed[0])
            return
        subscriptions = self._by_thread.get(thread_id, ())
        self._by_thread[thread_id] = (*subscriptions, _Subscription(sink, methods))
        self._listeners.pop(thread_id, None)

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Remove the sink, which hears nothing more, not even the end; none is fine."""
        left = tuple(s for s in self._by_thread.get(thread_id, ()) if s.sink is not sink)
        if left:
            self._by_thread[thread_id] = left
        else:
            self._by_thread.pop(thread_id, None)
        self._listeners.pop(thread_id, None)
        self._forget(sink)

    def subscribe_all(self, sink: NotificationSink, methods: frozenset[str] | None = None) -> None:
        """Add a sink that gets every notification, or those of ``methods``, before all others: a
        question is withdrawn before the end of its turn is shown."""
        if self._closed is not None:
            self._tell_closed(sink, self._closed[0])
            return
        self._of_all = (*self._of_all, _Subscription(sink, methods))
        self._listeners = {}

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Remove a sink of `subscribe_all`; none is fine."""
        self._of_all = tuple(s for s in self._of_all if s.sink is not sink)
        self._listeners = {}
        self._forget(sink)

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Deliver one notification."""
        thread_id = params.get("threadId") if type(params) is dict else None
        if type(thread_id) is not str:
            thread_id = thread_of(params)
        listeners = self._listeners.get(thread_id) or self._listeners_of(thread_id)
        for sink, ends in listeners.by_method.get(method, listeners.others):
            if ends:
                self._touched[id(sink)] = sink
            try:
                sink.on_notification(method, params)
            except Exception:
                logger.exception("a sink failed at %s", method)

    def _listeners_of(self, thread_id: str | None) -> _Listeners:
        """Return the listeners of a thread that has a sink, else those of the rest."""
        if thread_id not in self._by_thread:
            thread_id = None
        found = self._listeners.get(thread_id)
        if found is None:
            subscriptions = (*self._of_all, *self._by_thread.get(thread_id, ()))
            found = self._listeners[thread_id] = _Listeners(subscriptions)
        return found

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
        everyone = self._everyone()
        self._by_thread, self._of_all, self._listeners, self._touched = {}, (), {}, {}
        for sink in {id(sink): sink for sink in everyone}.values():
            self._tell_closed(sink, error)

    def _everyone(self) -> list[NotificationSink]:
        threads = [s.sink for subscriptions in self._by_thread.values() for s in subscriptions]
        return [s.sink for s in self._of_all] + threads

    def _tell_closed(self, sink: NotificationSink, error: TransportError | None) -> None:
        try:
            sink.on_closed(error)
        except Exception:
            logger.exception("a sink failed at the end of the connection")

    def _forget(self, sink: NotificationSink) -> None:
        if id(sink) in self._touched and all(s is not sink for s in self._everyone()):
            del self._touched[id(sink)]
