"""The client of one ACP connection, and of all its sessions that have no `NetworkSession`."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from codex_acp.acp.capabilities import ClientFeatures, features_in
from codex_acp.mapping.events import Notice

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.adapter.outflow import Outflow
    from codex_acp.adapter.questioner import ConnectionQuestioner
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.session_client import PromptSender
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.events import SessionEvent

logger = logging.getLogger(__name__)


class Client:
    """The client of one connection. ``spawn`` runs the task that waits for a slow client."""

    def __init__(self, spawn: Spawn) -> None:
        self.owner: str | None = None
        """No owner: the client alone has the agent's sessions."""
        self._spawn = spawn
        self.side: EitherAgentSide
        """The connection to the client; set before `EitherAgentSide.run`."""
        self.features: ClientFeatures = ClientFeatures()
        """The client's capabilities, known after ``initialize``."""
        self._version = 1

    @property
    def gone(self) -> bool:
        return self.side.closed

    def note_initialize(self, params: dict[str, JsonValue], version: int) -> None:
        """Note the ``params`` of the client's ``initialize``, and the chosen ``version``."""
        self.features = features_in(params.get("clientCapabilities"), version)
        self._version = version

    @property
    def client(self) -> Client:
        return self

    async def await_prompt(
        self, prompt: Awaitable[PromptResult], sender: PromptSender | None
    ) -> PromptResult:
        del sender
        return await prompt

    @cached_property
    def questioner(self) -> ConnectionQuestioner:
        """Return the object that asks the person; loads its modules."""
        from codex_acp.adapter.questioner import ConnectionQuestioner

        return ConnectionQuestioner(self.side, self._version)

    @cached_property
    def outflow(self) -> Outflow:
        """Return the queue of updates to the client; loads its modules."""
        from codex_acp.adapter.outflow import Outflow

        return Outflow(self.side, self._spawn, self._render)

    def _render(self, event: SessionEvent) -> list[bytes]:
        from codex_acp.wire.codec import encode_any_text

        if self._version == 1:
            from codex_acp.mapping.v1 import updates as v1

            updates = v1.updates_of(event, self.features)
            if not updates and isinstance(event, Notice):
                logger.warning("Codex says: %s", event.title)
            return [encode_any_text(update) for update in updates]
        from codex_acp.mapping.v2 import updates as v2

        return [encode_any_text(update) for update in v2.updates_of(event)]
