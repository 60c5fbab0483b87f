"""Keep the open requests of this side, by their ids.

Must not know how messages are sent, what a waiter is, or the name of any method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from codex_acp._last_ones import LastOnes

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import RequestId

_ABANDONED_REMEMBERED: Final = 4096
"""Abandoned ids that are kept for their late answers; the oldest are forgotten first."""

W = TypeVar("W")


class OutgoingCalls(Generic[W]):
    """Requests that were sent and not answered, each with a waiter, ``W``, which is not None. Ids
    count from 0."""

    def __init__(self) -> None:
        self.next_id: int = 0
        self._waiters: dict[int, W] = {}
        self._abandoned: LastOnes[int, W | None] = LastOnes(_ABANDONED_REMEMBERED)
        """Abandoned id → its waiter, if the waiter gets a late answer; else None."""

    def open(self, waiter: W) -> int:
        """Allocate the id of a new request."""
        request_id = self.next_id
        self.next_id += 1
        self._waiters[request_id] = waiter
        return request_id

    def settle(self, request_id: RequestId) -> W | None:
        """Return the waiter of an answered request and forget it; None if the request was abandoned
        and its late answer is to be dropped. Raises KeyError if no request has this id, or the peer
        has answered it before."""
        if type(request_id) is not int:
            raise KeyError(request_id)
        if request_id in self._waiters:
            return self._waiters.pop(request_id)
        return self._abandoned.pop(request_id)

    def abandon(self, request_id: int, *, keep: bool = False) -> bool:
        """Give a request up; return whether it was open. With ``keep``, its waiter still gets a
        late answer."""
        if request_id not in self._waiters:
            return False
        waiter = self._waiters.pop(request_id)
        self._abandoned[request_id] = waiter if keep else None
        return True

    def close(self) -> list[W]:
        """Forget all waiters and return them, oldest first."""
        waiters = list(self._waiters.values())
        self._waiters.clear()
        self._abandoned.clear()
        return waiters
