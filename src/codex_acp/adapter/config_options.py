"""Show the config options and modes of the open sessions to the client, and set them.

The client gets the values that Codex reports; `ConfigSession` follows the reports of one session's
thread. Codex gets only the values that a person has chosen. The sub-agents get the session's mode.
Must not know prompts and turns.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from codex_acp._json import list_at, text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp._record import NamedTuple
from codex_acp.adapter.config_choices import Catalogues, Directory
from codex_acp.adapter.session_defaults import MODE_VARIABLE
from codex_acp.adapter.sessions.opening_errors import not_open, refused_call, stored_thread
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.threads.trust import trust_edit
from codex_acp.errors import CodexAcpError, ErrorReply, NotAnswered, RpcError, TransportError
from codex_acp.jsonrpc import (
    AGENT_LOST,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    JsonValue,
)
from codex_acp.mapping.events import ModeChanged, OptionsChanged, SessionEvent
from codex_acp.mapping.options import (
    COLLABORATION,
    DEFAULT,
    MODE,
    PLAN,
    TRUST,
    TRUSTED,
    ConfigView,
    Option,
    access_words,
    checked_mode,
    checked_value,
    choice_patch,
    configured_access,
    mode_of,
    mode_state,
    option_json,
    options_of,
)
from codex_acp.mapping.settings import (
    Access,
    Settings,
    access_patch,
    applied,
    difference,
    is_wider,
    meets,
    settings_of_thread,
    settings_of_update,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

    How = Literal["new", "load", "resume", "fork"]
    JsonObject = dict[str, JsonValue]

logger = logging.getLogger(__name__)

NEW_WAIT_SECONDS: Final = 0.025
"""Seconds that ``session/new`` waits for the lists of models, modes and profiles; a list that
arrives later follows as an update."""

WAIT_SECONDS: Final = 1.0
"""Seconds that a load, resume or fork waits for the lists; these methods need not be fast."""

CHOICE_WAIT_SECONDS: Final = 5.0
"""Seconds to wait for the list that has the first mode, or plan mode, before it is set."""

SETTINGS_UPDATED: Final = "thread/settings/updated"
TURN_STARTED: Final = "turn/started"
THREAD_CLOSED: Final = "thread/closed"
_OF_SUB_AGENTS: Final = frozenset({TURN_STARTED, THREAD_CLOSED})
"""Notifications to follow of a sub-agent in `ConfigSession.kept_access`."""

_MODE_INDEX: Final = 0
"""Index of the mode in the list that `options_of` returns."""

REPORT_SECONDS: Final = 1.0
"""Seconds from Codex's answer to its report of the settings: usually a millisecond."""

MAX_CLOSED: Final = 1000
"""Closed sessions whose choices are remembered."""


class _Choices(NamedTuple):
    """Settings that Codex does not restore when a closed session is loaded."""

    tier: str | None
    chosen: tuple[str, Access] | None
    """The mode that a person chose, and its access."""


class _PendingChange:
    """A change of settings that the adapter has sent and Codex has not reported yet."""

    def __init__(self, patch: JsonObject, *, exactly: bool) -> None:
        self.patch = patch
        self.exactly = exactly
        """Whether only a report that meets the patch ends the wait."""
        self.reported = False
        """True once Codex has reported any settings after the change was sent."""
        self.met = asyncio.Event()


