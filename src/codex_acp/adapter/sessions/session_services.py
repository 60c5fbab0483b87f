"""Adds slash commands, plan mode and logins of MCP servers to each session.

Loaded with the first `Session`, never before.
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
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.events import Command


SKILLS_CHANGED: Final = "skills/changed"

SETTLE_SECONDS: Final = 0.3
"""Seconds without a change before the list of skills is read again: files change one by one."""

SEND_SECONDS: Final = 1.0
"""Seconds that the answer to ``session/load`` may wait for the list of commands."""


class SessionServices(NotificationSink):
    """Services of all sessions of one agent. ``spawn`` starts a task that may outlive its request;
    ``ensure_live`` has Codex load a session's thread; ``/logout`` calls ``log_out``."""

    def __init__(
        self,
        sessions: Sessions,
        config: Config,
        spawn: Spawn,
        ensure_live: Callable[[str], Awaitable[None]],
        log_out: Callable[[], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._config = config
        self._spawn = spawn
        self._ensure_live = ensure_live
        self._log_out = log_out
        self._in_answer: set[str] = set()
        """Sessions whose commands will be part of an answer that is being made."""
        self._codex: AppServerConnection | None = None
        self._logins: McpLogins | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, session: Session, opened: OpenSession) -> None:
        """Set the commands and the plan mode of a new `Session`."""
        session_id = session.id
        session.commands = self._commands_of(session_id, opened)
        session.plan_mode = PlanMode(
            is_on=partial(self._config.in_plan_mode, session_id),
            ensure_live=partial(self._ensure_live, session_id),
            leaving=partial(self._config.leaving_plan_mode, session_id),
            questioner=lambda: self._sessions.client_of(session_id).questioner,
            record=lambda plan, approved, by: self._sessions.transcript.record_agreement(
                session_id, "plan", [plan], agreed=approved, by=by
            ),
        )
        self._follow_connection(opened.codex, session_id)

    async def load_commands(self, session_id: str) -> Sequence[Command]:
        """Return the commands of an open session for an answer; after a cancel, send them later."""
        opened = self._sessions.open_session(session_id)
        if opened is None:
            return ()
        commands = self._commands_of(session_id, opened)
        self._in_answer.add(session_id)
        try:
            update = await commands.load()
            commands.note_sent(update)
            return update.commands
        finally:
            self._in_answer.discard(session_id)
            self._spawn(lambda: self._announce(session_id))  # no effect if they are in the answer

    async def send_commands(self, session_id: str) -> None:
        """Send the commands of an open session within `SEND_SECONDS`, or else later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SEND_SECONDS):
                commands = await self.load_commands(session_id)
                if commands:
                    self._sessions.send(session_id, CommandsChanged(commands))

    def _commands_of(self, session_id: str, opened: OpenSession) -> SessionCommands:
        if opened.commands is None:
            opened.commands = SessionCommands(
                SessionAccess(
                    session_id,
                    opened.cwd,
                    codex=lambda: opened.codex,
                    options=partial(self._config.options, session_id),
                    in_plan_mode=partial(self._config.in_plan_mode, session_id),
                    set_plan_mode=partial(self._config.set_plan_mode, session_id),
                    remarks=lambda: () if opened.session is None else opened.session.remarks,
                    turn_has_prompts=lambda: (
                        opened.session is not None
                        and opened.session.driver.machine.turn_has_prompts
                    ),
                    mcp=lambda: self._sessions.intake.mcp,
                    log_out=self._log_out,
                    shares_codex=opened.client is not None,  # over the network
                )
            )
        return opened.commands

    def after_answer(self, session_id: str) -> None:
        """Send the session's commands, and ask for logins: the client knows the session now."""
        opened = self._sessions.open_session(session_id)
        if opened is None:
            return
        opened.answered = True
        self._spawn(lambda: self._announce(session_id))
        if self._logins is not None:
            # Servers that failed before the client knew the session.
            for name, environment in self._sessions.intake.mcp.logins_wanted(session_id):
                self._logins.start_login(session_id, name, environment)

    # NotificationSink of the newest connection.

    def on_notification(self, method: str, params: JsonValue) -> None:
        del method, params  # it is `SKILLS_CHANGED`
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._reload_skills)

    def on_closed(self, error: TransportError | None) -> None:
        del error
        if self._timer is not None:
            self._timer.cancel()

    # Steps.

    def _follow_connection(self, codex: AppServerConnection, session_id: str) -> None:
        """Follow changes of skills on a new connection, and logins if the client can open pages."""
        if self._codex is not codex:
            self._codex, self._logins = codex, None
            codex.subscribe_all(self, frozenset({SKILLS_CHANGED}))
        if self._logins is None and self._sessions.features(session_id).elicitation_url:
            from codex_acp.adapter.mcp_logins import McpLogins

            self._logins = McpLogins(codex, self._sessions, self._spawn)

    def _reload_skills(self) -> None:
        self._timer = None
        for session_id in self._sessions:
            opened = self._sessions.open_session(session_id)
            if opened is not None and opened.commands is not None:
                opened.commands.mark_outdated()

        async def announce_all() -> None:
            for session_id in list(self._sessions):
                await self._announce(session_id)

        self._spawn(announce_all)

    async def _announce(self, session_id: str) -> None:
        """Send the list of commands if the client does not have it."""
        opened = self._sessions.open_session(session_id)
        if opened is None or opened.commands is None:
            return
        update = await opened.commands.load()
        if self._sessions.open_session(session_id) is not opened or not opened.answered:
            return  # closed meanwhile, or not known to the client yet
        if session_id not in self._in_answer and opened.commands.note_sent(update):  # it is new
            self._sessions.send(session_id, update)
