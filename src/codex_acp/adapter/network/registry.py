"""The open sessions of one server, and whose they are."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from codex_acp._files import append_line, open_private
from codex_acp.adapter.sessions.session_locks import alone
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, OVERLOADED
from codex_acp.mapping.session_setup import canonical_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.client import Client
    from codex_acp.adapter.network.access_control import Tokens
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.network_session import NetworkSession
    from codex_acp.adapter.side_tasks import Spawn


logger = logging.getLogger(__name__)


class Registry:
    """``spawn`` runs tasks that outlive connections; ``owners`` remembers whose sessions are."""

    def __init__(self, spawn: Spawn, owners: Owners, limits: Limits) -> None:
        self.spawn = spawn
        self.owners = owners
        self.limits = limits
        self.sessions: dict[str, NetworkSession] = {}
        """The open sessions, also those that no connection shows."""
        self._opening: Counter[str] = Counter()
        """By owner, those that are being opened: they count, too."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = asyncio.Event()
        self._ends: dict[NetworkSession, asyncio.TimerHandle] = {}
        """The timers that end sessions which no connection shows."""

    def alone(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """While a session is opened or closed, so that no two connections do it at once.

        Raises RpcError -32600 where another takes too long.
        """
        return alone(self._lock(session_id), session_id)

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    @asynccontextmanager
    async def room(self, owner: str) -> AsyncIterator[None]:
        """Room for one session more of an owner, which is opened in the block.

        Raises RpcError if there is none.
        """
        await self._make_room(owner)
        self._opening[owner] += 1
        try:
            yield
        finally:
            self._opening[owner] -= 1

    async def _make_room(self, owner: str) -> None:
        """End sessions that nobody shows and that do nothing, the oldest first, as need be.

        Those of the owner who wants room; those of another only where they have more than their
        share.
        """
        limits = self.limits
        while True:
            held = Counter(session.owner for session in self.sessions.values()) + self._opening
            share = limits.share(limits.sessions, self.owners.count, limits.owner_sessions)
            if held[owner] >= share:
                whose, count = {owner}, held[owner]
            elif held.total() >= limits.sessions:
                whose = {each for each, many in held.items() if many > share}
                count = held.total()
            else:
                return
            idle = (s for s in self.sessions.values() if s.client is None and not s.busy)
            session = next((each for each in idle if each.owner in whose), None)
            if session is None:
                yours = " of yours" if count < limits.sessions else ""
                msg = f"{count} sessions{yours} are open on this server; close one first"
                raise RpcError(OVERLOADED, msg)
            await self.end(session)

    def open(self, session_id: str, session: NetworkSession) -> None:
        """A session is open from now on, and shown. Raises RpcError if its owner is not written."""
        self.owners.made(session.owner, session_id)
        session.session_id = session_id
        self.sessions[session_id] = session
        self.shown(session)

    def shown(self, session: NetworkSession) -> None:
        """Somebody shows it: it need not be ended."""
        timer = self._ends.pop(session, None)
        if timer is not None:
            timer.cancel()

    def closed(self, session_id: str, session: NetworkSession) -> None:
        """It is not any more; again is fine."""
        if self.sessions.get(session_id) is session:
            del self.sessions[session_id]
            self.shown(session)
            session.end()
            self._closed.set()
            self._closed = asyncio.Event()

    def closed_by_agent(self, session_id: str, session: NetworkSession) -> None:
        """A request that closes it is over; one that was given up may have left it open."""
        if session_id not in session.agent.parts[0]:
            self.closed(session_id, session)

    async def unused(self, agent: CodexAgent) -> None:
        """Wait until no session is left on an agent."""
        while any(session.agent is agent for session in self.sessions.values()):
            await self._closed.wait()

    def owned(self, owner: str, session_id: str) -> bool:
        """Whether a session is this owner's, open or only stored, however its id is spelled.

        A sub-agent's is where Codex says that it was started; a model can name any.
        """
        session_id = canonical_id(session_id)
        session = self.sessions.get(session_id)
        if session is None and not self.owners.knows(session_id):
            above = self.above(session_id)
            session = above if above is not None and above.has_started(session_id) else None
        if session is not None:
            return session.owner == owner
        return self.owners.owns(owner, session_id)

    def above(self, session_id: str) -> NetworkSession | None:
        """The open session of whose sub-agents this is one; None: it is none's.

        That which has started it goes before those whose models have only named it.
        """
        below = [each for each in self.sessions.values() if each.has_below(session_id)]
        started = (each for each in below if each.has_started(session_id))
        return next(started, below[0] if below else None)

    def agent_of(self, session_id: str) -> CodexAgent | None:
        """Return the agent of a session or of a sub-agent's; None for one that is not open."""
        session_id = canonical_id(session_id)
        session = self.sessions.get(session_id) or self.above(session_id)
        return None if session is None else session.agent

    def left(self, client: Client) -> None:
        """A connection has ended: the sessions that it showed end, or are kept for a time."""
        for session in list(self.sessions.values()):
            if session.left(client):
                self.unshown(session)

    def unshown(self, session: NetworkSession) -> None:
        """Nobody shows it."""
        if not session.kept:
            self.spawn(partial(self.end, session))
            return
        loop, end = asyncio.get_running_loop(), partial(self.spawn, partial(self.end, session))
        self.shown(session)
        self._ends[session] = loop.call_later(self.limits.keep_seconds, end)

    async def end(self, session: NetworkSession) -> None:
        """Nobody will show it any more: all that is open in it is settled negatively."""
        session_id = session.session_id
        async with self._lock(session_id):  # whoever opens it comes to an end, or is cut off
            if self.sessions.get(session_id) is not session or session.client is not None:
                return
            session.end()
            try:
                await session.agent.close_session(session_id)
            except RpcError as error:
                logger.info("session %s: %s", session_id, error.message)
            finally:
                self.closed(session_id, session)


class Owners:
    """``path`` is the file; without one, what several owners have is forgotten at the end.

    Raises MisuseError if the file cannot be read.
    """

    def __init__(self, tokens: Tokens, path: str | None = None) -> None:
        self._tokens = tokens
        self._path = path
        self._of: dict[str, str] = {}
        self._several = tokens.several_owners
        if path is not None and os.path.exists(path):  # noqa: PTH110
            self._read(path)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._tokens.owners

    def owns(self, owner: str, session_id: str) -> bool:
        """Whether a session that Codex has stored is this owner's.

        Whose it was stays so when a token is taken away, or the file of tokens is just rewritten.
        """
        made_by = self._of.get(session_id)
        return made_by == owner if made_by is not None else not self._are_several()

    def knows(self, session_id: str) -> bool:
        """Whether it is written down whose a session is."""
        return session_id in self._of

    def made(self, owner: str, session_id: str) -> None:
        """Remember that a session is this owner's.

        Raises RpcError -32603 if that cannot be written: after a restart it would be nobody's.
        """
        if not self._are_several() or self._of.get(session_id) == owner:
            return
        if self._path is not None:
            self._append(self._path, {"sessionId": session_id, "owner": owner})
        self._of[session_id] = owner

    def _append(self, path: str, entry: dict[str, str]) -> None:
        try:
            file = open_private(path, tighten=True, readable=True)
            try:
                append_line(file, json.dumps(entry).encode() + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            logger.error("the file of owners %r cannot be written: %s", path, error)
            why = error.strerror or str(error)
            message = (
                f"the server cannot write down whose the session is ({why}), so it was not opened; "
                "whoever runs the server has to mend that"
            )
            raise RpcError(INTERNAL_ERROR, message) from error

    def _are_several(self) -> bool:
        """Once they were, they stay so until the server ends."""
        self._several = self._several or self._tokens.several_owners
        return self._several

    def _read(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise MisuseError(f"the file of owners {path!r} cannot be read: {error}") from error
        for line in lines:
            try:
                entry = json.loads(line)
                self._of[str(entry["sessionId"])] = str(entry["owner"])
            except (ValueError, KeyError, TypeError):
                logger.warning("a line of %s was left out: it cannot be read", path)
