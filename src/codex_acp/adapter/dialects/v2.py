"""How a client that speaks ACP v2 is asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp._generated.v2.models import (
    CancelledRequestPermissionOutcome,
    CompleteElicitationNotification,
    SelectedRequestPermissionOutcome,
)
from codex_acp.acp.v2_calls import CallsOfClient
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.v2.updates import permission_request
from codex_acp.routing.ledger import OutcomeCancelled, Selected
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.jsonrpc.message import RequestId
    from codex_acp.mapping.events import PermissionQuestion


logger = logging.getLogger(__name__)


class AsksInV2:
    """Asks a client of ACP v2, as `Asks` says."""

    def __init__(self, side: EitherAgentSide) -> None:
        self._side = side
        self._calls = CallsOfClient(side)

    @property
    def next_request_id(self) -> int | None:
        """Return the id of the next request, as `Asks` does."""
        return self._side.next_request_id

    async def request_permission(
        self, question: PermissionQuestion, asked: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """Ask for a permission, as `Asks` does. Raises InvalidPayload for an outcome that is not
        known: it is no consent."""
        del asked
        response = await self._calls.session_request_permission(permission_request(question))
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
        self, params: dict[str, Any], asked: Callable[[int | None], None] | None = None
    ) -> dict[str, Any]:
        """Ask for input, as `Asks` does."""
        del asked
        request = MODELS.decode("CreateElicitationRequest", params, "an elicitation")
        response = await self._calls.elicitation_create(request)
        if isinstance(response, UnknownVariant):  # which v2 has handled so
            action = response.wire().get("action")
            logger.warning("an elicitation was answered with the unknown action %r", action)
            return {"action": "cancel"}
        return cast("dict[str, Any]", plain(response))

    def withdraw(self, request_id: RequestId | None) -> None:
        """Withdraw a request, as `Asks` does."""
        if isinstance(request_id, int):  # as are all of this side's
            self._side.connection.abandon(request_id)

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell that a page was dealt with, as `Asks` does."""
        complete = CompleteElicitationNotification(elicitation_id=elicitation_id)
        self._calls.elicitation_complete(complete)

    def auth_status(self, status: dict[str, Any]) -> None:
        """Tell who is logged in now; the client has asked before (the method is unstable)."""
        self._calls.auth_status_update(
            MODELS.decode("AuthStatusUpdateNotification", status, "a status")
        )
