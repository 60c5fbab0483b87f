"""Reads the methods of either version of ACP for an agent, and makes its answers: in no version.

A request is read by its fields, which have the same names in both, and answered by plain JSON.
`CommonMethods` makes that the model of the version that is spoken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.dialects.requests import (
        DisableProvider,
        ForkSession,
        Json,
        ListSessions,
        NewSession,
        ResumeSession,
        SetProvider,
        SetTitle,
    )
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.mapping.agent.auth_methods import LoginWays
    from codex_acp.mapping.config.options import Option
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.events.session_events import StateChanged
    from codex_acp.wire.registry import ModelRegistry


class AgentMethods(Protocol):
    """The methods of a `CodexAgent`, or over the network of a client's connection to one."""

    @property
    def archive(self) -> Archive:
        """The archive of its sessions."""

    @property
    def spawn(self) -> Spawn:
        """Starts a task that may outlive a request."""

    @property
    def about(self) -> Json:
        """Members that it adds at ``initialize``, under its own key."""

    def introduce(self, params: Json, version: int) -> LoginWays:
        """Take in ``initialize``, as `CodexAgent` does, also for the others."""

    async def new_session(self, request: NewSession) -> Json: ...
    async def load_session(self, request: ResumeSession) -> Json: ...
    async def resume_session(self, request: ResumeSession) -> Json: ...
    async def fork_session(self, request: ForkSession) -> Json: ...
    async def list_sessions(self, request: ListSessions) -> Json: ...
    async def close_session(self, session_id: str) -> None: ...
    async def delete_session(self, session_id: str) -> None: ...
    async def set_title(self, session_id: str, title: str) -> Json: ...
    async def set_mode(self, session_id: str, mode_id: str) -> None: ...
    async def set_config_option(
        self, session_id: str, config_id: str, value: str | bool
    ) -> list[Option]: ...
    async def run_prompt(self, session_id: str, blocks: Sequence[Block]) -> PromptResult: ...
    def cancel(self, session_id: str) -> None: ...


class Archive(Protocol):
    """Archives sessions, as `SessionArchive` does."""

    async def archive(self, session_id: str) -> None: ...
    async def unarchive(self, session_id: str) -> None: ...
    async def status(self, session_id: str) -> StateChanged | None: ...


class _OfSession(Protocol):
    """A request that names a session."""

    session_id: str


class CommonMethods:
    """The methods that both versions have alike, answered with ``models``.

    ``whole`` is the agent of a client that has one for itself: it is asked for logins and
    providers, too, and simple requests are answered before models load.
    """

    def __init__(
        self, models: ModelRegistry, agent: AgentMethods, whole: CodexAgent | None
    ) -> None:
        self._models = models
        self._agent = agent
        self._whole = whole

    def _answer(self, name: str, answer: Mapping[str, object] | None = None) -> Any:
        return self._models.decode(f"{name}Response", answer or {}, "the answer")

    def _common_unstable(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """Rows of the unstable schema; advertised where that schema has them."""
        rows: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "session/set_title": self.set_title,
            "session/archive": self.archive,
            "session/unarchive": self.unarchive,
        }
        if self._whole is not None:
            rows |= {
                "auth/status": self.auth_status,
                "providers/list": self.list_providers,
                "providers/set": self.set_provider,
                "providers/disable": self.disable_provider,
            }
        return rows

    @property
    def _own(self) -> CodexAgent:
        assert self._whole is not None
        return self._whole

    async def list_sessions(self, request: ListSessions) -> Any:
        """List the sessions, as `SessionMethods.list` does."""
        return self._answer("ListSessions", await self._agent.list_sessions(request))

    async def delete_session(self, request: _OfSession) -> Any:
        """Delete a session, as `SessionMethods.delete` does."""
        await self._agent.delete_session(request.session_id)
        return self._answer("DeleteSession")

    async def set_title(self, request: SetTitle) -> Any:
        """Name a session, as `SessionMethods.set_title` does."""
        answer = await self._agent.set_title(request.session_id, request.title)
        return self._answer("SetSessionTitle", answer)

    async def archive(self, request: _OfSession) -> Any:
        """Archive a session, as `SessionArchive.archive` does."""
        await self._agent.archive.archive(request.session_id)
        return self._answer("ArchiveSession")

    async def unarchive(self, request: _OfSession) -> Any:
        """Take a session out of the archive, as `SessionArchive.unarchive` does."""
        await self._agent.archive.unarchive(request.session_id)
        return self._answer("UnarchiveSession")

    async def auth_status(self, request: object) -> Any:
        """Tell how the login stands, as `Logins.status` does."""
        del request
        return self._answer("AuthStatus", await self._own.logins.status())

    async def list_providers(self, request: object) -> Any:
        """List the providers, as `Providers.list` does."""
        del request
        return self._answer("ListProviders", await self._own.providers.list())

    async def set_provider(self, request: SetProvider) -> Any:
        """Set a provider, as `Providers.set` does."""
        await self._own.providers.set(request)
        return self._answer("SetProvider")

    async def disable_provider(self, request: DisableProvider) -> Any:
        """Disable a provider, as `Providers.disable` does."""
        await self._own.providers.disable(request.provider_id)
        return self._answer("DisableProvider")
