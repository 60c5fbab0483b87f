"""Where the model of a thread is asked: as Codex is configured, or by the client's own gateway."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.codex.threads.opening import read_params
from codex_acp.errors import ErrorReply

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.session.gateway import Gateway

__all__ = ["ModelRoute", "configuration"]

logger = logging.getLogger(__name__)


class ModelRoute:
    """Of one agent. What it says counts for threads that are opened from then on."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None
        """Where the client wants the model to be asked; None: as Codex is configured."""
        self.native_provider: str | None = None
        """The configured provider; known since there was a gateway."""

    async def open(
        self,
        codex: AppServerConnection,
        method: str,
        params: dict[str, JsonValue],
        stored: str | None,
    ) -> JsonValue:
        """Call a method that opens a thread; ``stored`` is one that Codex has.

        One that went by a gateway which is not there any more, goes as configured. Raises as
        every call.
        """
        if self.gateway is not None:
            from codex_acp.mapping.session.gateway import through

            return await codex.call_raw(method, through(params, self.gateway))
        if stored is not None and self.native_provider is not None:
            params = {**params, "modelProvider": self.native_provider}
        try:
            return await codex.call_raw(method, params)
        except ErrorReply:
            if stored is None or not await _went_by_gateway(codex, stored):
                raise
            from codex_acp.mapping.session.gateway import native_provider

            native = native_provider(await configuration(codex, str(params["cwd"])))
            return await codex.call_raw(method, {**params, "modelProvider": native})


async def configuration(codex: AppServerConnection, cwd: str) -> JsonValue:
    """What Codex is configured with in a directory; None if it does not tell."""
    try:
        return await codex.call_raw("config/read", read_params(cwd))
    except ErrorReply as error:  # a broken one is told by what needs it
        logger.warning("the configuration is not known: %s", error)
        return None


async def _went_by_gateway(codex: AppServerConnection, session_id: str) -> bool:
    from codex_acp.adapter.sessions.stored_threads import stored_thread
    from codex_acp.mapping.session.gateway import GATEWAY_PROVIDER

    thread = await stored_thread(codex, session_id)
    return thread is not None and thread.get("modelProvider") == GATEWAY_PROVIDER
