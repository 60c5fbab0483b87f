"""The sessions of an agent that is written in version 1, as a client of version 2 has them.

Owns the state of a session and the order of its prompts: one runs, the others wait for their place.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.as_v2 import Updates
from codex_acp.errors import InvalidPayload, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, REQUEST_CANCELLED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from codex_acp.acp.agent_side import AgentSide

    Spawn: TypeAlias = Callable[[Callable[[], Coroutine[object, object, None]]], None]

logger = logging.getLogger(__name__)

Json = dict[str, Any]


class SessionInV2:
    """One session."""

    def __init__(self, side: AgentSide, spawn: Spawn, session_id: str) -> None:
        self.updates: Updates = Updates()
        self._side = side
        self._spawn = spawn
        self._id = session_id
        self._turn = asyncio.Lock()
        self._works = False
        self._questions = 0
        self._muted = False
        self._held: list[anyio.CancelScope] = []
        self._running: anyio.CancelScope | None = None

    async def insert(self, content: list[Json], run: Callable[[], Awaitable[Any]]) -> str:
        """Give a prompt its place, behind those before it, and run it behind the answer.

        Raises RpcError -32800 if it is cancelled before.
        """
        held = anyio.CancelScope()
        self._held.append(held)
        try:
            with held:
                await self._turn.acquire()
        finally:
            self._held.remove(held)
        if held.cancelled_caught:
            raise RpcError(REQUEST_CANCELLED, "the prompt was cancelled before it had its place")
        message_id = secrets.token_hex(8)
        self._works = True
        self._tell({"sessionUpdate": "user_message", "messageId": message_id, "content": content})
        self.tell_state()
        self._spawn(lambda: self._run(run))
        return message_id

    async def _run(self, run: Callable[[], Awaitable[Any]]) -> None:
        end: Json = {"stopReason": "cancelled"}
        try:
            with anyio.CancelScope() as self._running:
                end = {"stopReason": (await run()).stop_reason}
        except RpcError as error:
            end = _failed(error.code, error.message, error.data)
        except Exception:
            logger.exception("the answer to a prompt failed")
            end = _failed(INTERNAL_ERROR, "the agent failed", None)
        finally:
            self._works = False
            self._turn.release()
        self.updates.ended()
        self._tell({"sessionUpdate": "state_update", "state": "idle", **end})

    async def rest(self) -> None:
        """Wait until nothing runs."""
        async with self._turn:
            pass

    def withdraw_held(self) -> None:
        """Those prompts that have no place get none."""
        for scope in self._held:
            scope.cancel()

    def leave(self) -> None:
        """The client is gone."""
        self.withdraw_held()
        if self._running is not None:
            self._running.cancel()

    # What is told.

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a person is asked."""
        self._questions += 1
        if self._questions == 1:
            self.tell_state()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self.tell_state()

    @contextmanager
    def replaying(self, *, muted: bool) -> Iterator[None]:
        """While the agent tells of the past, which not everybody wants to hear."""
        self._muted = muted
        try:
            yield
        finally:
            self._muted = False

    def tell_v1(self, update: Json) -> None:
        """An update of version 1."""
        made = self.updates.translated(update)
        if made is None:
            logger.debug("version 2 has no %s; it was left out", update["sessionUpdate"])
        elif not self._muted:
            self._tell(made)

    def tell_state(self) -> None:
        """Send the state of the session."""
        busy = "requires_action" if self._questions else "running"
        self._tell({"sessionUpdate": "state_update", "state": busy if self._works else "idle"})

    def _tell(self, update: Json) -> None:
        try:
            made: v2.SessionUpdate = MODELS.decode("SessionUpdate", update, "an update")
        except InvalidPayload:
            logger.exception("an update that version 2 cannot carry was left out")
            return
        told = v2.UpdateSessionNotification(session_id=self._id, update=made)
        self._side.v2.session_update(told)


class SessionsInV2:
    """All of them, by id. An agent may tell of a session before it is open."""

    def __init__(self, side: AgentSide, spawn: Spawn) -> None:
        self._side = side
        self._spawn = spawn
        self._all: dict[str, SessionInV2] = {}
        self._open: set[str] = set()

    def of(self, session_id: str) -> SessionInV2:
        """A session, open or not."""
        if session_id not in self._all:
            self._all[session_id] = SessionInV2(self._side, self._spawn, session_id)
        return self._all[session_id]

    def known(self, session_id: str) -> SessionInV2 | None:
        """A session that is open."""
        return self._all.get(session_id) if session_id in self._open else None

    def open(self, session_id: str) -> None:
        """The client knows it."""
        self.of(session_id)
        self._open.add(session_id)

    def close(self, session_id: str) -> None:
        """Forget a session that is closed."""
        self._open.discard(session_id)
        self._all.pop(session_id, None)

    def leave(self) -> None:
        """The client is gone."""
        for session in self._all.values():
            session.leave()


def _failed(code: int, message: str, data: object) -> Json:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"stopReason": "error", "error": error}
