"""Keeps what a session has besides its thread: slash commands, and logins of MCP servers.

Owns which session has which. Loaded with the sessions, never before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.command_results import SessionAccess
from codex_acp.adapter.prompts.plan_review import PlanMode
from codex_acp.adapter.slash_commands import SessionCommands
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.mapping.events import CommandsChanged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.adapter.config_options import Config
    from codex_acp.adapter.mcp_logins import McpLogins
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.sessions.sessions import OpenSession, Sessions
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.commands import Fact
    from codex_acp.mapping.events import Command


SKILLS_CHANGED: Final = "skills/changed"

SETTLE_SECONDS: Final = 0.3
"""Skills change file by file; the list is read once they have been quiet for so long."""

TELL_SECONDS: Final = 1.0
"""How much longer a load may take for the list of commands."""


class SessionServices(NotificationSink):
    """Of all sessions of one agent. ``spawn`` starts a task that may outlive its request; ``live``
    has Codex load a session's thread, if it has not; ``log_out`` is what ``/logout`` does.
    """

    def __init__(
        self,
        sessions: Sessions,
        config: Config,
        spawn: Spawn,
        live: Callable[[str], Awaitable[None]],
        log_out: Callable[[], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._config = config
        self._spawn = spawn
        self._live = live
        self._log_out = log_out
        self._commands: dict[str, SessionCommands] = {}
        self._of_session: dict[str, OpenSession] = {}
        self._answering: set[str] = set()
        """Sessions whose commands are to be in an answer."""
        self._answered: set[str] = set()
        """Sessions whose opening the client has been answered."""
        self._of: AppServerConnection | None = None
        self._logins: McpLogins | None = None
        self._timer: asyncio.TimerHandle | None = None

    def known(self, session: Session, opened: OpenSession) -> None:
        """A session's object was made: give it its commands."""
        session_id = session.id

        async def leave_plan_mode() -> None:
            await self._live(session_id)  # the question may have outlived its Codex
            await self._config.plan_mode(session_id, wanted=False)

        session.commands = self._commands_of(session_id, opened)
        session.plan_mode = PlanMode(
            partial(self._config.plans, session_id),
            leave_plan_mode,
            lambda: self._sessions.audience(session_id).asks,
            lambda plan, approved, by: self._sessions.transcript.agreed(
                session_id, "plan", [plan], agreed=approved, by=by
            ),
        )
        self._follow(opened.codex, session_id)

    async def told_commands(self, session_id: str) -> Sequence[Command]:
        """The commands of an open session, which the client is told by an answer.

        They follow as an update if this is given up.
        """
        opened = self._sessions.open_session(session_id)
        if opened is None:
            return ()
        commands = self._commands_of(session_id, opened)
        self._answering.add(session_id)
        try:
            update = await commands.load()
            commands.news(update)
            return update.commands
        finally:
            self._answering.discard(session_id)
            self._spawn(lambda: self._announce(session_id))

    async def tell_commands(self, session_id: str) -> None:
        """Send the commands of an open session, if they come in time; else they follow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TELL_SECONDS):
                commands = await self.told_commands(session_id)
                if commands:
                    self._sessions.send(session_id, CommandsChanged(commands))

    def _commands_of(self, session_id: str, opened: OpenSession) -> SessionCommands:
        if self._of_session.get(session_id) is not opened:
            cwd = opened.params.get("cwd")
            self._of_session[session_id] = opened
            self._commands[session_id] = SessionCommands(
                session_id,
                cwd if isinstance(cwd, str) else "/",
                lambda: opened.codex,
                SessionAccess(
                    lambda: self._settings(session_id),
                    lambda wanted: self._config.plan_mode(session_id, wanted),
                    partial(self._mcp_started, session_id),
                    self._log_out,
                    opened.audience is not None,
                ),
            )
        return self._commands[session_id]

    def answered(self, session_id: str) -> None:
        """The client knows the session now."""
        self._answered.add(session_id)
        self._spawn(lambda: self._announce(session_id))
        if self._logins is not None:
            wanted = self._sessions.events.mcp.logins_wanted(session_id)
            self._logins.session_answered(session_id, wanted)

    def closed(self, session_id: str) -> None:
        """The session is not open any more."""
        self._commands.pop(session_id, None)
        self._of_session.pop(session_id, None)
        self._answered.discard(session_id)

    # NotificationSink of the newest connection.

    def on_notification(self, method: str, params: JsonValue) -> None:
        del params
        if method == SKILLS_CHANGED:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._outdated)

    def on_closed(self, error: TransportError | None) -> None:
        del error
        if self._timer is not None:
            self._timer.cancel()

    # The steps.

    def _follow(self, codex: AppServerConnection, session_id: str) -> None:
        if self._of is not codex:
            self._of, self._logins = codex, None
            codex.subscribe_all(self, frozenset({SKILLS_CHANGED}))
        if self._logins is None and self._sessions.audience(session_id).features.elicitation_url:
            from codex_acp.adapter.mcp_logins import McpLogins

            self._logins = McpLogins(
                codex, self._sessions.audience, self._spawn, self._answered.__contains__, self._say
            )

    def _outdated(self) -> None:
        self._timer = None
        for commands in self._commands.values():
            commands.outdated()

        async def announce_all() -> None:
            for session_id in list(self._commands):
                await self._announce(session_id)

        self._spawn(announce_all)

    async def _announce(self, session_id: str) -> None:
        """Send the list of commands, if it is not the one that the client has."""
        commands = self._commands.get(session_id)
        if commands is None:
            return
        update = await commands.load()
        if session_id not in self._answered or session_id in self._answering:
            return
        if commands.news(update):
            self._sessions.send(session_id, update)

    async def _mcp_started(
        self, session_id: str, start: Callable[[], Awaitable[None]], servers: Sequence[str]
    ) -> Sequence[str]:
        mcp = self._sessions.events.mcp
        mcp.forget(session_id)
        await start()
        return await mcp.started(session_id, servers)

    def _say(self, session_id: str, text: str) -> None:
        session = self._sessions.known(session_id)
        if session is not None:
            session.say(text)

    def _settings(self, session_id: str) -> Sequence[Fact]:
        from codex_acp.mapping.commands import Fact, setting_facts
        from codex_acp.routing.display import inline

        facts = setting_facts(self._config.options(session_id))
        session = self._sessions.known(session_id)
        remarks = () if session is None else session.remarks
        return [*facts, *(Fact("Codex remarks", inline(remark)) for remark in remarks)]
