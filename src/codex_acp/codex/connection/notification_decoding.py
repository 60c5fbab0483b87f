"""Decode notifications of the app-server to typed events.

Owns the decoding of one notification, and the count of unreadable ones. Never raises for what the
server sent: a notification outside of the schema becomes an `UnknownNotification`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES, UnknownNotification
from codex_acp.codex._generated.version import SCHEMA_VERSION
from codex_acp.codex.connection.server_requests import count_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.server_requests import UnknownParts
    from codex_acp.jsonrpc import JsonValue

logger = logging.getLogger(__name__)

_decoders: dict[str, tuple[Callable[[object], Any], Callable[[Any], ServerNotification]]] = {}
"""Method → decoder of its params, and class of its event."""


def decode_notification(method: str, params: JsonValue) -> ServerNotification:
    """Return the typed event of a notification.

    A method that the schema does not know gives an `UnknownNotification` with the raw params;
    params that do not fit the schema give one whose ``problem`` names the fields.
    """
    try:
        decode, make = _decoders[method]
    except KeyError:
        if method not in SERVER_NOTIFICATIONS:
            return UnknownNotification(params, method)
        name = SERVER_NOTIFICATIONS[method].params
        decode = (lambda value: value) if name is None else MODELS.decoder(name)
        make = NOTIFICATION_CLASSES[method]
        _decoders[method] = decode, make
    try:
        model = decode({} if params is None else params)
    except ValueError as error:  # the base class of ValidationError, which loads late
        from pydantic_core import ValidationError

        from codex_acp.wire.codec import problems_of

        if not isinstance(error, ValidationError):
            raise
        return UnknownNotification(params, method, "; ".join(problems_of(error, params)))
    return make(model)


class NotificationDecoder:
    """Decodes the notifications of one connection, and counts the unreadable ones.

    Each kind (an unknown method, or a method with a certain problem) is logged once. ``unknown``
    counts the unknown parts of readable notifications.
    """

    def __init__(self, unknown: UnknownParts | None = None) -> None:
        self.unreadable: Counter[str] = Counter()
        """Kind (the method, with the problem if there is one) → count."""
        self._unknown = unknown
        self.last: tuple[str, JsonValue, ServerNotification] | None = None
        """Method, params and event of the last notification, until `forget`."""

    def __repr__(self) -> str:
        return f"NotificationDecoder(unreadable={self.unreadable.total()})"

    def decode(self, method: str, params: JsonValue) -> ServerNotification:
        """Decode a notification once for all sinks, which must not change the event."""
        last = self.last
        if last is not None and last[0] == method and params is not None and last[1] is params:
            return last[2]
        event = decode_notification(method, params)
        self.last = (method, params, event)
        if type(event) is UnknownNotification:
            self._count(event)
        elif self._unknown is not None:
            self._unknown.examine(event.params)
        return event

    def forget(self) -> None:
        """Forget the last event, which may be large, when all sinks have had it."""
        self.last = None

    def _count(self, event: UnknownNotification) -> None:
        kind = event.method if event.problem is None else f"{event.method}: {event.problem}"
        if not count_kind(self.unreadable, kind):
            return
        fault = f"schema {SCHEMA_VERSION} does not know"
        if event.problem is not None:
            fault = f"does not fit schema {SCHEMA_VERSION}: {event.problem}"
        logger.warning("the app-server sent %s, which %s", event.method, fault)
