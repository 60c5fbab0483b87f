"""The transcript: takes events, gives them to whoever listens.

Owns the time of an event and the order of the listeners. Must not know what events mean or where
they end up. Recording never waits and never raises, so it cannot disturb a session.
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
    """The semantic log of one adapter or one program. To be used from one event loop's thread.

    ``clock`` gives seconds since the epoch. ``record_content`` keeps what people type into forms;
    tokens and keys are left out in any case, for every listener. ``record_wire`` keeps every
    message of both protocols too, and so the whole conversation.
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
        self._complained: set[Subscriber] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"Transcript(active={self.active})"

    @property
    def active(self) -> bool:
        """Return whether anybody listens, for callers that would build an event for nothing."""
        return bool(self._subscribers or self._streams)

    def record(self, event: TranscriptEvent) -> None:
        """Give ``event`` to all listeners; returns at once when there are none. Never raises."""
        if not (self._subscribers or self._streams):
            return
        from codex_acp.transcript.events import Entry
        from codex_acp.transcript.redaction import redacted  # its patterns cost milliseconds

        try:
            entry = Entry(
                utc_timestamp(self._clock()), redacted(event, content=self._record_content)
            )
        except Exception as error:  # noqa: BLE001 - whatever is in an event, the session goes on
            # Its text might quote the event.
            _log.error("the event %s was not recorded: %s", event.type, type(error).__name__)
            return
        for subscriber in self._subscribers:
            try:
                subscriber(entry)
            except Exception:  # noqa: BLE001 - a listener's mistake is not the session's
                if subscriber not in self._complained:
                    self._complained.add(subscriber)
                    _log.exception("a subscriber of the transcript failed; told only once")
        for stream in self._streams:
            stream.put(entry)

    def tap(self, peer: WirePeer) -> Callable[[WireDirection, bytes], None] | None:
        """Return a function for each line of a new connection to ``peer``; None: no wire is
        recorded."""
        if not self._record_wire:
            return None
        from codex_acp.transcript.redaction import WireTaps

        if self._taps is None:
            self._taps = WireTaps(self.record, keep_typed=self._record_content)
        tap = self._taps.new(peer)

        def record_line(direction: WireDirection, line: bytes) -> None:
            try:
                tap(direction, line)
            except Exception as error:  # noqa: BLE001 - whatever a peer sends, the connection goes on
                _log.error("a message of the wire was not recorded: %s", type(error).__name__)

        return record_line

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with every entry from now on; what is returned ends that.

        What it raises is logged once. After `close` nothing comes.
        """
        if not self._closed:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)
            self._complained.discard(subscriber)

        return unsubscribe

    def events(self, limit: int | None = None) -> EntryStream:
        """Return an async iterator over all entries from now on.

        At most ``limit`` entries wait for a slow reader (1024 if not given); then the oldest are
        dropped, and a `Dropped` with their number comes in their place. Raises MisuseError for a
        limit below 1.
        """
        from codex_acp.transcript.stream import DEFAULT_LIMIT, EntryStream

        stream = EntryStream(DEFAULT_LIMIT if limit is None else limit, self._forget)
        if self._closed:
            stream.end()
        else:
            self._streams = (*self._streams, stream)
        return stream

    def close(self) -> None:
        """Let go of all listeners; iterators end after what waits. Again is fine."""
        self._closed = True
        streams, self._streams, self._subscribers = self._streams, (), ()
        self._complained.clear()
        for stream in streams:
            stream.end()

    def _forget(self, stream: EntryStream) -> None:
        self._streams = tuple(s for s in self._streams if s is not stream)


def utc_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch as UTC in ISO 8601 with milliseconds."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
