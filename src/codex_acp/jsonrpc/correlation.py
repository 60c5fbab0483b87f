"""Keep the open requests of both directions, as plain values.

Owns the ids. Must not know how messages are sent, what a waiter is, or the name of any method.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

from codex_acp._last_ones import LastOnes
from codex_acp.jsonrpc.message import Notification, RequestId

MAX_OPEN_REQUESTS: Final = 4096
"""Requests of one peer that may be open at once: even a short one takes kilobytes."""

_ABANDONED_REMEMBERED: Final = 4096
"""Abandoned ids that are kept for their late answers; the oldest are forgotten first."""

W = TypeVar("W")


class Stray(Enum):
    """Why a response belongs to no open request."""

    ABANDONED = "abandoned"
    """The caller gave the request up; the late answer is dropped silently."""
    UNKNOWN = "unknown"
    """No request has this id, or the peer answered it before: the peer's mistake."""


class OutgoingCalls(Generic[W]):
    """Requests that were sent and not answered, each with a waiter, ``W``. Ids count from 0.
    ``cancel_method`` is the notification that gives a request up; None if the protocol has none."""

    def __init__(self, cancel_method: str | None = None) -> None:
        self._cancel_method = cancel_method
        self.next_id: int = 0
        self._waiters: dict[int, W] = {}
        self._abandoned: LastOnes[int, tuple[W] | None] = LastOnes(_ABANDONED_REMEMBERED)
        """Abandoned id → its waiter in a tuple, if the waiter gets a late answer; else None."""

    def __len__(self) -> int:
        return len(self._waiters)

    def open(self, waiter: W) -> int:
        """Allocate the id of a new request."""
        request_id = self.next_id
        self.next_id += 1
        self._waiters[request_id] = waiter
        return request_id

    def settle(self, request_id: RequestId) -> W | Stray:
        """Return the waiter of an answered request and forget it, or why there is no waiter."""
        if type(request_id) is not int:
            return Stray.UNKNOWN
        if request_id in self._waiters:
            return self._waiters.pop(request_id)
        if request_id in self._abandoned:
            kept = self._abandoned.pop(request_id)
            return Stray.ABANDONED if kept is None else kept[0]
        return Stray.UNKNOWN

    def abandon(self, request_id: int, *, keep: bool = False) -> Notification | None:
        """Give a request up; return the notification for the peer, if there is one. ``keep``: the
        waiter still gets a late answer, and the peer is not notified."""
        if type(request_id) is not int or request_id not in self._waiters:
            return None
        waiter = self._waiters.pop(request_id)
        self._abandoned[request_id] = (waiter,) if keep else None
        if keep or self._cancel_method is None:
            return None
        return Notification(self._cancel_method, {"requestId": request_id})

    def close(self) -> list[W]:
        """Forget all waiters and return them, oldest first."""
        waiters = list(self._waiters.values())
        self._waiters.clear()
        self._abandoned.clear()
        return waiters


class IncomingRequests:
    """Requests that were received and not answered, by id and method."""

    def __init__(self) -> None:
        self._open: dict[tuple[type, RequestId], str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, request_id: RequestId, method: str) -> str | None:
        """Note a request; return None if its id is free, else the method that is open under it."""
        key = (type(request_id), request_id)
        method_open = self._open.get(key)
        if method_open is None:
            self._open[key] = method
        return method_open

    def settle(self, request_id: RequestId) -> bool:
        """Note that a request is answered; return True the first time, False if it was not open."""
        return self._open.pop((type(request_id), request_id), None) is not None

    def close(self) -> None:
        self._open.clear()
