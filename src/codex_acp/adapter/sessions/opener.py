"""Open a session by starting a new thread, resuming a stored one, or forking one.

Owns these calls of Codex and the handling of their failures. The caller turns the client's request
into params of a thread, and the `OpeningResult` into the answer of the ACP method. This module also
makes a session ready before each prompt: the newest Codex has to load the session's thread, and the
client's MCP servers have to start.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal
from weakref import WeakValueDictionary

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp._record import NamedTuple
from codex_acp.adapter.login_check import LoginCheck
from codex_acp.adapter.sessions import opening_errors
from codex_acp.adapter.sessions.model_route import ModelRoute, configuration
from codex_acp.adapter.tasks import SessionScopes, alone
from codex_acp.codex._generated.methods import MODELS as CODEX_MODELS
from codex_acp.codex.connection.shared_calls import (
    is_no_directory,
    is_open_elsewhere,
    let_go,
)
from codex_acp.codex.threads.opening import untrusted_opening
from codex_acp.codex.threads.trust import (
    linked_instructions,
    unused_folders,
    without_false_worktree,
)
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    InvalidPayload,
    NotAnswered,
    RpcError,
    ThreadOpenElsewhere,
    TransportError,
)
from codex_acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    JsonValue,
)
from codex_acp.mapping.session_setup import canonical_id, with_configured_instructions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.adapter.config_choices import Directory
    from codex_acp.adapter.config_options import Config, How
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.server.threadless_notifications import HeldNotifications
    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.sessions.sessions import OpenSession, Sessions
    from codex_acp.codex._generated.models import Thread
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.thread_peers import ThreadPeers
    from codex_acp.mapping.state import SessionState

logger = logging.getLogger(__name__)

UNLOAD_SECONDS: Final = 5.0
"""Seconds for Codex to unload a thread, or to store a thread that was never prompted when the
client closes the session."""

STORE_SECONDS: Final = 1.0
"""Seconds for Codex to store a thread that was never prompted, when the thread is handed over or
the adapter ends. Shorter than `thread_peers.LET_GO_SECONDS`, the time of a hand-over."""


class Setup(NamedTuple):
    """Arguments of a client for a session, read by `mapping.session_setup`."""

    params: dict[str, JsonValue]
    servers: frozenset[str] = frozenset()
    """Names of the client's MCP servers that are passed on to Codex."""
    notices: tuple[str, ...] = ()
    """Texts for the person, to send when the session is open."""
    client: SessionClient | None = None
    """The session's own client, if it has one (over the network)."""
    cancels: bool = False
    """Whether a process that has the session open cancels its turn to hand the session over."""

    @property
    def cwd(self) -> str:
        return str(self.params["cwd"])


class OpeningResult(NamedTuple):
    """A session that was opened, and the answer to the client."""

    session_id: str
    how: How
    answer: dict[str, JsonValue]
    """``modes`` and ``configOptions`` of the answer, as plain JSON."""
    notices: tuple[str, ...]
    """Texts for the person, to send when the client knows the session."""


