"""An agent's side that is used in version 1 of ACP, whichever version the client speaks.

Owns which calls of the agent go another way where version 2 is spoken; what the client asks there,
`agent_in_v2` answers. Nothing of version 2 is loaded for a client of version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_acp.acp.agent_side import AgentSide

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from codex_acp.acp._generated.v1.handlers import AgentNotificationHandlers, AgentRequestHandlers
    from codex_acp.acp.agent_in_v2 import AgentInVersion2
    from codex_acp.acp.v2_handlers import AgentHandlers
    from codex_acp.errors import TransportError
    from codex_acp.transport.connection import Connection
    from codex_acp.wire.model import WireModel


class AgentOfBothVersions(AgentSide):
    """``requests`` and ``notifications`` are those of version 1; ``versions`` may be spoken."""

    def __init__(
        self,
        connection: Connection,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
        versions: Collection[int],
    ) -> None:
        self._rows = (requests, notifications)
        self._in_v2: AgentInVersion2 | None = None
        super().__init__(
            connection,
            requests if 1 in versions else None,
            notifications if 1 in versions else None,
            v2=self._handlers if 2 in versions else None,
        )

    def _handlers(self) -> AgentHandlers:
        from codex_acp.acp.agent_in_v2 import AgentInVersion2

        self._in_v2 = AgentInVersion2(self, self._spawn, *self._rows)
        return self._in_v2.handlers()

    def _spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start what outlives a request; it ends with the connection."""
        assert self._tasks is not None
        self._tasks.create_task(work())

    def on_closed(self, error: TransportError | None) -> None:
        """End the prompts of version 2, which are no open requests, and then all else as `Side`
        does."""
        super().on_closed(error)
        if self._in_v2 is not None:
            self._in_v2.leave()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        if self._in_v2 is None or self.version != 2:
            return await super()._call(method, params)
        return await self._in_v2.ask_client(method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        if self._in_v2 is None or self.version != 2:
            super()._notify(method, params)
        else:
            self._in_v2.tell_client(method, params)
