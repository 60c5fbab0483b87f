"""Describes the client of a session: one ACP client, or what stands for several.

Where one client has one agent, on standard input and output, it is that `Client` for every session.
Where clients come and go, each session has an audience of its own, see `adapter.network`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.jsonrpc.message import RequestId
    from codex_acp.mapping.events.permissions import PermissionQuestion
    from codex_acp.mapping.events.session_events import SessionEvent
    from codex_acp.routing.ledger import OutcomeCancelled, Selected


class Outgoing(Protocol):
    """The way of events to whoever hears of a session; see `Outflow`."""

    @property
    def client_gone(self) -> bool:
        """Whether nothing that is sent arrives any more, now or later."""

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """``callback(True)`` when no more should come, ``callback(False)`` when it may again."""

    def send(self, session_id: str, event: SessionEvent) -> None:
        """Send an event behind all that was sent before."""

    def flush(self) -> None:
        """Write everything that waits: an answer follows it."""

    async def drained(self) -> None:
        """Wait until a client that lags has taken most of what was sent. Raises TransportError."""


class Asks(Protocol):
    """Whoever can be asked something of a person. What these raise is a CodexAcpError.

    ``asked`` is told the id of each request by which it is asked, where that may be several.
    """

    @property
    def next_request_id(self) -> int | None:
        """The id that the next question will have; None while nobody is there to be asked."""

    async def request_permission(
        self, question: PermissionQuestion, asked: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """Ask whether one action may run."""

    async def elicitation_create(
        self, params: dict[str, Any], asked: Callable[[int | None], None] | None = None
    ) -> dict[str, Any]:
        """Ask for input; both versions of ACP write the question and the answer alike."""

    def withdraw(self, request_id: RequestId | None) -> None:
        """Tell at once that nobody waits for the answer to a request; again is fine."""

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell that what a page was opened for is done."""


class Audience(Protocol):
    """All of it, for one session or for all."""

    @property
    def features(self) -> ClientFeatures:
        """Return the client's capabilities."""

    @property
    def outflow(self) -> Outgoing:
        """The way of events."""

    @property
    def asks(self) -> Asks:
        """Whom to ask."""
