"""A client's side that programs use in version 1 of ACP, whichever version the agent speaks.

Owns which calls `call_v2_agent` converts, if the agent speaks version 2. That module is not loaded
for an agent of version 1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from codex_acp._json import value_at
from codex_acp.acp.client_side import ClientSide
from codex_acp.errors import MisuseError, refuse_unless
from codex_acp.jsonrpc import encode_json
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
    )
    from codex_acp.acp._generated.v1.models import (
        InitializeRequest,
        InitializeResponse,
        NewSessionRequest,
        NewSessionResponse,
    )
    from codex_acp.acp._generated.v2.models import InitializeResponse as InitializeResponseV2
    from codex_acp.acp.call_v2_agent import V2AgentAsV1
    from codex_acp.acp.dialects import ClientHandlers
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.acp.v2_to_v1 import Update
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.transport.connection import Connection
    from codex_acp.wire.model import WireModel

logger = logging.getLogger(__name__)


class ClientOfBothVersions(ClientSide):
    """A client with handlers of version 1, ``requests`` and ``notifications``. It speaks
    ``version``. If ``version`` is None, the client speaks both versions, or version 1 alone if a
    handler is for its files or terminals, which version 2 does not have."""

    def __init__(
        self,
        connection: Connection,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        version: int | None,
        on_invalid_notification: InvalidNotificationCallback | None = None,
    ) -> None:
        self._handlers_of_v1 = (requests, notifications)
        self._versions: tuple[int, ...] = versions_for(requests, version)
        self._v2_agent: V2AgentAsV1 | None = None
        super().__init__(
            connection,
            requests if 1 in self._versions else None,
            notifications if 1 in self._versions else None,
            on_invalid_notification=on_invalid_notification,
            v2=self._handlers_of_v2 if 2 in self._versions else None,
        )

    def _handlers_of_v2(self) -> ClientHandlers:
        from codex_acp.acp.call_v2_agent import V2AgentAsV1

        self._v2_agent = V2AgentAsV1(self, *self._handlers_of_v1, self._give_update)
        return self._v2_agent.handlers()

    async def introduce(self, request: InitializeRequest) -> InitializeResponse:
        """Send ``initialize``; return the answer in version 1. Raises as `ClientSide.negotiate`."""
        params = plain(request)
        params_of_v2: dict[str, JsonValue] = {
            "info": params["clientInfo"],
            "capabilities": _capabilities_of_v2(params.get("clientCapabilities")),
        }
        response = await self.negotiate(
            params if 1 in self._versions else None, params_of_v2 if 2 in self._versions else None
        )
        if self._v2_agent is None or self.version == 1:
            return cast("InitializeResponse", response)
        return self._v2_agent.initialize_response(cast("InitializeResponseV2", response))

    async def fork(self, session_id: str, request: NewSessionRequest) -> NewSessionResponse:
        """Send ``session/fork``, which the stable schema lacks; return the new session."""
        if self._v2_agent is not None and self.version == 2:
            return await self._v2_agent.fork(session_id, request)
        params = {**plain(request), "sessionId": session_id}
        result = await self.connection.call("session/fork", encode_json(params))
        return cast("NewSessionResponse", self._dialect_for(1).result("session/new", result))

    def on_closed(self, error: TransportError | None) -> None:
        """Do what `Side` does; then fail the prompts whose turn has not ended."""
        super().on_closed(error)
        why = self.connection.why_closed
        if self._v2_agent is not None and why is not None:
            self._loop.call_soon(self._v2_agent.fail_turns, why)  # after earlier updates

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        if self._v2_agent is None or self.version != 2:
            return await super()._call(method, params)
        return await self._v2_agent.call(method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        if self._v2_agent is not None and self.version == 2 and method == "session/cancel":
            self._v2_agent.session_cancel(cast("Any", params))
        else:
            super()._notify(method, params)

    def _give_update(self, session_id: str, update: Update) -> None:
        """Call the program's handler with an update; drop a kind that version 1 lacks."""
        from codex_acp.acp._generated.v1.models import SessionNotification
        from codex_acp.wire.model import UnknownVariant

        _, notifications = self._handlers_of_v1
        handler = notifications["session/update"]
        if isinstance(update, UnknownVariant):
            logger.debug("left out, for version 1 has none: %s", update.wire())
        elif handler is not None:
            handler(SessionNotification(session_id=session_id, update=update))


def versions_for(requests: Mapping[str, object], version: int | None) -> tuple[int, ...]:
    """Return the versions to offer with the handlers ``requests``: ``version`` alone, if it is not
    None. Raises MisuseError for a version that is unknown, or that lacks a method of a handler."""
    refuse_unless(version in (None, 1, 2), "the version of ACP is 1 or 2", version)
    offered = [method for method, handler in requests.items() if handler is not None]
    only_in_v1 = any(method.startswith(("fs/", "terminal/")) for method in offered)
    if version == 2 and only_in_v1:
        raise MisuseError("version 2 of ACP has no files or terminals of the client; use version 1")
    if version is not None:
        return (version,)
    return (1,) if only_in_v1 else (1, 2)


def _capabilities_of_v2(capabilities: JsonValue) -> dict[str, JsonValue]:
    """Convert the client's capabilities to version 2, which has fewer."""
    if not isinstance(capabilities, dict):
        return {}
    same = ("elicitation", "_meta")
    converted = {key: capabilities[key] for key in same if capabilities.get(key) is not None}
    if value_at(capabilities, "auth", "terminal") is True:
        converted["auth"] = {"terminal": {}}
    return converted
