"""The client of one ACP connection, as the adapter sees it: see `SessionClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp.capabilities import ClientFeatures, features_in

if TYPE_CHECKING:
    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.adapter.dialects.v1 import AsksInV1
    from codex_acp.adapter.dialects.v2 import AsksInV2
    from codex_acp.adapter.outflow import Outflow
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import SessionEvent


class Client:
    """``spawn`` runs what waits for a client that is slow."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self.features: ClientFeatures = ClientFeatures()
        """Its capabilities, known after ``initialize``."""
        self._side: EitherAgentSide | None = None
        self._outflow: Outflow | None = None
        self._asks: AsksInV1 | AsksInV2 | None = None
        self._version = 1

    def join(self, side: EitherAgentSide) -> None:
        """This is the connection to it."""
        self._side = side

    @property
    def gone(self) -> bool:
        """Whether its connection has ended."""
        return self._connection.closed

    def introduced(self, introduction: dict[str, JsonValue], version: int = 1) -> None:
        """Take the params of the client's ``initialize``, and the chosen ``version``."""
        self.features = features_in(introduction.get("clientCapabilities"), version)
        self._version = version

    @property
    def asks(self) -> AsksInV1 | AsksInV2:
        """The connection to it, as what can be asked."""
        if self._asks is None:
            if self._version == 1:
                from codex_acp.adapter.dialects.v1 import AsksInV1

                self._asks = AsksInV1(self._connection)
            else:
                from codex_acp.adapter.dialects.v2 import AsksInV2

                self._asks = AsksInV2(self._connection)
        return self._asks

    def auth_status(self, status: dict[str, JsonValue]) -> None:
        """Tell it who is logged in now."""
        if not self.gone:
            self.asks.auth_status(status)

    @property
    def _connection(self) -> EitherAgentSide:
        assert self._side is not None
        return self._side

    @property
    def outflow(self) -> Outflow:
        """The way of all updates to it; loads what it needs."""
        if self._outflow is None:
            from codex_acp.adapter.outflow import Outflow

            self._outflow = Outflow(self._connection, self._spawn, self._write)
        return self._outflow

    def _write(self, event: SessionEvent) -> list[bytes]:
        if self._version == 1:
            from codex_acp.adapter.dialects import v1_updates

            return v1_updates.written(event, self.features)
        from codex_acp.adapter.dialects import v2_updates

        return v2_updates.written(event)
