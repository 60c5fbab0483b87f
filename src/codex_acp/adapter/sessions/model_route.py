"""The route of a thread's model calls: Codex's configured provider, or the client's gateway."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp._json import text_at
from codex_acp.adapter.sessions.opening_errors import stored_thread
from codex_acp.codex.threads.opening import read_params
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.jsonrpc import INTERNAL_ERROR, JsonValue

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.session_setup import Gateway

logger = logging.getLogger(__name__)


class ModelRoute:
    """The route of one agent's model calls. A change affects threads that are opened later."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None
        """The gateway that the client set with ``providers/set`` or a login; None: none."""
        self.had_gateway: bool = False
        """Whether a stored thread may name a gateway that this or an earlier process had."""

    async def open(
        self,
        codex: AppServerConnection,
        method: str,
        params: dict[str, JsonValue],
        stored: str | None,
    ) -> JsonValue:
        """Call a method that opens a thread; ``stored`` is the id of the stored thread, if any.

        Without a gateway, a thread that had a gateway gets the configured provider. Raises
        CodexAcpError; RpcError -32603 if this Codex cannot route a stored thread to a gateway."""
        if self.gateway is not None:
            from codex_acp.mapping.session_setup import GATEWAY_PROVIDER, with_gateway

            try:
                return await codex.call_raw(method, with_gateway(params, self.gateway))
            except ErrorReply as error:
                provider = None if stored is None else await _provider_of(codex, stored)
                if provider in (None, GATEWAY_PROVIDER):
                    raise
                # Since 0.169, Codex keeps the provider with which a thread began.
                message = (
                    "this Codex cannot route the model calls of an existing session to the "
                    f"client's gateway: {error.message}; start a new session, or disable the "
                    "gateway"
                )
                raise RpcError(INTERNAL_ERROR, message) from error
        if stored is not None and self.had_gateway:
            from codex_acp.mapping.session_setup import GATEWAY_PROVIDER, without_gateway

            provider = await _provider_of(codex, stored)
            if provider == GATEWAY_PROVIDER:  # this name now means the configured provider
                config_read = await configuration(codex, str(params["cwd"]))
                return await codex.call_raw(method, without_gateway(params, config_read))
            if provider is not None:  # Codex 0.147 may have the thread loaded with the gateway
                params = {**params, "modelProvider": provider}
        return await codex.call_raw(method, params)

    def note_earlier_gateway(self, thread: dict[str, JsonValue] | None) -> bool:
        """Note in `had_gateway` if a stored thread that could not be opened was routed to the
        gateway of an earlier process. Return whether `open` can be tried again for this reason."""
        provider = None if thread is None else thread.get("modelProvider")
        if self.gateway is not None or self.had_gateway or not isinstance(provider, str):
            return False
        from codex_acp.mapping.session_setup import GATEWAY_PROVIDER

        self.had_gateway = provider == GATEWAY_PROVIDER
        return self.had_gateway


async def configuration(codex: AppServerConnection, cwd: str) -> JsonValue:
    """Return Codex's configuration in a directory; None if Codex refuses."""
    try:
        return await codex.call_raw("config/read", read_params(cwd))
    except ErrorReply as error:  # a call that needs a broken configuration reports the fault
        logger.warning("the configuration is not known: %s", error)
        return None


async def _provider_of(codex: AppServerConnection, session_id: str) -> str | None:
    """Return the model provider of a stored thread; None if there is no such thread."""
    return text_at(await stored_thread(codex, session_id), "modelProvider")
