"""Record events and give them to the listeners of a transcript.

Must not know the meaning of events or what listeners do with them. Recording never waits and never
raises, so that it cannot disturb a session.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.transcript.events import (
        Entry,
        Timestamp,
        TranscriptEvent,
        WireDirection,
        WirePeer,
    )
    from codex_acp.transcript.redaction import WireTaps
    from codex_acp.transcript.stream import EntryStream

_log = logging.getLogger(__name__)

Subscriber: TypeAlias = "Callable[[Entry], None]"
"""Called with each entry, at once and in order. It must not block."""


class Transcript:
    """The log of one adapter or one program. Use it only in the thread of the event loop.

    ``clock`` returns seconds since the epoch. ``record_content`` keeps the values that people type
    into forms; tokens and keys are removed in any case, for every listener. ``record_wire`` records
    every message of both protocols, and so the whole conversation.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        record_content: bool = False,
        record_wire: bool = False,
    ) -> None:
        self._clock = clock
        self._record_content = record_content
        self._record_wire = record_wire
        self._taps: WireTaps | None = None
        self._subscribers: tuple[Subscriber, ...] = ()
        self._streams: tuple[EntryStream, ...] = ()
        self._failed: set[Subscriber] = set()
        """Subscribers that have raised an exception, which is logged once."""
        self._closed = False

    def __repr__(self) -> str:
        return f"Transcript(active={self.active})"

    @property
    def active(self) -> bool:
        """Return whether there are listeners. Without listeners, no caller need make an event."""
        return bool(self._subscribers or self._streams)

    def record(self, event: TranscriptEvent) -> None:
        """Give ``event`` to all listeners; return at once if there are none. Never raises."""
        if not self.active:
            return
        from codex_acp.transcript.events import Entry
        from codex_acp.transcript.redaction import redacted  # its patterns cost milliseconds

        try:
            entry = Entry(
                utc_timestamp(self._clock()), redacted(event, content=self._record_content)
            )
        except Exception as error:  # noqa: BLE001 - no event may end the session
            # Without the text of the error, which might quote the event.
            _log.error("the event %s was not recorded: %s", event.type, type(error).__name__)
            return
        for subscriber in self._subscribers:
            try:
                subscriber(entry)
            except Exception:  # noqa: BLE001 - no listener may end the session
                if subscriber not in self._failed:
                    self._failed.add(subscriber)
                    _log.exception("a subscriber of the transcript failed; told only once")
        for stream in self._streams:
            stream.put(entry)

    def tap(self, peer: WirePeer) -> Callable[[WireDirection, bytes], None] | None:
        """Return a function that never raises, to call with each line of a new connection to
        ``peer``. Return None without ``record_wire``."""
        if not self._record_wire:
            return None
        from codex_acp.transcript.redaction import WireTaps

        if self._taps is None:
            self._taps = WireTaps(self.record, keep_typed=self._record_content)
        tap = self._taps.new(peer)

        def record_line(direction: WireDirection, line: bytes) -> None:
            try:
                tap(direction, line)
            except Exception as error:  # noqa: BLE001 - no message may end the connection
                _log.error("a message of the wire was not recorded: %s", type(error).__name__)

        return record_line

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with every entry until `close`, or until the returned function is
        called. The first exception of a subscriber is logged."""
        if not self._closed:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)
            self._failed.discard(subscriber)

        return unsubscribe

    def events(self, limit: int | None = None) -> EntryStream:
        """Return an async iterator over all entries from now on. At most ``limit`` entries (1024 if
        not given) wait for a slow reader. Then the oldest entries are dropped, and the reader gets
        a `Dropped` with their number. Raises MisuseError for a limit below 1."""
        from codex_acp.transcript.stream import DEFAULT_LIMIT, EntryStream

        stream = EntryStream(DEFAULT_LIMIT if limit is None else limit, self._forget)
        if self._closed:
            stream.end()
        else:
            self._streams = (*self._streams, stream)
        return stream

    def close(self) -> None:
        """Remove all listeners; iterators end after the waiting entries. Idempotent."""
        self._closed = True
        streams, self._streams, self._subscribers = self._streams, (), ()
        self._failed.clear()
        for stream in streams:
            stream.end()

    def _forget(self, stream: EntryStream) -> None:
        self._streams = tuple(s for s in self._streams if s is not stream)


def utc_timestamp(seconds: float) -> Timestamp:
    """Format seconds since the epoch as UTC in ISO 8601 with milliseconds."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
