"""Sessions that go from one process of this package to another: Codex lets one write a thread.

A process that has sessions open can be asked to let one go. At rest it does, tells its client, and
takes it back when its client prompts next. While something runs in it, it stays. Loaded with the
first session that is open, or that another process has.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, assert_never

from codex_acp._json import text_at, value_at
from codex_acp.adapter.sessions.opening_errors import busy_elsewhere, is_open_elsewhere
from codex_acp.adapter.sessions.session_locks import acquired_soon
from codex_acp.errors import ErrorReply
from codex_acp.routing.display import inline
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.local_peers import ASK_SECONDS, PeerSocket, ask_all, private_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from codex_acp.adapter.audience import Audience
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.prompt_preconditions import PromptPreconditions
    from codex_acp.adapter.sessions.sessions import OpenSession, Sessions
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)

TAKE_SECONDS: Final = 2.5
"""For a session to be handed over, from the first question to the last try."""

SETTLE_SECONDS: Final = 1.0
"""For the holder to be done with what it is doing: opening it, or ending what is cancelled."""

TRY_AGAIN_SECONDS: Final = 0.05
"""Between two tries: a process that has ended lets go of its threads within milliseconds."""

MAX_NAME: Final = 60
"""Characters of the name of another process's client."""

_numbers = count()


class Asker(NamedTuple):
    """On whose behalf a session is wanted."""

    client: str
    owner: str | None
    """Of a network server's session; None: whoever has this user's files."""
    cancels: bool
    """Whether what runs in it there shall be cancelled."""


class HandOver:
    """Of one agent. ``client`` names its client."""

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        preconditions: PromptPreconditions,
        client: Callable[[], str],
    ) -> None:
        self._sessions = sessions
        self._opener = opener
        self._preconditions = preconditions
        self._client = client
        self._socket: PeerSocket | None = None
        self._left = False

    # The one who has it.

    async def listen(self) -> None:
        """Let others ask from now on; where that cannot be, they are told who has what."""
        codex = await self._opener.codex()
        if self._left or self._socket is not None or not isinstance(codex.link, ChildProcess):
            return
        try:
            name = f"{os.getpid()}-{next(_numbers)}.sock"
            listening = PeerSocket(private_folder(codex.server.codex_home) / name, self._answer)
            self._socket = listening
            await listening.open()
        except OSError as error:
            logger.info("sessions cannot be handed to other processes: %s", error)

    def leave(self) -> None:
        """The agent ends."""
        self._left = True
        if self._socket is not None:
            self._socket.close()

    async def _answer(self, question: dict[str, JsonValue]) -> dict[str, JsonValue]:
        session_id = text_at(question, "thread") or ""
        asker = Asker(
            text_at(question, "client") or "another window",
            text_at(question, "owner"),
            question.get("cancel") is True,
        )
        state = await self._let_go(session_id, asker)
        return {"state": state, "pid": os.getpid(), "client": self._client()}

    async def _let_go(self, session_id: str, asker: Asker) -> Literal["unknown", "busy", "free"]:
        opened = self._sessions.open_session(session_id)
        if opened is None or not may_have(opened.audience, asker.owner):
            return "busy" if self._opener.is_opening(session_id) and opened else "unknown"
        if asker.cancels:
            await self._cancelled(session_id, opened)
        lock = self._opener.lock(session_id)
        if self._works(session_id, opened) or not await acquired_soon(lock, SETTLE_SECONDS):
            return "busy"
        try:
            return await self._leave_thread(session_id, opened, asker)
        finally:
            lock.release()

    async def _leave_thread(
        self, session_id: str, opened: OpenSession, asker: Asker
    ) -> Literal["unknown", "busy", "free"]:
        if self._sessions.open_session(session_id) is not opened:
            return "unknown"
        if self._works(session_id, opened):
            return "busy"
        if not self._sessions.is_live(session_id):
            return "unknown"
        await self._opener.keep(session_id)
        session = self._sessions.known(session_id)
        if session is None or self._works(session_id, opened):
            return "busy"
        opened.unloaded = True  # the next prompt takes it back
        session.say(
            f"This session goes on in {inline(asker.client)[:MAX_NAME]}; "
            "the next prompt here takes it back."
        )
        for thread_id in (*session.sub_agents.threads, session_id):
            await self._opener.let_go(opened.codex, thread_id)
        return "free"

    def _works(self, session_id: str, opened: OpenSession) -> bool:
        """Whether something runs in it that would end with it, or a question waits."""
        session = opened.session
        return (
            opened.works()
            or self._preconditions.is_waiting(session_id)
            or (session is not None and (session.busy or bool(session.state.background)))
        )

    async def _cancelled(self, session_id: str, opened: OpenSession) -> None:
        self._preconditions.cancel(session_id)
        session = opened.session
        if session is not None:
            session.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_SECONDS):
                    await session.prompts.settled()

    # The one who wants it.

    async def take(
        self,
        codex: AppServerConnection,
        session_id: str,
        cancels: bool,
        audience: Audience | None,
        again: Callable[[], Awaitable[JsonValue]],
        refused: ErrorReply,
    ) -> JsonValue:
        """Have a session handed over to ``audience``; give what ``again`` gives, which opens it.

        ``cancels``: what runs in it there is cancelled.

        Raises RpcError -32600 where something runs in it, ErrorReply as ``refused`` where nobody
        hands it over. Takes less than three seconds.
        """
        deadline, moving, tries = monotonic() + TAKE_SECONDS, True, 0
        question: dict[str, JsonValue] = {
            "thread": session_id,
            "client": f"{self._client()} (process {os.getpid()})",
            "owner": getattr(audience, "owner", None),
            "cancel": cancels,
        }
        while True:
            if moving:
                left = max(0.0, deadline - monotonic())
                moving = await self._ask(codex, session_id, question, left)
            try:
                return await again()
            except ErrorReply as error:
                if not is_open_elsewhere(error):
                    raise
            tries += 1
            if monotonic() > deadline or (tries > 1 and not moving):
                raise refused
            await asyncio.sleep(TRY_AGAIN_SECONDS)

    async def _ask(
        self,
        codex: AppServerConnection,
        session_id: str,
        question: dict[str, JsonValue],
        seconds: float,
    ) -> bool:
        """Ask everybody to let it go; whether somebody has, or has ended meanwhile."""
        own: Path | None = None if self._socket is None else self._socket.path
        try:
            folder = private_folder(codex.server.codex_home)
            asked = await ask_all(folder, question, own, min(seconds, ASK_SECONDS))
        except OSError as error:
            logger.info("no other process can be asked for a session: %s", error)
            return False
        moving = asked.ended
        for answer in asked.answers:
            match _state_of(answer):
                case "busy":
                    pid, name = value_at(answer, "pid"), text_at(answer, "client") or ""
                    raise busy_elsewhere(session_id, pid, inline(name)[:MAX_NAME])
                case "free":
                    moving = True
                case "unknown":
                    pass
                case other:
                    assert_never(other)
        return moving


def may_have(audience: Audience | None, owner: str | None) -> bool:
    """Return whether a session goes to an owner: not if a server has it for another one."""
    of_session = getattr(audience, "owner", None)
    return of_session is None or owner in (None, of_session)


def _state_of(answer: dict[str, JsonValue]) -> Literal["unknown", "busy", "free"]:
    state = answer.get("state")
    return "free" if state == "free" else "busy" if state == "busy" else "unknown"
