"""How a client that speaks ACP v1 is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never, cast

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp._generated.v1.models import (
    CancelledRequestPermissionOutcome,
    CompleteElicitationNotification,
    SelectedRequestPermissionOutcome,
)
from codex_acp.acp.v1_calls import CallsOfClient
from codex_acp.mapping.v1.updates import permission_request
from codex_acp.routing.ledger import OutcomeCancelled, Selected
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.jsonrpc.message import RequestId
    from codex_acp.mapping.events import PermissionQuestion


class AsksInV1:
    """Asks a client of ACP v1, as `Asks` says."""

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
        """Ask for a permission, as `Asks` does. Asked once, by `next_request_id`."""
        del asked
        response = await self._calls.session_request_permission(permission_request(question))
        outcome = response.outcome
        match outcome:
            case SelectedRequestPermissionOutcome():
                return Selected(outcome.option_id)
            case CancelledRequestPermissionOutcome():
                return OutcomeCancelled()
            case _:
                assert_never(outcome)

    async def elicitation_create(
        self, params: dict[str, Any], asked: Callable[[int | None], None] | None = None
    ) -> dict[str, Any]:
        """Ask for input, as `Asks` does."""
        del asked
        request = MODELS.decode("CreateElicitationRequest", params, "an elicitation")
        return cast("dict[str, Any]", plain(await self._calls.elicitation_create(request)))

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
