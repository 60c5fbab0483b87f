"""Whoever takes what a `Connection` receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import Notification, Request
    from codex_acp.transport.responder import Responder


class Handler(Protocol):
    """Whoever is told what the peer sends. All synchronous; must not block."""

    def on_request(self, request: Request, responder: Responder) -> None:
        """Answer through ``responder``, now or later; exactly once."""

    def on_request_again(self, request: Request) -> None:
        """A request came whose id is still open; only with ``peer_resends``. Not to be answered:
        what answers the open one answers this one, too."""

    def on_notification(self, notification: Notification) -> None:
        """Take a notification."""

    def on_batch_end(self) -> None:
        """All messages of one read were delivered."""

    def on_closed(self, error: TransportError | None) -> None:
        """Nothing more will come, said once; None if the peer or this side ended it cleanly."""
