"""How a program hears the app-server's notifications: by thread, typed, no faster than it can take.

Owns the part of `CodexClient` for that. Must not know the connection, nor what an event means.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.notification_decoding import NotificationDecoder
    from codex_acp.codex.connection.notification_router import NotificationRouter, NotificationSink
    from codex_acp.codex.connection.unknown_parts import UnknownParts
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.transport.reading_gate import ReadingGate


class NotificationApi:
    """The side of `CodexClient` that hears; of no use by itself."""

    _router: NotificationRouter
    _gate: ReadingGate
    _unknown: UnknownParts
    _decoder: NotificationDecoder | None = None

    def subscribe(
        self, thread_id: str | None, sink: NotificationSink, methods: frozenset[str] | None = None
    ) -> None:
        """Give ``sink`` the notifications of a thread, or only those of ``methods``.

        For None, of all that no thread's sink gets: those without a thread, and those of a thread
        that nobody subscribed to, such as a sub-agent's. Several sinks may share a thread. If the
        connection has ended, the sink hears `on_closed` at once.
        """
        self._router.subscribe(thread_id, sink, methods)

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Undo `subscribe`: the sink hears nothing more, not even the end."""
        self._router.unsubscribe(thread_id, sink)

    def subscribe_all(self, sink: NotificationSink, methods: frozenset[str] | None = None) -> None:
        """Give ``sink`` every notification, or those of ``methods``, besides who else gets it."""
        self._router.subscribe_all(sink, methods)

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Undo `subscribe_all`."""
        self._router.unsubscribe_all(sink)

    def decode_notification(self, method: str, params: JsonValue) -> ServerNotification:
        """The typed event; what cannot be read is counted and logged once for each kind."""
        if self._decoder is None:
            from codex_acp.codex.connection.notification_decoding import NotificationDecoder

            self._decoder = NotificationDecoder(self._unknown)
        return self._decoder.decode(method, params)

    @property
    def unknown(self) -> dict[str, int]:
        """How often each thing came that the schema does not know, or that could not be read.

        Methods, fields, values and union members; each kind was logged once.
        """
        unreadable = {} if self._decoder is None else self._decoder.unreadable
        return {**unreadable, **self._unknown.counts}

    def pause_reading(self, holder: object) -> None:
        """Read no more until ``holder`` calls `resume_reading`, except while a call is in flight.

        The server's requests wait, too: hold it only for a sink that is really full.
        """
        self._gate.hold(holder)

    def resume_reading(self, holder: object) -> None:
        """Undo `pause_reading`; without it, this does nothing."""
        self._gate.release(holder)
