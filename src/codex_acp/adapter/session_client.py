"""The client as a session sees it: capabilities, updates, questions to its person, and requests.

On standard input and output there is one client, and its `Client` serves every session. Over the
network clients come and go, and each session has a `NetworkSession` of its own. Nothing of a
version of ACP is loaded by who imports these types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.jsonrpc.message import JsonValue, RequestId
    from codex_acp.mapping.events import PermissionQuestion, SessionEvent
    from codex_acp.routing.ledger import OutcomeCancelled, Selected

    # Requests in the words of either version, read by the fields that both have.
    NewSession = v1.NewSessionRequest | v2.NewSessionRequest
    ForkSession = v1.ForkSessionRequest | v2.ForkSessionRequest
    ResumeSession = v1.LoadSessionRequest | v1.ResumeSessionRequest | v2.ResumeSessionRequest
    ListSessions = v1.ListSessionsRequest | v2.ListSessionsRequest
    SetProvider = v1.SetProviderRequest | v2.SetProviderRequest
    DisableProvider = v1.DisableProviderRequest | v2.DisableProviderRequest
    SetTitle = v1.SetSessionTitleRequest | v2.SetSessionTitleRequest

    Json = dict[str, JsonValue]
    """An answer, which each version makes its own model of."""


class Outgoing(Protocol):
    """Sends the events of a session to its client, as `Outflow` does."""

    @property
    def client_gone(self) -> bool:
        """Return whether the client is gone for good: nothing that is sent arrives any more."""

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """Call ``callback(True)`` when the queue is full, ``callback(False)`` when it has room."""

    def send(self, session_id: str, event: SessionEvent) -> None:
        """Send an event after all events that were sent before."""

    def flush(self) -> None:
        """Write all waiting events, because an answer follows them."""

    async def drained(self) -> None:
        """Wait until a slow client has read most of what was sent. Raises TransportError."""


class Asks(Protocol):
    """Asks the person at the client. Each method raises CodexAcpError if there is no answer.

    ``on_request_id`` is called with the id of each request that is sent for the question.
    """

    @property
    def next_request_id(self) -> int | None:
        """Return the id of the next request; None while no client is connected."""

    async def request_permission(
        self, question: PermissionQuestion, on_request_id: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """Ask whether one action may run, and return the outcome."""

    async def elicitation_create(
        self, params: dict[str, Any], on_request_id: Callable[[int | None], None] | None = None
    ) -> dict[str, Any]:
        """Ask for input, and return the answer, which both versions of ACP write alike."""

    def withdraw(self, request_id: RequestId | None) -> None:
        """Tell the client that nobody waits for its answer any more. Idempotent."""

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the page of an elicitation has done its work."""


class SessionClient(Protocol):
    """Capabilities, update queue and questions of the client that shows a session."""

    @property
    def features(self) -> ClientFeatures:
        """Return the client's capabilities."""

    @property
    def outflow(self) -> Outgoing:
        """Return the queue of updates to the client."""

    @property
    def asks(self) -> Asks:
        """Return where to send questions to the person."""
