"""The accepting side of a websocket as a link; see `WebSocketMessages`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.transport.websocket_messages import WebSocketMessages

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection


class AcceptedLink(WebSocketMessages):
    """A connection whose handshake is done; the rest as in `WebSocketMessages`."""

    def __init__(self, connection: ServerConnection, *, name: str, message_limit: int) -> None:
        super().__init__(name, message_limit)
        self._accepted = connection

    def say_at_end(self, code: int, reason: str) -> None:
        """When this side closes the link, say why: the codes are those of RFC 6455."""
        self._last_words = (code, reason)

    async def _open(self) -> ServerConnection:
        return self._accepted
