"""Where the model of a thread is asked: as Codex is configured, or by the client's own gateway."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp._json import text_at
from codex_acp.codex.threads.opening import read_params
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, JsonValue

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.session_setup import Gateway

logger = logging.getLogger(__name__)


class ModelRoute:
    """Where one agent has the model asked. A change counts for threads that are opened after it."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None
        """Where the client wants the model to be asked; None: as Codex is configured."""
        self.had_gateway: bool = False
        """Whether there was one, here or in an earlier process: threads may be stored with it."""

    async def open(
        self,
        codex: AppServerConnection,
        method: str,
        params: dict[str, JsonValue],
        stored: str | None,
    ) -> JsonValue:
        """Call a method that opens a thread; ``stored`` is one that Codex has.

        One that went by a gateway which is not there any more, goes as configured. Raises as
        every call; RpcError -32603 where this Codex cannot have a stored one go by a gateway.
        """
        if self.gateway is not None:
            from codex_acp.mapping.session_setup import GATEWAY_PROVIDER, through

            try:
                return await codex.call_raw(method, through(params, self.gateway))
            except ErrorReply as error:
                provider = None if stored is None else await _provider_of(codex, stored)
                if provider in (None, GATEWAY_PROVIDER):
                    raise
                # Codex since 0.169 lets a thread have no other provider than it began with.
                message = (
                    "this Codex would not have the model of a session that is there asked by the "
                    f"client's gateway: {error.message}; start a new session, or disable the "
                    "gateway"
                )
                raise RpcError(INTERNAL_ERROR, message) from error
        if stored is not None and self.had_gateway:
            from codex_acp.mapping.session_setup import GATEWAY_PROVIDER, as_configured

            provider = await _provider_of(codex, stored)
            if provider == GATEWAY_PROVIDER:  # it stays, and means the configured one
                read = await configuration(codex, str(params["cwd"]))
                return await codex.call_raw(method, as_configured(params, read))
            if provider is not None:  # Codex 0.147 may still have it loaded with the gateway
                params = {**params, "modelProvider": provider}
        return await codex.call_raw(method, params)

    def helps(self, thread: dict[str, JsonValue] | None) -> bool:
        """Whether a stored thread that could not be opened can be now: once, of one that went by
        the gateway of an earlier process.
        """
        provider = None if thread is None else thread.get("modelProvider")
        if self.gateway is not None or self.had_gateway or not isinstance(provider, str):
            return False
        from codex_acp.mapping.session_setup import GATEWAY_PROVIDER

        self.had_gateway = provider == GATEWAY_PROVIDER
        return self.had_gateway


async def configuration(codex: AppServerConnection, cwd: str) -> JsonValue:
    """Return Codex's configuration in a directory; None if it does not tell."""
    try:
        return await codex.call_raw("config/read", read_params(cwd))
    except ErrorReply as error:  # a broken one is told by what needs it
        logger.warning("the configuration is not known: %s", error)
        return None


async def _provider_of(codex: AppServerConnection, session_id: str) -> str | None:
    """Which a stored thread has; None if there is no such thread."""
    from codex_acp.adapter.sessions.stored_threads import stored_thread

    return text_at(await stored_thread(codex, session_id), "modelProvider")
