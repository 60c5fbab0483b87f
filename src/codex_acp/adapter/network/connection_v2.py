"""A connection whose client speaks ACP v2: the methods of `AgentInV2`, which go the way of
`NetworkConnection`, which knows whose a session is. Loaded with the first such client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp.answers import not_offered
from codex_acp.acp.v2 import AgentHandlers
from codex_acp.adapter.agent_v2 import AgentInV2
from codex_acp.adapter.extensions import extensions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.network.connection import NetworkConnection
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.providers import Providers
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays
    from codex_acp.mapping.config.options import Option
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.events.session_events import Command

__all__ = ["handlers_of_v2"]


def handlers_of_v2(connection: NetworkConnection) -> AgentHandlers:
    """What a connection is given whose client speaks v2."""
    methods = _Methods(connection)
    agent = AgentInV2(methods)
    requests = agent.requests()
    requests["auth/login"] = requests["auth/logout"] = None
    unstable = agent.unstable()
    del unstable["auth/status"]
    del unstable["providers/list"], unstable["providers/set"], unstable["providers/disable"]
    extensions = extensions_of(lambda session_id: connection.shown(session_id).agent, 2)
    return AgentHandlers(requests, agent.notifications(), unstable, extensions=extensions)


class _Methods:
    """See `AgentMethods`."""

    def __init__(self, connection: NetworkConnection) -> None:
        self._of = connection
        self.config = self
        self.spawn: Spawn = connection.spawn
        self.new_session = connection.new_session
        self.load_session = connection.load_session
        self.resume_session = connection.resume_session
        self.fork_session = connection.fork_session
        self.list_sessions = connection.list_sessions
        self.close_session = connection.close_session
        self.delete_session = connection.delete_session
        self.set_title = connection.set_title
        self.set_config_option = connection.set_config_option
        self.archive = connection.archive
        self.logins = _NoLogins()
        self.cancel = connection.cancel

    @property
    def providers(self) -> Providers:
        raise not_offered("providers")

    def introduce(self, params: dict[str, JsonValue], version: int) -> LoginWays:
        return self._of.introduce(params, version)

    def options(self, session_id: str) -> Sequence[Option]:
        return self._of.shown(session_id).agent.config.options(session_id)

    async def commands(self, session_id: str) -> Sequence[Command] | None:
        return await self._of.shown(session_id).agent.commands(session_id)

    def session(self, session_id: str) -> Session:
        return self._of.shown(session_id).agent.session(session_id)

    async def run_prompt(
        self,
        session_id: str,
        blocks: Sequence[Block],
        when_inserted: Callable[[str], None],
        *,
        early: EarlyTurn | None = None,
    ) -> object:
        agent = self._of.shown(session_id).agent
        return await agent.run_prompt(session_id, blocks, when_inserted, early=early)


class _NoLogins:
    """The login of a server is the business of whoever runs it."""

    async def authenticate(self, request: v1.AuthenticateRequest) -> object:
        del request
        raise not_offered("auth/login")

    async def logout(self, request: v1.LogoutRequest) -> object:
        del request
        raise not_offered("auth/logout")

    async def status(self, request: v1.AuthStatusRequest) -> object:
        del request
        raise not_offered("auth/status")
