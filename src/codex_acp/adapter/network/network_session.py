"""One session for clients that come and go: who hears of it now, and who answers for it.

It is the session's `Audience`: what the adapter sends goes to the connection that shows the session
at the time, and so does what it asks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codex_acp.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v1.models import (
        CompleteElicitationNotification,
        CreateElicitationRequest,
        CreateElicitationResponse,
        PromptResponse,
    )
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.client import Client
    from codex_acp.mapping.events.permissions import PermissionQuestion
    from codex_acp.mapping.events.session_events import SessionEvent
    from codex_acp.routing.ledger import OutcomeCancelled, Selected

__all__ = ["NetworkSession"]


class NetworkSession:
    """A session of ``owner`` on ``agent``, shown to ``client``."""

    def __init__(self, owner: str, agent: CodexAgent, client: Client) -> None:
        self.owner = owner
        self.agent = agent
        self.client: Client | None = client
        """The connection that shows it; None: nobody does."""
        self._last = client
        self._prompts: set[asyncio.Task[PromptResponse]] = set()

    # Audience

    @property
    def features(self) -> ClientFeatures:
        """What the client can do that shows it, or showed it last."""
        return self._last.features

    @property
    def takes_booleans(self) -> bool:
        """See `Audience`."""
        return self._last.takes_booleans

    @property
    def outflow(self) -> NetworkSession:
        """This one."""
        return self

    @property
    def asks(self) -> NetworkSession:
        """This one."""
        return self

    # Outgoing

    @property
    def client_gone(self) -> bool:
        """See `Outgoing`: whether nobody will ever hear of it again."""
        return self.client is None

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """Never: a client that does not read holds up no Codex, which others use as well."""

    def send(self, session_id: str, event: SessionEvent) -> None:
        """See `Outgoing`."""
        if self.client is not None:
            self.client.outflow.send(session_id, event)

    def flush(self) -> None:
        """See `Outgoing`."""
        if self.client is not None:
            self.client.outflow.flush()

    async def drained(self) -> None:
        """See `Outgoing`."""
        if self.client is not None:
            await self.client.outflow.drained()

    # Asks

    @property
    def next_request_id(self) -> int | None:
        """See `Asks`."""
        return None if self.client is None else self.client.asks.next_request_id

    async def request_permission(self, question: PermissionQuestion) -> Selected | OutcomeCancelled:
        """See `Asks`."""
        return await self._shown().asks.request_permission(question)

    async def elicitation_create(
        self, params: CreateElicitationRequest
    ) -> CreateElicitationResponse:
        """See `Asks`."""
        return await self._shown().asks.elicitation_create(params)

    def elicitation_complete(self, params: CompleteElicitationNotification) -> None:
        """See `Asks`."""
        if self.client is not None:
            self.client.asks.elicitation_complete(params)

    def _shown(self) -> Client:
        if self.client is None:
            msg = "nobody shows this session any more"
            raise ConnectionClosed(msg)
        return self.client

    # What its connection does.

    async def prompt(
        self, client: Client, run: Callable[[], Awaitable[PromptResponse]]
    ) -> PromptResponse:
        """Run a prompt for ``client``; it goes on if that connection ends, and not if it is given
        up.
        """
        task = asyncio.ensure_future(run())
        self._prompts.add(task)
        task.add_done_callback(self._prompts.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not client.gone:
                task.cancel()
                await asyncio.wait({task})
            raise

    def left(self, client: Client) -> bool:
        """A connection has ended; whether it was the one that showed the session."""
        if self.client is not client:
            return False
        self.client = None
        return True