class SessionOpener:
    """Opens sessions on the newest connection to Codex. ``peers`` returns the `ThreadPeers` that
    asks other processes for sessions."""

    def __init__(
        self,
        app_server: AppServer,
        sessions: Sessions,
        config: Config,
        peers: Callable[[], ThreadPeers],
    ) -> None:
        self._app_server = app_server
        self.codex = app_server.connection
        """Returns the newest connection to Codex, or starts a Codex. Raises RpcError -32603."""
        self._sessions = sessions
        self._config = config
        self.login: LoginCheck = LoginCheck()
        """Checks whether a login is needed first."""
        self.route: ModelRoute = ModelRoute()
        """The route of model calls: Codex's configuration, or the client's gateway."""
        self._peers = peers
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.openings: SessionScopes = SessionScopes()
        """The openings of stored sessions, also the openings that wait for the lock."""
        self.waiting_prompts: SessionScopes = SessionScopes()
        """The prompts that wait until their session is ready."""

    async def _prepare(self, setup: Setup) -> tuple[AppServerConnection, Setup, JsonValue]:
        """Return a connection, the setup to use, and Codex's configuration of the directory (None
        if Codex does not return it).

        Raises RpcError: -32602 for a path that is no directory, -32000 if the model provider needs
        a login first, -32603.
        """
        codex = await self.codex()
        await _check_directories(codex, setup.params)
        needs_login = self.route.gateway is None  # a gateway needs no login of Codex
        consent = self._sessions.git_consent
        try:
            _, config_read, _ = await asyncio.gather(
                self.login.check(codex) if needs_login else asyncio.sleep(0),
                configuration(codex, setup.cwd),
                consent.not_agreed(setup.cwd),  # reads git's configuration for the first prompt
            )
        except (ErrorReply, NotAnswered, TransportError) as error:
            raise opening_errors.session_error(error) from error
        if codex.believes_worktrees:  # this Codex trusts directories that call themselves worktrees
            params = without_false_worktree(setup.params, setup.cwd, config_read)
            setup = setup._replace(params=params)
        if "developerInstructions" in setup.params:  # the configured instructions come first
            setup = setup._replace(params=with_configured_instructions(setup.params, config_read))
        return codex, setup, config_read

    async def start(self, setup: Setup) -> OpeningResult:
        """Open a session with a new thread. Raises RpcError: -32000, -32602, -32603."""
        codex, setup, config_read = await self._prepare(setup)
        return await self._begin(codex, setup, config_read)

    async def fork(self, session_id: str, setup: Setup) -> OpeningResult:
        """Open a session with a copy of a thread. Raises RpcError: -32002 and as `start`."""
        codex, setup, config_read = await self._prepare(setup)
        await self._sessions.ensure_git_consent(
            codex, setup.cwd, session_id, setup.client, opens=False
        )
        await self._store(codex, session_id)  # Codex copies only stored items
        try:
            return await self._begin(codex, setup, config_read, session_id)
        except RpcError as error:
            thread = await opening_errors.explain_refusal(codex, session_id, error)
            if not self.route.note_earlier_gateway(thread):
                raise
            # `ModelRoute.open` now gives the copy the configured provider.
            return await self._begin(codex, setup, config_read, session_id)

    async def _begin(
        self,
        codex: AppServerConnection,
        setup: Setup,
        config_read: JsonValue,
        source: str | None = None,
    ) -> OpeningResult:
        """Open a session with a new thread, or with a copy of the thread ``source``."""
        params = self.with_defaults(setup.params)
        restore: dict[str, JsonValue] | None = None  # settings to change after the opening
        how: How
        if source is None:
            how, method = "new", "thread/start"
            params, restore = untrusted_opening(params, config_read)
        else:
            how, method = "fork", "thread/fork"
            params |= {"threadId": source, "excludeTurns": True}
        directory = self._config.ask_lists(codex, setup.cwd, config_read)
        with self._sessions.opening():
            try:
                result = await self.route.open(codex, method, params, source)
                thread_id = text_at(result, "thread", "id")
                if thread_id is None:  # decoding raises an error that names the fault, if it can
                    what = f"the result of {method}"
                    CODEX_MODELS.decode("ThreadStartResponse", result, what)
                    raise InvalidPayload(what, ("thread.id: is missing",))
                state = None if source is None else self._title_state(result, setup.client)
                self._sessions.open(
                    thread_id, setup.params, setup.servers, state=state, client=setup.client
                )
            except CodexAcpError as error:
                raise opening_errors.session_error(error) from error
        try:
            return await self._open_settings(
                thread_id, codex, result, how, setup, directory, source=source, restore=restore
            )
        except BaseException:  # the request failed or was cancelled: no client knows the session
            await self.drop(thread_id)
            raise

    async def resume(
        self, session_id: str, setup: Setup, how: Literal["load", "resume"]
    ) -> OpeningResult:
        """Open a session with a stored thread; for ``load``, show the history first.

        A session that is already open here is opened again, unless a prompt runs in it. Raises
        RpcError: -32600 while a prompt runs, another request opens the session or the client closes
        the session; -32000, -32002, -32602, -32603.
        """
        if canonical_id(session_id) != session_id:  # notifications would name another id
            raise opening_errors.unknown_session(session_id)
        opened: OpeningResult | None = None
        with self.openings.entered(session_id):
            opened = await self._reopen(session_id, setup, how)
        if opened is None:  # the client has closed the session, which has cancelled the block
            raise opening_errors.closed_meanwhile(session_id)
        return opened

    async def _reopen(
        self, session_id: str, setup: Setup, how: Literal["load", "resume"]
    ) -> OpeningResult:
        """Carry `resume` out, while no other request opens, closes or archives the session."""
        async with alone(self.lock(session_id), session_id):
            codex, setup, config_read = await self._prepare(setup)
            self._check_no_prompt(session_id)
            await self._sessions.ensure_git_consent(codex, setup.cwd, session_id, setup.client)
            directory = self._config.ask_lists(codex, setup.cwd, config_read)
            earlier = self._sessions.open_session(session_id)
            if earlier is not None and earlier.session is not None:
                await self._leave_earlier(earlier, earlier.session, codex, setup)
            with self._sessions.reopening(session_id) as held:
                result = await self._resume(codex, session_id, setup)
                try:
                    state = await self._restore_state(
                        codex, session_id, result, held, how, setup.client
                    )
                    if earlier is not None:
                        from codex_acp.adapter.sessions.replay import add_background_commands

                        client = setup.client or self._sessions.client_of(None)
                        state = await add_background_commands(
                            codex, session_id, state, client, with_history=how == "load"
                        )
                        await self._check_still_open(earlier, codex, session_id)
                    if "thread/deleted" in held.methods:
                        raise opening_errors.deleted_meanwhile(session_id)
                except BaseException:
                    await self.unload(codex, session_id)
                    raise
                self._sessions.open(
                    session_id, setup.params, setup.servers,
                    held=held, state=state, client=setup.client,
                )  # fmt: skip
                self._sessions.find(session_id)  # makes the `Session`, which shows ``held``
            try:
                return await self._open_settings(session_id, codex, result, how, setup, directory)
            except BaseException:
                if not self._is_busy(session_id):
                    if earlier is None:
                        await self.drop(session_id)
                    else:
                        self._sessions.put_back(session_id, earlier)
                raise

    async def _leave_earlier(
        self, earlier: OpenSession, session: Session, codex: AppServerConnection, setup: Setup
    ) -> None:
        """Detach a `Session` that is opened again; unload its thread if Codex must read params."""
        await self._store(codex, session.id)
        self._check_no_prompt(session.id)  # a prompt may have come during `_store`
        earlier.unloaded = True  # if this opening fails, the next prompt resumes the thread
        earlier_params = {**earlier.params, "runtimeWorkspaceRoots": [*earlier.roots]}
        has_commands = bool(session.state_event.background)
        session.detach()
        # Codex ignores new params for a loaded thread, but to unload it ends background commands.
        if not has_commands or setup.params != earlier_params:
            await self.unload(codex, session.id)

    async def wait_ready(self, session_id: str) -> bool:
        """Wait until an open session is ready for a prompt; return False if the client cancels the
        prompts that wait. Raises as `ensure_live`."""
        opened = self._sessions.open_session(session_id)
        if opened is None or (
            self._sessions.is_live(session_id) and not opened.awaited_mcp_servers
        ):
            return True
        with self.waiting_prompts.entered(session_id) as scope:
            await self.ensure_live(session_id)
            await self._wait_for_servers(session_id)
        return not scope.cancel_called

    async def _wait_for_servers(self, session_id: str) -> None:
        """Wait for the client's MCP servers, for a bounded time; name those that still start."""
        opened = self._sessions.open_session(session_id)
        if opened is None or not opened.awaited_mcp_servers:
            return
        startups = self._sessions.intake.mcp
        still_starting = await startups.wait_started(session_id, opened.awaited_mcp_servers)
        if not opened.awaited_mcp_servers:  # another prompt waited meanwhile, and sent the notice
            return
        opened.awaited_mcp_servers = frozenset()
        session = self._sessions.find(session_id)
        if still_starting and session is not None:
            names = ", ".join(f'"{name}"' for name in still_starting)
            session.say(f"Still starting, so their tools come later: the MCP servers {names}")

    async def ensure_live(self, session_id: str) -> None:
        """Resume the thread of an open session on the newest Codex, unless the thread is loaded
        there. Raises RpcError: -32002 if Codex does not have the thread any more, -32603."""
        if self._sessions.is_live(session_id):
            return
        async with self.lock(session_id):
            opened = self._sessions.open_session(session_id)
            session = self._sessions.find(session_id)
            if opened is None or session is None:
                raise opening_errors.unknown_session(session_id)
            if self._sessions.is_live(session_id):
                return
            codex = await self.codex()
            await self._sessions.ensure_git_consent(codex, opened.cwd, session_id)
            logger.info("resuming the thread of session %s", session_id)
            if opened.codex is codex:  # Codex ignores new params for a thread that is loaded
                await self._store(codex, session_id)
                await self.unload(codex, session_id)
            with self._sessions.reopening(session_id) as held:
                try:
                    setup = Setup(opened.params, client=opened.client)
                    result = await self._resume(codex, session_id, setup)
                except RpcError as error:
                    if error.code == RESOURCE_NOT_FOUND:
                        raise opening_errors.never_stored(session_id, error) from error
                    raise
                await self._learn_running_turn(codex, session_id, result, held)
                await self._check_still_open(opened, codex, session_id)
                self._sessions.move(session_id, held)
            try:
                await self._config.move(session_id, codex, result)
            except RpcError:
                opened.unloaded = True  # no turn runs before a resume with the person's rights
                raise

    async def store_unprompted(self, session_id: str, bound: float = STORE_SECONDS) -> None:
        """Have Codex store an open session that was never prompted, within ``bound`` seconds; never
        fails. Codex runs git when it stores a thread, so this has no effect without the consent to
        git's programs."""
        opened = self._sessions.open_session(session_id)
        if opened is None or opened.prompted or opened.codex.closed:
            return
        if not self._sessions.git_consent.is_given(opened.cwd):
            return
        with suppress(CodexAcpError, TimeoutError):
            async with asyncio.timeout(bound):
                await self._store(opened.codex, session_id)

    async def unload(self, codex: AppServerConnection, session_id: str) -> None:
        """Have Codex unload the thread, so that any process may open it; bounded, never fails."""
        with suppress(CodexAcpError, TimeoutError):
            async with asyncio.timeout(UNLOAD_SECONDS):
                await let_go(codex, session_id)

    async def drop(self, session_id: str) -> None:
        """Close a session whose opening failed or was cancelled, and unload its thread."""
        opened = self._sessions.open_session(session_id)
        self._sessions.close(session_id)
        self._config.forget(session_id)
        if opened is not None:
            await self.unload(opened.codex, session_id)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock that a request holds while it opens, closes or archives a session."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    # Steps.

    async def _store(self, codex: AppServerConnection, session_id: str) -> None:
        """Have Codex store the thread of an open session, so that it can be resumed."""
        opened = self._sessions.open_session(session_id)
        if opened is not None and opened.codex is codex:
            # Codex drops an item of this type: it adds no history and no name, and the model never
            # sees it.
            params: dict[str, JsonValue] = {"threadId": session_id, "items": [{"type": "other"}]}
            with suppress(ErrorReply, NotAnswered):  # a later resume reports the fault
                await codex.call_raw("thread/inject_items", params)

    async def _open_settings(
        self, session_id: str, codex: AppServerConnection, result: JsonValue, how: How,
        setup: Setup, directory: Directory, *, source: str | None = None,
        restore: dict[str, JsonValue] | None = None,
    ) -> OpeningResult:  # fmt: skip
        """Open a session's settings with `Config.open`; return them with the session's notices."""
        defaults = self._app_server.defaults
        first_mode = defaults.mode if how == "new" else None
        config = await self._config.open(
            session_id, codex, result, how=how, directory=directory, source=source,
            restore=restore, first_mode=first_mode,
        )  # fmt: skip
        unrestored = config.unrestored
        if how == "new" and directory.config_read is None:
            unrestored = "it does not tell what is configured"  # the reason in `unrestored_line`
        notices = [*defaults.notices, *config.first_mode_notices, *setup.notices]
        notices += _notices(directory, unrestored, linked_instructions(result))
        return OpeningResult(session_id, how, self._config.answer(session_id), tuple(notices))

    def with_defaults(self, from_client: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the params of a thread: the client's params and this agent's defaults."""
        return self._app_server.defaults.params(dict(from_client))

    async def _check_still_open(
        self, opened: OpenSession, codex: AppServerConnection, session_id: str
    ) -> None:
        """Unload the thread and raise RpcError -32002 if the session was closed meanwhile."""
        if self._sessions.open_session(session_id) is not opened:
            await self.unload(codex, session_id)
            raise opening_errors.unknown_session(session_id)

    def _check_no_prompt(self, session_id: str) -> None:
        """Raise RpcError -32600 if a prompt runs in a session."""
        if self._is_busy(session_id):
            message = "a prompt runs in this session; wait for its end, or cancel it, to open it"
            raise RpcError(INVALID_REQUEST, message)

    def _is_busy(self, session_id: str) -> bool:
        session = self._sessions.find(session_id)
        return session is not None and session.driver.busy

    async def _resume_or_take(
        self, codex: AppServerConnection, session_id: str, setup: Setup
    ) -> JsonValue:
        """Resume a thread; if another process has it open, ask that process to hand it over."""
        params = self.with_defaults(setup.params) | {"threadId": session_id, "excludeTurns": True}
        resume = partial(self.route.open, codex, "thread/resume", params, session_id)
        try:
            return await resume()
        except ErrorReply as error:
            if not is_open_elsewhere(error):
                raise
            owner = None if setup.client is None else setup.client.owner
            return await self._peers().take(
                codex, session_id, resume, error, owner=owner, cancels=setup.cancels
            )

    async def _resume(self, codex: AppServerConnection, session_id: str, setup: Setup) -> JsonValue:
        """Call `_resume_or_take`; turn an error of Codex into the RpcError for the client."""
        try:
            return await self._resume_or_take(codex, session_id, setup)
        except ThreadOpenElsewhere as error:
            raise opening_errors.busy_elsewhere(session_id, error.pid, error.holder) from error
        except asyncio.CancelledError:
            await self.unload(codex, session_id)  # Codex still loads the thread
            raise
        except CodexAcpError as error:
            failure = opening_errors.session_error(error)
            if isinstance(error, NotAnswered):
                await self.unload(codex, session_id)  # Codex may still load the thread
            if isinstance(error, ErrorReply):
                await opening_errors.raise_if_open_elsewhere(codex, session_id, error)
                thread = await opening_errors.explain_refusal(codex, session_id, failure)
                if self.route.note_earlier_gateway(thread):  # True at most once
                    return await self._resume(codex, session_id, setup)
            raise failure from error

    async def _learn_running_turn(
        self,
        codex: AppServerConnection,
        session_id: str,
        result: JsonValue,
        held: HeldNotifications,
    ) -> str | None:
        """Return the id of the turn that runs in a resumed thread, or None. Report the turn to the
        session and the routing, because Codex sends the turn's open requests again."""
        thread = object_at(result, "thread")
        turns: list[JsonValue] = []
        if text_at(thread, "status", "type") == "active":
            from codex_acp.adapter.sessions.replay import running_turn

            with suppress(CodexAcpError):
                running = await running_turn(codex, session_id)
                turns = [running] if running else []
        if not turns and thread.get("parentThreadId") is None:
            return None  # no turn runs, and the thread is no sub-agent's
        try:
            decoded: Thread = CODEX_MODELS.decode("Thread", {**thread, "turns": turns}, "a thread")
        except CodexAcpError as error:
            logger.warning("thread %s: %s", session_id, error)
            return None
        self._sessions.intake.items.learn_thread(decoded)
        held.put_first(("turn/started", {"threadId": session_id, "turn": turn}) for turn in turns)
        return decoded.turns[0].id if decoded.turns else None

    def _title_state(self, result: JsonValue, client: SessionClient | None) -> SessionState | None:
        """Return the mapping's state for a thread that has a title; None for no title."""
        from codex_acp.mapping.session import title_of
        from codex_acp.mapping.state import SessionState

        if title_of(value_at(result, "thread")) is None:
            return None
        features = (client or self._sessions.client_of(None)).features
        return SessionState(features, has_title=True)

    async def _restore_state(
        self, codex: AppServerConnection, session_id: str, result: JsonValue,
        held: HeldNotifications, how: How, client: SessionClient | None,
    ) -> SessionState | None:  # fmt: skip
        """Note the turn that runs, show the history for ``load``; return the mapping's state."""
        running = await self._learn_running_turn(codex, session_id, result, held)
        if how != "load":
            return self._title_state(result, client)
        from codex_acp.adapter.sessions.replay import replay_history

        client = client or self._sessions.client_of(None)
        return await replay_history(codex, session_id, client, result, running)


def _notices(
    directory: Directory, unrestored: str | None, linked: Sequence[tuple[str, str]]
) -> list[str]:
    """Return texts about configuration that is left out of a directory that nobody trusts, settings
    that Codex refused (``unrestored``), and instructions ``linked`` from another directory."""
    found = [] if directory.untrusted_root is None else unused_folders(directory.config_read)
    if not found and not linked and unrestored is None:
        return []
    from codex_acp.mapping.trust import left_out_line, linked_line, unrestored_line

    notices = [left_out_line(found, str(directory.untrusted_root))] if found else []
    notices += [linked_line(linked)] if linked else []
    return notices if unrestored is None else [*notices, unrestored_line(unrestored)]


async def _check_directories(codex: AppServerConnection, params: Mapping[str, JsonValue]) -> None:
    """Raise RpcError -32602 for a path in the params of a thread that surely is no directory."""
    more = list_at(params, "runtimeWorkspaceRoots")[1:]  # the first one is the ``cwd``
    for field, path in (("cwd", params.get("cwd")), *(("additionalDirectories", p) for p in more)):
        if isinstance(path, str) and await is_no_directory(codex, path):
            message = f"{field}: {path!r} is not a directory; create it, or name another one"
            raise RpcError(INVALID_PARAMS, message)
