"""How a client that speaks ACP v1 is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1.models import (
    CancelledRequestPermissionOutcome,
    SelectedRequestPermissionOutcome,
)
from codex_acp.mapping.v1.permissions import permission_request
from codex_acp.routing.ledger import OutcomeCancelled, Selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.mapping.events.permissions import PermissionQuestion


class AsksInV1:
    """See `Asks`."""

    def __init__(self, side: AgentSide) -> None:
        self._side = side

    @property
    def next_request_id(self) -> int | None:
        """See `Asks`."""
        return self._side.next_request_id

    async def request_permission(
        self, question: PermissionQuestion, asked: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """See `Asks`. Asked once, by `next_request_id`."""
        del asked
        response = await self._side.session_request_permission(permission_request(question))
        outcome = response.outcome
        match outcome:
            case SelectedRequestPermissionOutcome():
                return Selected(outcome.option_id)
            case CancelledRequestPermissionOutcome():
                return OutcomeCancelled()
            case _:
                assert_never(outcome)

    async def elicitation_create(
        self, params: v1.CreateElicitationRequest, asked: Callable[[int | None], None] | None = None
    ) -> v1.CreateElicitationResponse:
        """See `Asks`."""
        del asked
        return await self._side.elicitation_create(params)

    def elicitation_complete(self, params: v1.CompleteElicitationNotification) -> None:
        """See `Asks`."""
        self._side.elicitation_complete(params)
