"""The client as one session sees it: its capabilities, its updates, its answers, and its requests.

On standard input and output, one `client.Client` serves all sessions. Over the network clients come
and go, and each session has a `network_session.NetworkSession` of its own. Importing this module
loads no version of ACP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.jsonrpc import JsonValue, RequestId
    from codex_acp.mapping.events import PermissionQuestion, SessionEvent
    from codex_acp.routing.ledger import OutcomeCancelled, Selected

    # One request in both versions of ACP. Code that gets it reads only the fields in common.
    NewSession = v1.NewSessionRequest | v2.NewSessionRequest
    ForkSession = v1.ForkSessionRequest | v2.ForkSessionRequest
    ResumeSession = v1.LoadSessionRequest | v1.ResumeSessionRequest | v2.ResumeSessionRequest
    ListSessions = v1.ListSessionsRequest | v2.ListSessionsRequest
    SetProvider = v1.SetProviderRequest | v2.SetProviderRequest

    Json = dict[str, JsonValue]
    """A result in plain JSON, from which each version of ACP makes its own model."""

    OnRequestId: TypeAlias = Callable[[int | None], None]
    """Called with the id of each request that is sent for a question; None: no client shows the
    session. Over the network a question may be asked again, on another connection."""


class SessionOutflow(Protocol):
    """The queue of a session's events to its client."""

    @property
    def client_gone(self) -> bool:
        """Whether the client has left for good."""

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """Call ``callback(True)`` when the queue is full, ``callback(False)`` when it has room."""

    def send(self, session_id: str, event: SessionEvent) -> None:
        """Send an event after all events that were sent before."""

    def flush(self) -> None:
        """Write all waiting events, because an answer follows them."""

    async def wait_drained(self) -> None:
        """Wait until a slow client has read most sent updates. Raises TransportError."""


class Questioner(Protocol):
    """Asks the person at the client. A method raises CodexAcpError if there is no answer."""

    @property
    def next_request_id(self) -> int | None:
        """The id of the next request to the client, for `withdraw`; None without a client."""

    async def request_permission(
        self, question: PermissionQuestion, on_request_id: OnRequestId
    ) -> Selected | OutcomeCancelled:
        """Ask whether one action may run, and return the outcome."""

    async def elicitation_create(
        self, params: dict[str, Any], on_request_id: OnRequestId | None = None
    ) -> dict[str, Any]:
        """Ask for input; return the answer as plain JSON, whose form no version of ACP changes."""

    def withdraw(self, request_id: RequestId | None) -> None:
        """Tell the client that its answer is no longer needed. Idempotent."""

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the page of an elicitation is no longer needed."""


class PromptSender(Protocol):
    """The client of one connection, which sent a prompt."""

    @property
    def gone(self) -> bool:
        """Whether the connection is closed."""

    @property
    def outflow(self) -> SessionOutflow:
        """The queue of updates to this client."""


class SessionClient(Protocol):
    """Capabilities, update queue and questions of the client that shows a session."""

    @property
    def owner(self) -> str | None:
        """The owner of the session over the network; None on standard input and output."""

    @property
    def client(self) -> PromptSender | None:
        """The client that shows the session now; None while no client shows the session."""

    @property
    def features(self) -> ClientFeatures:
        """The client's capabilities."""

    @property
    def outflow(self) -> SessionOutflow:
        """The queue of updates to the client."""

    @property
    def questioner(self) -> Questioner:
        """The sender of questions to the person."""

    async def await_prompt(
        self, prompt: Awaitable[PromptResult], sender: PromptSender | None
    ) -> PromptResult:
        """Await a prompt of ``sender``; report its end to a client that took the session over."""