class ConfigSession(NotificationSink):
    """The settings of one session.

    ``on_change`` is called when Codex changed a setting without a request, and when the lists of
    the working directory arrived. ``result`` is Codex's answer to the call that opened the thread;
    for a ``new`` thread, the answer has the configured access."""

    def __init__(
        self,
        session_id: str,
        catalogues: Catalogues,
        directory: Directory,
        result: JsonValue,
        on_change: Callable[[ConfigSession], None],
        *,
        new: bool,
    ) -> None:
        self.id = session_id
        self.directory = directory
        self.settings: Settings = settings_of_thread(result)
        self.sent_options: list[Option] | None = None
        """The options that the client has; None before the first answer."""
        self.sent_mode: str | None = None
        """The current mode that the client has."""
        self.sent_modes: frozenset[str] = frozenset()
        """The modes among which the client can choose."""
        self.lock: asyncio.Lock = asyncio.Lock()
        """Held during a change."""
        self._catalogues = catalogues
        self._on_change = on_change
        cwd, roots = value_at(result, "cwd"), list_at(result, "runtimeWorkspaceRoots")
        self._roots = tuple(root for root in roots if isinstance(root, str) and root != cwd)
        self._configured = self.settings.access if new else None
        self.unrestored: str | None = None
        """Why Codex refused the configured access; None if Codex did not refuse."""
        self.first_mode_notices: tuple[str, ...] = ()
        """The notice for the person about the ``first_mode``, if there is one."""
        self.chosen: tuple[str, Access] | None = None
        """The mode that a person chose last, and the access that Codex then reported."""
        self.began_with: dict[tuple[str, object], Settings] = {}
        """Thread and turn that ran at a change of the rights → the settings with which the turn
        began, and with which it still starts sub-agents."""
        self.inherited: dict[str, Access] = {}
        """Sub-agent that a turn of `began_with` started after the change → its first access."""
        self.kept_access: dict[str, Access] = {}
        """Sub-agent whose access Codex did not change → its access."""
        self._preset_effort = False
        """Whether the effort comes from a collaboration mode, not from a choice."""
        self._models: tuple[str, ...] = (self.settings.model,)
        """The models that the session has had."""
        self._pending: _PendingChange | None = None
        self.subscribe()

    def move(self, catalogues: Catalogues, result: JsonValue) -> Settings:
        """Move to the connection on which the thread was resumed; return the earlier settings."""
        before = self.settings
        self.unsubscribe()
        if catalogues.codex is not self.codex:  # sub-agents load with the new access
            for earlier in (self.kept_access, self.began_with, self.inherited):
                earlier.clear()
        self._catalogues, self.settings = catalogues, settings_of_thread(result)
        self.subscribe()
        return before

    def take_over_sub_agents(self, earlier: ConfigSession) -> None:
        """Take over the access of sub-agents from the ``earlier`` settings of a session that is
        opened again, if Codex has not loaded the sub-agents anew."""
        if earlier.codex is self.codex:
            self.began_with, self.inherited = earlier.began_with, earlier.inherited
            for thread_id, access in earlier.kept_access.items():
                self.keep_access(thread_id, access)

    def keep_access(self, thread_id: str, access: Access) -> Access:
        """Note that a sub-agent keeps an access that Codex did not change. While this access is
        wider than the session's, the sub-agent's turns are interrupted. Return the sub-agent's
        access: after several refused changes, the access before the first of them."""
        if thread_id not in self.kept_access:
            self.kept_access[thread_id] = access
            self.codex.subscribe(thread_id, self, _OF_SUB_AGENTS)
        return self.kept_access[thread_id]

    def _forget_access(self, thread_id: str) -> None:
        if self.kept_access.pop(thread_id, None) is not None:
            self.codex.unsubscribe(thread_id, self)

    @property
    def codex(self) -> AppServerConnection:
        return self._catalogues.codex

    def unsubscribe(self) -> None:
        """Unsubscribe from the thread and the directory."""
        self.directory.on_change = None
        for thread_id in (self.id, *self.kept_access):
            self.codex.unsubscribe(thread_id, self)

    def subscribe(self) -> None:
        self.directory.on_change = lambda: self._on_change(self)
        self.codex.subscribe(self.id, self, frozenset({SETTINGS_UPDATED}))
        for thread_id in self.kept_access:
            self.codex.subscribe(thread_id, self, _OF_SUB_AGENTS)

    def view(self, *, booleans: bool) -> ConfigView:
        """Return values and choices of the options, with ``booleans`` if the client knows them."""
        return ConfigView(
            self.settings,
            self._catalogues.catalogue(self.directory),
            self.configured,
            self.chosen,
            self._models,
            preset_effort=self._preset_effort,
            booleans=booleans,
            untrusted_root=self.directory.untrusted_root,
            now_trusted=self.directory.now_trusted,
        )

    @property
    def configured(self) -> Access | None:
        """Return the configured access, from the thread's start or from the configuration."""
        place = self.directory
        if self._configured is None and place.config is not None:
            access = configured_access(place.config, place.cwd, place.project, self._roots)
            self._configured = access
        return self._configured

    def access_of(self, source: ConfigSession) -> Access:
        """Return the access of the ``source`` of a fork, with the fork's own directories."""
        access = source.settings.access
        if "writableRoots" not in access.sandbox:
            return access
        roots = set(list_at(access.sandbox, "writableRoots")).difference(source._roots)
        roots.update(list_at(self.settings.access.sandbox, "writableRoots"))
        return access._replace(sandbox=access.sandbox | {"writableRoots": sorted(roots)})

    # Changes.

    async def change(self, patch: JsonObject, *, exactly: bool = True) -> None:
        """Send a patch to Codex, unless the settings have it; wait for the report of the settings.

        Without ``exactly``, the next report ends the wait, even if it differs from the patch: Codex
        may write a path in another way. Raises RpcError with Codex's message if Codex refuses."""
        if meets(self.settings, patch):
            return
        before = self.settings
        pending = self._pending = _PendingChange(patch, exactly=exactly)
        try:
            await self.ask("thread/settings/update", {"threadId": self.id, **patch})
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await pending.met.wait()
        finally:
            self._pending = None
        if not pending.reported:
            logger.info("session %s: Codex took %s and reported nothing", self.id, list(patch))
            self.settings = applied(self.settings, patch)
        if patch.get("effort") is not None or self.settings.effort != before.effort:
            # A collaboration mode gave an effort to a session that had none.
            by_mode = "collaborationMode" in patch and before.effort is None
            self._preset_effort = by_mode and self.settings.effort is not None

    async def change_sub_agents(self, threads: list[str]) -> dict[str, str]:
        """Give the loaded sub-agents the session's access; never raises. Return Codex's reason for
        each sub-agent that it refused to change: it changes none of its newer tools' sub-agents."""
        patch = access_patch(self.settings.access)
        codex, refused = self.codex, dict[str, str]()
        if threads:
            # A model can name any number of threads that do not exist.
            with suppress(CodexAcpError):
                loaded = list_at(await codex.call_raw("thread/loaded/list", {}), "data")
                threads = [each for each in threads if each in loaded]
        for thread_id in threads:
            try:
                await self.ask("thread/settings/update", {"threadId": thread_id, **patch})
            except RpcError as error:
                logger.info("session %s: sub-agent %s: %s", self.id, thread_id, error.message)
                refused[thread_id] = error.message
            else:
                self._forget_access(thread_id)
        return {} if codex.closed else refused

    def _interrupt_wider(self, params: JsonValue) -> None:
        """Interrupt a turn that begins in a sub-agent with a wider access than the session's."""
        thread_id, turn_id = text_at(params, "threadId"), text_at(params, "turn", "id")
        kept = None if thread_id is None else self.kept_access.get(thread_id)
        if kept is not None and is_wider(kept, self.settings.access):
            logger.warning("session %s: a turn of sub-agent %s is interrupted", self.id, thread_id)
            with suppress(CodexAcpError):
                call: JsonObject = {"threadId": thread_id, "turnId": turn_id}
                self.codex.post("turn/interrupt", call, lambda _: None)

    async def ask(self, method: str, params: JsonObject) -> None:
        """Call Codex for a change. Raises RpcError with Codex's message if Codex refuses."""
        try:
            await self.codex.call_raw(method, params)
        except ErrorReply as error:
            raise refused_call("Codex refused the change", error) from error
        except CodexAcpError as error:
            data = {"reason": AGENT_LOST} if isinstance(error, TransportError) else None
            message = f"the change did not reach Codex: {error}"
            raise RpcError(INTERNAL_ERROR, message, data) from error

    async def restore(self, patch: JsonObject) -> None:
        """Give a new thread the configured access, with which it was not started. Never raises:
        without that access, the thread has fewer rights."""
        try:
            await self.change(patch, exactly=False)
        except RpcError as error:
            logger.warning("session %s: %s", self.id, error)
            self._configured, self.unrestored = None, error.message
        else:
            self._configured = self.settings.access

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method == TURN_STARTED:
            self._interrupt_wider(params)
            return
        if method == THREAD_CLOSED:  # Codex loads the sub-agent again with the session's access
            self._forget_access(text_at(params, "threadId") or "")
            return
        settings = settings_of_update(params)
        if settings is None:
            logger.warning("session %s: %s without settings", self.id, method)
            return
        self.settings = settings
        if settings.model not in self._models:
            self._models = (*self._models, settings.model)
        pending = self._pending
        if pending is None:
            self._on_change(self)
            return
        pending.reported = True
        if not pending.exactly or meets(settings, pending.patch):
            pending.met.set()


