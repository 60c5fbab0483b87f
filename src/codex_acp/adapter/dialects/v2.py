"""How a client that speaks ACP v2 is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp._generated.v2.models import (
    CancelledRequestPermissionOutcome,
    CompleteElicitationNotification,
    SelectedRequestPermissionOutcome,
)
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.v2.permissions import permission_request
from codex_acp.routing.ledger import OutcomeCancelled, Selected
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.mapping.events.permissions import PermissionQuestion


class AsksInV2:
    """See `Asks`. Elicitations are written alike in both versions."""

    def __init__(self, side: AgentSide) -> None:
        self._side = side

    @property
    def next_request_id(self) -> int | None:
        """See `Asks`."""
        return self._side.next_request_id

    async def request_permission(
        self, question: PermissionQuestion, asked: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """See `Asks`. Raises InvalidPayload for an outcome that is not known: it is no consent."""
        del asked
        response = await self._side.v2.session_request_permission(permission_request(question))
        outcome = response.outcome
        if isinstance(outcome, SelectedRequestPermissionOutcome):
            return Selected(outcome.option_id)
        if isinstance(outcome, CancelledRequestPermissionOutcome):
            return OutcomeCancelled()
        raise InvalidPayload(
            "the result of session/request_permission",
            (f"outcome: there is no outcome {outcome.wire().get('outcome')!r}",),
        )

    async def elicitation_create(
        self, params: v1.CreateElicitationRequest, asked: Callable[[int | None], None] | None = None
    ) -> v1.CreateElicitationResponse:
        """See `Asks`."""
        del asked
        request = MODELS.decode("CreateElicitationRequest", plain(params), "an elicitation")
        response = await self._side.v2.elicitation_create(request)
        answer: v1.CreateElicitationResponse = MODELS_OF_V1.decode(
            "CreateElicitationResponse", plain(response), "the answer to an elicitation"
        )
        return answer

    def elicitation_complete(self, params: v1.CompleteElicitationNotification) -> None:
        """See `Asks`."""
        complete = CompleteElicitationNotification(elicitation_id=params.elicitation_id)
        self._side.v2.elicitation_complete(complete)
