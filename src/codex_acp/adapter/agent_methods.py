"""What is asked of an agent, whatever the version of ACP: `CodexAgent` is one, for one client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.providers import Providers
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays
    from codex_acp.mapping.config.options import Option
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.events.session_events import Command

__all__ = ["AgentMethods"]


class _Config(Protocol):
    """Whoever has the config options of open sessions."""

    def options(self, session_id: str) -> Sequence[Option]:
        """Those of one; none of a session that is not open."""


class _Logins(Protocol):
    """Whoever answers for the login: see `Logins`."""

    async def authenticate(self, request: v1.AuthenticateRequest) -> object: ...
    async def logout(self, request: v1.LogoutRequest) -> object: ...
    async def status(self, request: v1.AuthStatusRequest) -> object: ...


class _Archive(Protocol):
    """Whoever has the archive of sessions: see `SessionArchive`."""

    async def archive(self, request: v1.ArchiveSessionRequest) -> object: ...
    async def unarchive(self, request: v1.UnarchiveSessionRequest) -> object: ...
    async def status(self, request: v1.SessionStatusRequest) -> v1.SessionStatusResponse: ...


class AgentMethods(Protocol):
    """What is asked of an agent here; `CodexAgent` is one, for one client."""

    @property
    def config(self) -> _Config:
        """The config options of its sessions."""

    @property
    def logins(self) -> _Logins:
        """The logins of its Codex."""

    @property
    def archive(self) -> _Archive:
        """The archive of its sessions."""

    @property
    def providers(self) -> Providers:
        """Where the model is asked; not asked for where that is not offered."""

    @property
    def spawn(self) -> Spawn:
        """Starts a task that may outlive a request."""

    def introduce(self, params: dict[str, JsonValue], version: int) -> LoginWays:
        """See `CodexAgent`, also for the others."""

    async def new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse: ...
    async def load_session(self, request: v1.LoadSessionRequest) -> object: ...
    async def resume_session(self, request: v1.ResumeSessionRequest) -> object: ...
    async def fork_session(self, request: v1.ForkSessionRequest) -> v1.ForkSessionResponse: ...
    async def list_sessions(self, request: v1.ListSessionsRequest) -> v1.ListSessionsResponse: ...
    async def close_session(self, request: v1.CloseSessionRequest) -> object: ...
    async def delete_session(self, request: v1.DeleteSessionRequest) -> object: ...
    async def set_title(self, request: v1.SetSessionTitleRequest) -> v1.SetSessionTitleResponse: ...
    async def set_config_option(self, request: v1.SetSessionConfigOptionRequest) -> object: ...
    async def commands(self, session_id: str) -> Sequence[Command] | None: ...
    def session(self, session_id: str) -> Session: ...
    async def run_prompt(
        self,
        session_id: str,
        blocks: Sequence[Block],
        when_inserted: Callable[[str], None],
        *,
        early: EarlyTurn | None = None,
    ) -> object: ...
    def cancel(self, notification: v1.CancelNotification) -> None: ...