class Config:
    """The options of all ``sessions`` of one agent. ``spawn`` starts a task that may outlive its
    request."""

    def __init__(self, spawn: Spawn, sessions: Sessions) -> None:
        self._spawn = spawn
        self._agent_sessions = sessions
        self._catalogues: Catalogues | None = None
        self._sessions: dict[str, ConfigSession] = {}
        self._kept_choices: LastOnes[str, _Choices] = LastOnes(MAX_CLOSED)

    # Sessions.

    def ask_lists(
        self, codex: AppServerConnection, cwd: str, config_read: JsonValue = None
    ) -> Directory:
        """Ask Codex for the lists of a session in ``cwd``, before its thread is opened; return the
        `Directory` for the replies. ``config_read`` is the answer to ``config/read``."""
        return self._catalogues_of(codex).ask_about(cwd, config_read)

    async def open(
        self,
        session_id: str,
        codex: AppServerConnection,
        result: JsonValue,
        *,
        directory: Directory,
        how: How = "new",
        source: str | None = None,
        restore: dict[str, JsonValue] | None = None,
        first_mode: str | None = None,
    ) -> ConfigSession:
        """Return the settings of a session that is opened; `answer` shows them to the client.

        ``result`` is Codex's answer to ``thread/start``, ``thread/resume`` or ``thread/fork``;
        ``directory`` comes from `ask_lists`. A fork takes over the settings of its ``source``, of
        which Codex stores only model and effort. ``restore`` has the configured access, left out of
        ``thread/start`` because Codex would trust the directory. ``first_mode`` is a mode to set
        now. Waits a little for the lists; a list that arrives later follows as an update."""
        earlier = self._sessions.get(session_id)
        self.forget(session_id)  # a session that is opened again keeps its choices
        kept_choices = self._kept_choices.pop(session_id, None)
        catalogues = self._catalogues_of(codex)
        session = self._sessions[session_id] = ConfigSession(
            session_id, catalogues, directory, result, self._send_changes, new=how == "new"
        )
        if earlier is not None:
            session.take_over_sub_agents(earlier)
        try:
            if restore is not None:
                await session.restore(restore)
            await self._restore_choices(session, kept_choices, source, result)
            if first_mode is not None:
                session.first_mode_notices = await self._set_first_mode(session, first_mode)
            seconds = NEW_WAIT_SECONDS if how == "new" else WAIT_SECONDS
            await _wait_for(seconds, catalogues.done, directory.done)
        except BaseException:
            if earlier is not None:  # opening the session again failed: the settings stay
                session.unsubscribe()
                earlier.subscribe()
                self._sessions[session_id] = earlier
            raise
        return session

    async def move(self, session_id: str, codex: AppServerConnection, result: JsonValue) -> None:
        """Move an open session whose thread was resumed (``result``) on another connection. Raises
        RpcError if the rights changed with the move, and Codex refuses to change them back."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        async with session.lock:
            before = session.move(self._catalogues_of(codex), result)
            try:
                await session.change(difference(before, session.settings))
            except RpcError as error:
                if session.settings.access != before.access:
                    session.settings = before  # the next `move` tries again
                    self._send_changes(session)
                    message = f"the session could not be given its mode again: {error.message}"
                    raise RpcError(error.code, message, error.data) from error
                logger.warning("session %s: settings are not as before: %s", session.id, error)
        self._send_changes(session)

    def forget(self, session_id: str) -> None:
        """Forget a session that was closed, except its choices. Idempotent."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.unsubscribe()
            self._kept_choices[session_id] = _Choices(session.settings.tier, session.chosen)

    def answer(self, session_id: str) -> dict[str, JsonValue]:
        """Return ``modes`` and ``configOptions`` of an open session for a client, as JSON, without
        protocol models; nothing for a session that is not open."""
        session = self._sessions.get(session_id)
        if session is None:
            return {}
        options = session.sent_options = options_of(self._view(session))
        modes = options[_MODE_INDEX]
        session.sent_mode, session.sent_modes = modes.current, frozenset(modes.values)
        return {"modes": mode_state(modes), "configOptions": [*map(option_json, options)]}

    async def _set_first_mode(self, session: ConfigSession, mode: str) -> tuple[str, ...]:
        """Set the mode that the environment gives to a new session. Returns a notice for the
        person if the mode was refused, or has no sandbox; else no notice."""
        await _wait_for(CHOICE_WAIT_SECONDS, session.directory.done)
        try:
            await self._choose(session, MODE, lambda view: checked_mode(view, mode))
        except RpcError as error:
            logger.warning("session %s: %s", session.id, error.message)
            return (f"{MODE_VARIABLE}: {error.message}. This session is as configured.",)
        access = session.settings.access
        if access.sandbox.get("type") != "dangerFullAccess":
            return ()
        rights = access_words(access)
        return (f"{MODE_VARIABLE} has put this session into the mode {mode}: {rights}.",)

    def options(self, session_id: str) -> list[Option]:
        """Return the options of an open session; none if it is not open."""
        session = self._sessions.get(session_id)
        return [] if session is None else options_of(self._view(session))

    def _catalogues_of(self, codex: AppServerConnection) -> Catalogues:
        def lists_changed() -> None:
            for session in self._sessions.values():
                self._send_changes(session)

        if self._catalogues is None or self._catalogues.codex is not codex:
            self._catalogues = Catalogues(codex, self._spawn, lists_changed, self._catalogues)
        return self._catalogues

    async def _restore_choices(
        self, session: ConfigSession, kept: _Choices | None, source: str | None, result: JsonValue
    ) -> None:
        """Restore settings that Codex does not: of a fork's ``source``, or the ``kept`` choices."""
        wanted = session.settings
        if source is not None and (forked := self._sessions.get(source)) is not None:
            wanted = forked.settings._replace(access=session.access_of(forked))
            kept = _Choices(wanted.tier, forked.chosen)
        elif source is not None:  # Codex forks a thread with the configured model and effort
            kept = self._kept_choices.get(source)
            with suppress(TransportError, NotAnswered):
                stored = await stored_thread(session.codex, source)
                if text_at(stored, "modelProvider") == text_at(result, "modelProvider"):
                    model, effort = text_at(stored, "model"), text_at(stored, "reasoningEffort")
                    wanted = wanted._replace(
                        model=model or wanted.model, effort=effort or wanted.effort
                    )
        if kept is not None:
            wanted = wanted._replace(tier=kept.tier)
        try:
            await session.change(difference(wanted, session.settings))
        except CodexAcpError as error:
            logger.warning("session %s: settings are not as before: %s", session.id, error)
        if kept is not None:
            session.chosen = kept.chosen

    # Requests of the client.

    async def set_config_option(
        self, session_id: str, option_id: str, value: str | bool
    ) -> list[Option]:
        """Set one option, and return all options. Raises RpcError: -32602 for an unknown option or
        value, -32002 for an unknown session, -32603 with Codex's message if Codex refuses."""
        session = self._session(session_id)
        await self._choose(session, option_id, lambda view: checked_value(view, option_id, value))
        session.sent_options = options = options_of(self._view(session))
        self._send_changes(session)
        return options

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        """Set the mode, for clients without config options. Raises as `set_config_option` does."""
        session = self._session(session_id)
        mode = await self._choose(session, MODE, lambda view: checked_mode(view, mode_id))
        if mode_of(self._view(session)) == mode:
            session.sent_mode = mode
        self._send_changes(session)

    def in_plan_mode(self, session_id: str) -> bool:
        session = self._sessions.get(session_id)
        return session is not None and session.settings.collaboration == PLAN

    def leaving_plan_mode(self, session_id: str) -> JsonObject:
        """Return the patch with which a turn leaves plan mode; nothing if plan mode is off."""
        if not self.in_plan_mode(session_id):
            return {}
        return choice_patch(self._view(self._session(session_id)), COLLABORATION, DEFAULT)

    async def set_plan_mode(self, session_id: str, wanted: bool | None) -> bool:
        """Turn Codex's plan mode on or off; ``wanted`` None: toggle it. Return whether it is on.
        Raises RpcError: -32602 if this Codex has no plan mode, -32603 if Codex refuses."""
        session = self._session(session_id)
        if self._catalogues is not None:
            await _wait_for(CHOICE_WAIT_SECONDS, self._catalogues.done)

        def check(view: ConfigView) -> str:
            if not any(option.id == COLLABORATION for option in options_of(view)):
                raise RpcError(INVALID_PARAMS, "this Codex offers no plan mode")
            on = view.settings.collaboration != PLAN if wanted is None else wanted
            return checked_value(view, COLLABORATION, PLAN if on else DEFAULT)

        chosen = await self._choose(session, COLLABORATION, check)
        self._send_changes(session)
        return chosen == PLAN

    async def _choose(
        self, session: ConfigSession, option_id: str, check: Callable[[ConfigView], str]
    ) -> str:
        """Set an option to the value that ``check`` returns, and return the value. ``check`` raises
        RpcError for a value that the client may not set."""
        async with session.lock:
            if self._sessions.get(session.id) is not session:  # closed while another change ran
                raise not_open(session.id)
            value = check(self._view(session))
            if option_id == TRUST:
                await self._trust(session, value)
                return value
            patch = choice_patch(self._view(session), option_id, value)
            before = session.settings
            changes_rights = option_id in (MODE, COLLABORATION) and not meets(before, patch)
            turn_runs = changes_rights and self._agent_sessions.rights_changed(session.id)
            if changes_rights:
                turns = self._agent_sessions.running_turns(session.id)
                earlier = session.began_with
                session.began_with = {turn: earlier.get(turn, before) for turn in turns}
            try:
                await session.change(patch)
            except CodexAcpError:
                self._send_changes(session)  # Codex may have changed something else meanwhile
                raise
            if session.id not in self._sessions:  # closed meanwhile
                return value
            if option_id == MODE:
                if meets(session.settings, patch):
                    session.chosen = (value, session.settings.access)
                below = self._agent_sessions.sub_agents_of(session.id)
                await self._change_sub_agents(session, before.access, below)
            if turn_runs:
                began_with = session.began_with.items()
                own = (began for (thread, _turn), began in began_with if thread == session.id)
                self._say_from_next_turn(session, option_id, next(own, before))
            return value

    def sub_agent_found(self, session_id: str, thread_id: str, parent_id: str) -> None:
        """Give a new sub-agent the session's access, if a turn with another access started it."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        earlier = session.kept_access.get(parent_id) or session.inherited.get(parent_id)
        for turn in self._agent_sessions.running_turns(session_id):
            if turn[0] == parent_id and turn in session.began_with:
                earlier = session.began_with[turn].access
        if earlier is not None and earlier != session.settings.access:
            access = session.inherited[thread_id] = earlier
            self._spawn(lambda: self._change_sub_agents(session, access, [thread_id]))

    async def _change_sub_agents(
        self, session: ConfigSession, earlier: Access, threads: list[str]
    ) -> None:
        """Give sub-agents the access of the session; tell the person which sub-agents keep their
        access: the ``earlier`` access, or an older one. A thread that is not loaded gets the access
        when Codex loads it."""
        codex = session.codex
        refused = await session.change_sub_agents(threads)
        current = self._sessions.get(session.id)  # the session may have been opened again
        if current is None or current.codex is not codex:
            return
        keeping: dict[tuple[str, bool], list[str]] = {}
        for thread_id in refused:
            kept = current.keep_access(thread_id, earlier)
            key = access_words(kept), is_wider(kept, current.settings.access)
            keeping.setdefault(key, []).append(thread_id)
        for (access, wider), kept_by in keeping.items():
            reasons = "; ".join(dict.fromkeys(refused[each] for each in kept_by))
            text = (
                f"Codex did not give the mode to sub-agents that it has started: "
                f"{', '.join(kept_by)} ({reasons}). They keep theirs: {access}"
                f"{', so each turn that they begin is interrupted' if wider else ''}. "
                "New sub-agents get the mode of the session."
            )
            self._agent_sessions.send(session.id, _notice(text))

    def _say_from_next_turn(self, session: ConfigSession, option_id: str, before: Settings) -> None:
        """Tell the person that the turn that runs keeps its mode."""
        if option_id == MODE:
            option, earlier = "mode", f"with the earlier one: {access_words(before.access)}"
        else:
            option, earlier = "collaboration mode", f"in the earlier one, {before.collaboration}"
        text = f"The {option} counts from the next turn on. What runs now goes on {earlier}."
        self._agent_sessions.send(session.id, _notice(text))

    async def _trust(self, session: ConfigSession, value: str) -> None:
        """Store that the person trusts the directory; send the new options to the other sessions of
        the directory. The client of ``session`` gets them in the answer."""
        root, trusted = session.directory.untrusted_root, session.directory.now_trusted
        if trusted and value != TRUSTED:
            message = f"value: {root} is trusted already; take that back in Codex's configuration"
            raise RpcError(INVALID_PARAMS, message, {"field": "value", "valid": [True]})
        if value != TRUSTED or root is None or trusted:
            return
        await session.ask("config/batchWrite", trust_edit(root))
        for each in self._sessions.values():
            if each.directory.untrusted_root == root:
                each.directory.now_trusted = True
                if each is not session:
                    self._send_changes(each)

    def _session(self, session_id: str) -> ConfigSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise not_open(session_id)
        return session

    # Updates to the client.

    def _view(self, session: ConfigSession) -> ConfigView:
        features = self._agent_sessions.features(session.id)
        return session.view(booleans=features.boolean_config_options)

    def _send_changes(self, session: ConfigSession) -> None:
        """Send the options and the mode of an open session if they have changed for the client."""
        if session.sent_options is None or self._sessions.get(session.id) is not session:
            return
        options = options_of(self._view(session))
        if options != session.sent_options:
            session.sent_options = options
            self._agent_sessions.send(session.id, OptionsChanged(options))
        mode = options[_MODE_INDEX].current
        if mode != session.sent_mode and mode in session.sent_modes:
            session.sent_mode = mode
            self._agent_sessions.send(session.id, ModeChanged(mode))


def _notice(text: str) -> SessionEvent:
    from codex_acp.mapping.messages import make_notice

    return make_notice(text)


async def _wait_for(seconds: float, *events: asyncio.Event) -> None:
    """Wait until all events are set, or for ``seconds``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()
