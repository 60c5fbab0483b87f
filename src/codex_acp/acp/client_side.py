"""The client's side of ACP: the peer is any agent.

Does not know how the agent was started. Treats one request specially: in a permission request,
content that does not fit the schema becomes text, so that the person sees the content.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from codex_acp._record import replace
from codex_acp.acp._generated.v1.calls import AgentCalls
from codex_acp.acp.capabilities import answered_version
from codex_acp.acp.dialects import dialects, handlers_of_v1
from codex_acp.acp.side import Side
from codex_acp.errors import InvalidPayload, UnsupportedVersion
from codex_acp.jsonrpc import encode_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.acp import types
    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
        UnstableClientNotificationHandlers,
        UnstableClientRequestHandlers,
    )
    from codex_acp.acp._generated.v1.models import InitializeRequest, InitializeResponse
    from codex_acp.acp._generated.v2.calls import AgentCalls as AgentCallsV2
    from codex_acp.acp._generated.v2.models import InitializeRequest as InitializeRequestV2
    from codex_acp.acp._generated.v2.models import InitializeResponse as InitializeResponseV2
    from codex_acp.acp.dialects import ClientHandlers, RequestHandler
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.jsonrpc import JsonValue, Request
    from codex_acp.transport.connection import Connection
    from codex_acp.wire.model import WireModel

    JsonObject: TypeAlias = dict[str, JsonValue]


class ClientSide(Side, AgentCalls):
    """An ACP client on a connection, and the agent's methods for it to call.

    ``requests`` has one function for each method that an agent can ask for, or None for a
    method that is not offered (answered -32601). A function returns the result's model, or raises
    RpcError to answer with that error; any other exception is answered -32603. The function may be
    async; a plain function must not block the event loop. Each function runs in a task of
    its own, which is cancelled when the agent sends ``$/cancel_request``.
    ``notifications`` has a plain function for each notification, or None to ignore it.

    The schema's ``session/update`` is a closed union: an unknown update of a newer agent does not
    fit. The update is logged and given to ``on_invalid_notification``, and the connection goes on.
    ``unstable`` and ``unstable_notifications`` have the handlers of methods that the stable schema
    lacks. If either is given, the side also reads and sends unstable models and fields.

    ``v2`` has the handlers for agents of version 2, a draft, or is a function that returns these
    handlers. The function is called once the agent answers version 2: before, nothing of version 2
    is loaded. A client without version 1 has None for ``requests`` and ``notifications``.
    `negotiate` begins the connection with the version that the agent answers.
    """

    def __init__(
        self,
        connection: Connection,
        requests: ClientRequestHandlers | None,
        notifications: ClientNotificationHandlers | None,
        *,
        on_invalid_notification: InvalidNotificationCallback | None = None,
        unstable: UnstableClientRequestHandlers | None = None,
        unstable_notifications: UnstableClientNotificationHandlers | None = None,
        v2: ClientHandlers | Callable[[], ClientHandlers] | None = None,
    ) -> None:
        v1 = handlers_of_v1(requests, notifications, unstable, unstable_notifications)
        super().__init__(connection, dialects("client", v1, v2), on_invalid_notification)

    @cached_property
    def v2(self) -> AgentCallsV2:
        """The agent's methods of version 2; a call raises MisuseError in another version."""
        from codex_acp.acp.v2_calls import CallsOfAgent

        return CallsOfAgent(self)

    async def negotiate(
        self,
        v1: InitializeRequest | JsonObject | None = None,
        v2: InitializeRequestV2 | JsonObject | None = None,
    ) -> InitializeResponse | InitializeResponseV2:
        """Send ``initialize`` for the highest given version; read the result in the version that
        the agent answers.

        If both are given, the agent gets the fields of both: each version reads its own fields.
        With plain JSON, no model of the other version is loaded.
        Raises UnsupportedVersion if the agent answers a version that was not given, and all that
        a call raises.
        """
        offered = [version for version, request in ((1, v1), (2, v2)) if request is not None]
        params: JsonObject = {}
        for request in (v1, v2):
            if isinstance(request, dict):
                params |= request
            elif request is not None:
                from codex_acp.wire.codec import plain

                params |= plain(request)
        params["protocolVersion"] = max(offered)
        result = await self.connection.call("initialize", encode_json(params))
        answered = answered_version(result, offered)
        if answered not in offered:
            raise UnsupportedVersion(answered, offered)
        if isinstance(result, dict):
            result = {**result, "protocolVersion": answered}
        response: InitializeResponse | InitializeResponseV2
        response = self._dialect_for(answered).result("initialize", result)
        self._version = answered
        return response

    async def call_as(self, version: int, method: str, params: WireModel | Any | None) -> Any:
        """Send a request; the answer to ``initialize`` decides which version the side speaks."""
        result = await super().call_as(version, method, params)
        if method == "initialize" and result.protocol_version in self._dialects:
            self._version = result.protocol_version
            self._load_dialect(self._version)
        return result

    def _typed_call(
        self, handler: RequestHandler, model: str | None, request: Request
    ) -> Callable[[], Awaitable[object]]:
        if request.method == "session/request_permission" and isinstance(request.params, dict):
            request = replace(request, params=self._with_readable_content(request.params))
        return super()._typed_call(handler, model, request)

    def _with_readable_content(self, params: JsonObject) -> JsonObject:
        """Return ``params``; content in it that does not fit the schema becomes text."""
        subject = params.get("subject")  # has the tool call in version 2
        if isinstance(subject, dict) and isinstance(subject.get("toolCall"), dict):
            return {**params, "subject": self._with_readable_content(subject)}
        call = params.get("toolCall")
        if not isinstance(call, dict) or call.get("content") is None:
            return params
        content = call["content"]
        pieces = content if isinstance(content, list) else [content]
        call = {**call, "content": [self._readable(piece) for piece in pieces]}
        return {**params, "toolCall": call}

    def _readable(self, piece: JsonValue) -> JsonValue:
        """Return a piece of content, as text if the schema does not know it or its block."""
        from codex_acp.wire.model import UnknownVariant

        try:
            model = self._current_dialect.models.decode("ToolCallContent", piece, "")
        except InvalidPayload:
            model = None
        if model is not None and not isinstance(getattr(model, "content", model), UnknownVariant):
            return piece
        text = piece if isinstance(piece, str) else encode_json(piece).decode()
        return {"type": "content", "content": {"type": "text", "text": text}}


def option_of(
    options: Sequence[types.PermissionOption], kind: types.PermissionOptionKind | None
) -> types.PermissionOption | None:
    """Return the first option of ``kind`` whose id no option of another kind has, or None."""
    for option in options:
        kinds = {other.kind for other in options if other.option_id == option.option_id}
        if option.kind == kind and kinds == {kind}:
            return option
    return None


def outcome_of(
    options: Sequence[types.PermissionOption], kind: types.PermissionOptionKind | None
) -> types.RequestPermissionOutcome:
    """Return the outcome that selects the option of this kind (see `option_of`); "cancelled" if
    there is no such option."""
    from codex_acp.acp import types  # here: a client of version 2 loads no model of version 1

    option = option_of(options, kind)
    if option is None:
        return types.CancelledRequestPermissionOutcome()
    return types.SelectedRequestPermissionOutcome(option_id=option.option_id)
