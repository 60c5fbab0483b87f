"""How a session comes to be open: by a new thread, a stored one, or a copy of one.

Owns the calls of Codex for that and what is done when they fail. What the client asked for
arrives as params of a thread; what it is answered with besides the session is the caller's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol
from weakref import WeakValueDictionary

from codex_acp._json import object_at, text_at, value_at
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.login_check import LoginCheck
from codex_acp.adapter.sessions import opening_errors
from codex_acp.adapter.sessions.directories import check_directories
from codex_acp.adapter.sessions.model_route import ModelRoute, configuration
from codex_acp.codex._generated.methods import MODELS as CODEX_MODELS
from codex_acp.codex.connection.shared_calls import is_open_elsewhere, let_go
from codex_acp.codex.threads.opening import opening
from codex_acp.codex.threads.trust import left_out_here, linked_instructions, without_false_worktree
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    InvalidPayload,
    NotAnswered,
    RpcError,
    TransportError,
)
from codex_acp.jsonrpc.message import INVALID_REQUEST, RESOURCE_NOT_FOUND, JsonValue
from codex_acp.mapping.session_setup import canonical_id, started_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.adapter.config_choices import Place
    from codex_acp.adapter.config_options import Config, How
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.server.held_notifications import HeldNotifications
    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.sessions import OpenSession, Sessions
    from codex_acp.codex._generated.models import Thread
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.state import SessionState

logger = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 5.0
"""How long Codex may take to let go of a thread; what comes next does not depend on it."""

KEEP_SECONDS: Final = 0.25
"""How long Codex may take to store a thread that nobody has prompted."""


class Setup(NamedTuple):
    """Arguments of a client for a session, read by `mapping.session_setup`."""

    params: dict[str, JsonValue]
    servers: frozenset[str] = frozenset()
    """Names of its MCP servers that were passed on."""
    said: tuple[str, ...] = ()
    """Lines for the person, to be said when the session is open."""
    audience: SessionClient | None = None
    """SessionClient of the session, if it has one of its own."""
    cancels: bool = False
    """Whether what runs in it in another process shall be cancelled, to have it here."""

    @property
    def cwd(self) -> str:
        """The working directory."""
        return str(self.params["cwd"])


class TakesOver(Protocol):
    """Takes sessions over, as `HandOver` does."""

    async def take(
        self,
        codex: AppServerConnection,
        session_id: str,
        cancels: bool,
        audience: SessionClient | None,
        again: Callable[[], Awaitable[JsonValue]],
        refused: ErrorReply,
    ) -> JsonValue:
        """Have a session handed over to ``audience``; give what ``again`` gives, which opens it."""


class OpeningResult(NamedTuple):
    """A session that is open."""

    session_id: str
    how: How
    answer: dict[str, JsonValue]
    """``modes`` and ``configOptions`` of the answer, as plain JSON."""
    said: tuple[str, ...]
    """Lines for the person, to be said when the client knows the session."""


class SessionOpener:
    """Opens sessions on the newest connection to Codex, and again on a later one."""

    def __init__(self, app_server: AppServer, sessions: Sessions, config: Config) -> None:
        self._app_server = app_server
        self._sessions = sessions
        self._config = config
        self.login: LoginCheck = LoginCheck()
        """Whether somebody has to log in first."""
        self.route: ModelRoute = ModelRoute()
        """Where the model is asked."""
        self.hand_over: Callable[[], TakesOver] | None = None
        """Gives what asks other processes for a session."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._openings: dict[str, list[CancelScope]] = {}
        """Around each opening of a stored session, also while it waits for another."""

    async def codex(self) -> AppServerConnection:
        """A Codex that can open sessions. Raises RpcError: -32603 if there is none."""
        return await self._app_server.client()

    async def _ready_for(self, setup: Setup) -> tuple[AppServerConnection, Setup, JsonValue]:
        """As `codex`, with the configuration in the session's directory, None if untold.

        Raises RpcError: -32602 for what is no directory, -32000 if its model provider needs a
        login first, -32603.
        """
        codex = await self.codex()
        await check_directories(codex, setup.params)
        reading, consent = configuration(codex, setup.cwd), self._sessions.git_consent
        try:  # all at once; what is found of git is for the first prompt
            if self.route.gateway is not None:  # which has a login of its own, if any
                read, _ = await asyncio.gather(reading, consent.look(setup.cwd))
            else:
                checking, looking = self.login.check(codex), consent.look(setup.cwd)
                _, read, _ = await asyncio.gather(checking, reading, looking)
        except (ErrorReply, NotAnswered, TransportError) as error:
            raise opening_errors.session_error(error) from error
        if codex.believes_worktrees:
            setup = setup._replace(params=without_false_worktree(setup.params, setup.cwd, read))
        if "developerInstructions" in setup.params:  # the configured ones stand before those
            from codex_acp.mapping.session_setup import behind_configured

            setup = setup._replace(params=behind_configured(setup.params, read))
        return codex, setup, read

    async def start(self, setup: Setup) -> OpeningResult:
        """A new thread. Raises RpcError: -32000, or -32603 when Codex cannot."""
        codex, setup, read = await self._ready_for(setup)
        return await self._begin(codex, "new", "thread/start", setup, read)

    async def fork(self, session_id: str, setup: Setup) -> OpeningResult:
        """A copy of a stored thread. Raises RpcError: -32002, -32000, -32603."""
        codex, setup, read = await self._ready_for(setup)
        await self._git_consent(codex, session_id, setup, opens=False)
        await self._keep(codex, session_id)
        try:
            return await self._begin(codex, "fork", "thread/fork", setup, read, session_id)
        except RpcError as error:
            from codex_acp.adapter.sessions.stored_threads import must_be_usable

            if not self.route.helps(await must_be_usable(codex, session_id, error)):
                raise
            return await self._begin(codex, "fork", "thread/fork", setup, read, session_id)

    async def _begin(
        self,
        codex: AppServerConnection,
        how: How,
        method: str,
        setup: Setup,
        read: JsonValue,
        source: str | None = None,
    ) -> OpeningResult:
        params, restore = self.given(setup.params), None
        if source is None:
            params, restore = opening(params, read)
        else:
            params |= {"threadId": source, "excludeTurns": True}
        place = self._config.opening(codex, setup.cwd, how, read)
        with self._sessions.opening():
            try:
                result = await self.route.open(codex, method, params, source)
                thread_id = started_thread(result)
                if thread_id is None:  # what is wrong with it, the model says
                    what = f"the result of {method}"
                    CODEX_MODELS.decode("ThreadStartResponse", result, what)
                    raise InvalidPayload(what, ("thread.id: is missing",))
                state = None if source is None else self._titled(result, setup.audience)
                self._sessions.open(
                    thread_id, setup.params, setup.servers, state=state, audience=setup.audience
                )
            except CodexAcpError as error:
                raise opening_errors.session_error(error) from error
        try:
            return await self._result(
                thread_id, codex, result, how, setup, place, source=source, restore=restore
            )
        except BaseException:  # the client gave it up, so it will never know the session
            await self.drop(thread_id)
            raise

    async def resume(
        self, session_id: str, setup: Setup, how: Literal["load", "resume"]
    ) -> OpeningResult:
        """A stored thread, for a load its history first.

        One that is open here is opened anew, unless a prompt runs in it. Raises RpcError: -32002,
        -32600 while a prompt runs, another opens it or the client closes it, -32000, -32603.
        """
        if canonical_id(session_id) != session_id:  # what Codex says of it would find no session
            raise opening_errors.unknown_session(session_id)
        scope = CancelScope()
        self._openings.setdefault(session_id, []).append(scope)
        try:
            with scope:
                return await self._reopen(session_id, setup, how)
        finally:
            self._openings[session_id].remove(scope)
            if not self._openings[session_id]:
                del self._openings[session_id]
        raise opening_errors.closed_meanwhile(session_id)

    def is_opening(self, session_id: str) -> bool:
        """Whether a stored session is being opened, or waits for that."""
        return session_id in self._openings

    def give_up(self, session_id: str) -> None:
        """End what opens a stored session: the client closes it."""
        for scope in self._openings.get(session_id, ()):
            scope.cancel()

    async def _reopen(
        self, session_id: str, setup: Setup, how: Literal["load", "resume"]
    ) -> OpeningResult:
        from codex_acp.adapter.sessions.session_locks import alone

        async with alone(self.lock(session_id), session_id):
            codex, setup, read = await self._ready_for(setup)
            self._must_rest(session_id)
            await self._git_consent(codex, session_id, setup)
            place = self._config.opening(codex, setup.cwd, how, read)
            was_open = self._sessions.open_session(session_id)
            if was_open is not None and was_open.session is not None:
                # A thread that Codex has loaded for us keeps its directories and MCP servers.
                await self._keep(codex, session_id)
                self._must_rest(session_id)  # a prompt may have come; it is detached at once
                was_open.unloaded = True
                as_before = {**was_open.params, "runtimeWorkspaceRoots": [*was_open.roots]}
                works_on = was_open.session.state.background and setup.params == as_before
                was_open.session.detach()
                if not works_on:  # else its commands would end, for nothing
                    await self.let_go(codex, session_id)
            with self._sessions.reopening(session_id) as held:
                result = await self._resume(codex, session_id, setup)
                try:
                    state = await self._past(codex, session_id, result, held, how, setup.audience)
                    if was_open is not None:
                        state = await self._left_running(codex, session_id, state, how, setup)
                        await self._must_be(was_open, codex, session_id)
                    if "thread/deleted" in held.methods:
                        raise opening_errors.deleted_meanwhile(session_id)
                except BaseException:
                    await self.let_go(codex, session_id)
                    raise
                self._sessions.open(
                    session_id, setup.params, setup.servers,
                    held=held, state=state, audience=setup.audience,
                )  # fmt: skip
                self._sessions.known(session_id)  # the client knows it: what was kept follows now
            try:
                return await self._result(session_id, codex, result, how, setup, place)
            except BaseException:
                if was_open is None and not self._is_busy(session_id):
                    await self.drop(session_id)
                raise

    async def move(self, session_id: str) -> None:
        """Resume the thread of an open session whose Codex was lost, if it is not yet.

        Raises RpcError: -32002 if Codex does not have the thread any more, -32603.
        """
        async with self.lock(session_id):
            opened = self._sessions.open_session(session_id)
            session = self._sessions.known(session_id)
            if opened is None or session is None:
                raise opening_errors.unknown_session(session_id)
            if self._sessions.is_live(session_id):
                return
            codex = await self.codex()
            await self._git_consent(codex, session_id, Setup(opened.params))
            logger.info("resuming the thread of session %s", session_id)
            if opened.codex is codex:  # it is loaded: otherwise what it is given counts for nothing
                await self._keep(codex, session_id)
                await self.let_go(codex, session_id)
            with self._sessions.reopening(session_id) as held:
                try:
                    setup = Setup(opened.params, audience=opened.audience)
                    result = await self._resume(codex, session_id, setup)
                except RpcError as error:
                    if error.code == RESOURCE_NOT_FOUND:
                        raise opening_errors.never_stored(session_id, error) from error
                    raise
                await self._learn(codex, session_id, result, held)
                await self._must_be(opened, codex, session_id)
                self._sessions.move(session_id, held)
            try:
                await self._config.moved(session_id, codex, result)
            except RpcError:
                opened.unloaded = True  # it may do more than was chosen: nothing runs in it
                raise
            except CodexAcpError as error:
                logger.warning("session %s: its settings are not known: %s", session_id, error)

    async def keep(self, session_id: str) -> None:
        """Have what is open and was never prompted outlive its Codex; bounded, and never fails.

        Not where git may not run: storing a thread makes Codex look at the directory.
        """
        opened = self._sessions.open_session(session_id)
        if opened is None or opened.prompted or opened.codex.closed:
            return
        if not self._sessions.git_consent.stands(str(opened.params["cwd"])):
            return
        with suppress(CodexAcpError, TimeoutError):
            async with asyncio.timeout(KEEP_SECONDS):
                await self._keep(opened.codex, session_id)

    async def let_go(self, codex: AppServerConnection, session_id: str) -> None:
        """Have Codex unload the thread, so that any process may open it; bounded, never fails."""
        with suppress(CodexAcpError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await let_go(codex, session_id)

    async def drop(self, session_id: str) -> None:
        """Close a session that was opened for somebody who has given it up; as `let_go`."""
        opened = self._sessions.open_session(session_id)
        self._sessions.close(session_id)
        self._config.closed(session_id)
        if opened is not None:
            await self.let_go(opened.codex, session_id)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Held while a stored session is opened, and while it is moved to the archive or back."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    # The steps.

    async def _keep(self, codex: AppServerConnection, session_id: str) -> None:
        """Have Codex store the thread of an open session, which it needs to open it once more."""
        opened = self._sessions.open_session(session_id)
        if opened is not None and opened.codex is codex:
            from codex_acp.adapter.sessions.stored_threads import ensure_stored

            await ensure_stored(codex, session_id)

    async def _result(
        self, session_id: str, codex: AppServerConnection, result: JsonValue, how: How,
        setup: Setup, place: Place, *, source: str | None = None,
        restore: dict[str, JsonValue] | None = None,
    ) -> OpeningResult:  # fmt: skip
        defaults = self._app_server.defaults
        begin = defaults.mode if defaults is not None and how == "new" else None
        try:
            answer = await self._config.open(
                session_id, codex, result, how=how, place=place, source=source, restore=restore,
                begin=begin,
            )  # fmt: skip
        except CodexAcpError as error:  # Codex has just ended: the first prompt finds out
            logger.warning("session %s: its settings are not known: %s", session_id, error)
            answer = {}
        unrestored = self._config.unrestored(session_id)
        if how == "new" and place.read is None:
            unrestored = "it does not tell what is configured"
        told = () if defaults is None else (*defaults.said, *self._config.began(session_id))
        said = (*told, *setup.said, *_said_of(place, unrestored, linked_instructions(result)))
        return OpeningResult(session_id, how, answer, said)

    async def _git_consent(
        self, codex: AppServerConnection, session_id: str, setup: Setup, *, opens: bool = True
    ) -> None:
        """Ask before a thread is loaded or copied, with which Codex runs git. Raises RpcError."""
        await self._sessions.ensure_git_consent(
            codex, setup.cwd, session_id, setup.audience, opens=opens
        )

    def given(self, client: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The params of a thread: the client's, and what each session is given here."""
        params, defaults = dict(client), self._app_server.defaults
        return params if defaults is None else defaults.params(params)

    async def _must_be(
        self, opened: OpenSession, codex: AppServerConnection, session_id: str
    ) -> None:
        """Raise RpcError -32002 if it was closed while it is opened again, which can take long."""
        if self._sessions.open_session(session_id) is not opened:
            await self.let_go(codex, session_id)
            raise opening_errors.unknown_session(session_id)

    def _must_rest(self, session_id: str) -> None:
        """Raise RpcError -32600 if a prompt runs in a session."""
        if self._is_busy(session_id):
            message = "a prompt runs in this session; wait for its end, or cancel it, to open it"
            raise RpcError(INVALID_REQUEST, message)

    def _is_busy(self, session_id: str) -> bool:
        session = self._sessions.known(session_id)
        return session is not None and session.busy

    async def _resume(self, codex: AppServerConnection, session_id: str, setup: Setup) -> JsonValue:
        params = self.given(setup.params) | {"threadId": session_id, "excludeTurns": True}
        try:
            return await self._resumed(codex, session_id, params, setup)
        except asyncio.CancelledError:
            await self.let_go(codex, session_id)  # which Codex opens all the same
            raise
        except CodexAcpError as error:
            failure = opening_errors.session_error(error)
            if isinstance(error, NotAnswered):
                await self.let_go(codex, session_id)  # which Codex may still open
            if isinstance(error, ErrorReply):
                from codex_acp.adapter.sessions import stored_threads

                await stored_threads.raise_if_open_elsewhere(codex, session_id, error)
                if self.route.helps(
                    await stored_threads.must_be_usable(codex, session_id, failure)
                ):
                    return await self._resume(codex, session_id, setup)
            raise failure from error

    async def _resumed(
        self,
        codex: AppServerConnection,
        session_id: str,
        params: dict[str, JsonValue],
        setup: Setup,
    ) -> JsonValue:
        """The answer of Codex, once another process of ours has handed the thread over."""
        again = partial(self.route.open, codex, "thread/resume", params, session_id)
        try:
            return await again()
        except ErrorReply as error:
            if self.hand_over is None or not is_open_elsewhere(error):
                raise
            return await self.hand_over().take(
                codex, session_id, setup.cancels, setup.audience, again, error
            )

    async def _learn(
        self,
        codex: AppServerConnection,
        session_id: str,
        result: JsonValue,
        held: HeldNotifications,
    ) -> str | None:
        """The turn that runs in a resumed thread, if one does.

        The session and the routing learn of it: what it asks again is to be believed.
        """
        thread = object_at(result, "thread")
        turns: list[JsonValue] = []
        if text_at(thread, "status", "type") == "active":
            from codex_acp.adapter.sessions.loading import running_turn

            with suppress(CodexAcpError):
                turns += [turn for turn in [await running_turn(codex, session_id)] if turn]
        if not turns and thread.get("parentThreadId") is None:
            return None  # there is nothing to learn
        try:
            known: Thread = CODEX_MODELS.decode("Thread", {**thread, "turns": turns}, "a thread")
        except CodexAcpError as error:
            logger.warning("thread %s: %s", session_id, error)
            return None
        self._sessions.events.items.learn_thread(known)
        held.keep(("turn/started", {"threadId": session_id, "turn": turn}) for turn in turns)
        return known.turns[0].id if known.turns else None

    async def _left_running(
        self, codex: AppServerConnection, session_id: str, state: SessionState | None,
        how: How, setup: Setup,
    ) -> SessionState | None:  # fmt: skip
        """The same memory, with what runs on in the background; v1 hears of it in a history."""
        from codex_acp.adapter.sessions.replay import left_running

        audience = setup.audience or self._sessions.audience(None)
        told = how == "load" or audience.features.agent_terminals
        return await left_running(codex, session_id, state, audience, told=told)

    def _titled(self, result: JsonValue, audience: SessionClient | None) -> SessionState | None:
        """Return the mapping's memory of a thread that has a title; None for one without."""
        from codex_acp.mapping.session import title_of
        from codex_acp.mapping.state import SessionState

        if title_of(value_at(result, "thread")) is None:
            return None
        features = (audience or self._sessions.audience(None)).features
        return SessionState(features, titled=True)

    async def _past(
        self, codex: AppServerConnection, session_id: str, result: JsonValue,
        held: HeldNotifications, how: How, audience: SessionClient | None,
    ) -> SessionState | None:  # fmt: skip
        """Learn what runs, and for a load show the history: what the mapping remembers of it."""
        running = await self._learn(codex, session_id, result, held)
        if how != "load":
            return self._titled(result, audience)
        from codex_acp.adapter.sessions.replay import Replay

        history = Replay(audience or self._sessions.audience(None), session_id, result)
        await history.run(codex, running)
        from codex_acp.adapter.sessions.stored_threads import surely_exists

        if history.missing and not await surely_exists(codex, session_id):
            raise opening_errors.deleted_meanwhile(session_id)
        return history.end(running)


def _said_of(place: Place, unrestored: str | None, linked: Sequence[tuple[str, str]]) -> list[str]:
    """Say what a session is without, which nobody trusts or Codex refused, and what it has from
    elsewhere: the targets of its ``linked`` instructions.
    """
    found = [] if place.untrusted is None else left_out_here(place.read)
    if not found and not linked and unrestored is None:
        return []
    from codex_acp.mapping.trust import left_out_line, linked_line, unrestored_line

    said = [left_out_line(found, str(place.untrusted))] if found else []
    said += [linked_line(linked)] if linked else []
    return said if unrestored is None else [*said, unrestored_line(unrestored)]
