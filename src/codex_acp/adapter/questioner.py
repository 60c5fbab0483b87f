"""Questions to the person at the client of one connection, in the client's version of ACP.

Separate from `Client`, so that a turn without questions does not load this module.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from codex_acp.errors import InvalidPayload
from codex_acp.routing.ledger import OutcomeCancelled, Selected
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp.side import Side
    from codex_acp.adapter.session_client import OnRequestId
    from codex_acp.jsonrpc import RequestId
    from codex_acp.mapping.events import PermissionQuestion
    from codex_acp.wire.model import WireModel
    from codex_acp.wire.registry import ModelRegistry

logger = logging.getLogger(__name__)


class ConnectionQuestioner:
    """Implements `session_client.Questioner` with ``side``, the agent's end of one connection.
    Loads the models and the mapping of ``version`` alone."""

    def __init__(self, side: Side, version: int) -> None:
        self._side = side
        self._version = version
        self._models: ModelRegistry
        self._permission_request: Callable[[PermissionQuestion], WireModel]
        if version == 1:
            from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
            from codex_acp.mapping.v1.updates import permission_request as permission_request_of_v1

            self._models = MODELS_OF_V1
            self._permission_request = permission_request_of_v1
        else:
            from codex_acp.acp._generated.v2.methods import MODELS as MODELS_OF_V2
            from codex_acp.mapping.v2.updates import permission_request as permission_request_of_v2

            self._models = MODELS_OF_V2
            self._permission_request = permission_request_of_v2

    @property
    def next_request_id(self) -> int | None:
        return self._side.next_request_id

    async def request_permission(
        self, question: PermissionQuestion, on_request_id: OnRequestId
    ) -> Selected | OutcomeCancelled:
        """Ask for a permission. An unknown outcome is no consent: raises InvalidPayload."""
        del on_request_id  # this question is sent once, with the id `next_request_id`
        method = "session/request_permission"
        request = self._permission_request(question)
        response: Any = await self._side.call_as(self._version, method, request)
        outcome = response.outcome
        unknown = isinstance(outcome, UnknownVariant)
        if not unknown and outcome.outcome == "selected":
            return Selected(outcome.option_id)
        if not unknown and outcome.outcome == "cancelled":
            return OutcomeCancelled()
        problem = f"outcome: there is no outcome {outcome.wire().get('outcome')!r}"
        raise InvalidPayload(f"the result of {method}", (problem,))

    async def elicitation_create(
        self, params: dict[str, Any], on_request_id: OnRequestId | None = None
    ) -> dict[str, Any]:
        del on_request_id
        request = self._models.decode("CreateElicitationRequest", params, "an elicitation")
        response = await self._side.call_as(self._version, "elicitation/create", request)
        # In v2 an unknown action is a cancel; in v1, `routing.elicitations` declines it.
        if self._version == 2 and isinstance(response, UnknownVariant):
            action = response.wire().get("action")
            logger.warning("an elicitation was answered with the unknown action %r", action)
            return {"action": "cancel"}
        return cast("dict[str, Any]", plain(response))

    def withdraw(self, request_id: RequestId | None) -> None:
        if isinstance(request_id, int):  # all ids of this side's requests are numbers
            self._side.connection.abandon(request_id)

    def elicitation_complete(self, elicitation_id: str) -> None:
        params = {"elicitationId": elicitation_id}
        self._notify("elicitation/complete", "CompleteElicitationNotification", params)

    def auth_status(self, status: dict[str, Any]) -> None:
        """Send the state of the login (an unstable method) to a client that asked for it before."""
        self._notify("auth/status_update", "AuthStatusUpdateNotification", status)

    def _notify(self, method: str, model: str, params: dict[str, Any]) -> None:
        notification = self._models.decode(model, params, "a notification")
        self._side.notify_as(self._version, method, notification)
