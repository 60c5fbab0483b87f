"""Keep the open sessions of one server, and the owners of all sessions."""

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
from codex_acp.adapter.network.access_control import EVERYBODY
from codex_acp.adapter.tasks import alone
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc import INTERNAL_ERROR, OVERLOADED
from codex_acp.mapping.session_setup import canonical_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.client import Client
    from codex_acp.adapter.network.access_control import Tokens
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.network_session import NetworkSession
    from codex_acp.adapter.tasks import Spawn


logger = logging.getLogger(__name__)


class Registry:
    """The open sessions. ``spawn`` runs tasks that outlive connections."""

    def __init__(self, spawn: Spawn, owners: Owners, limits: Limits) -> None:
        self.spawn = spawn
        self.owners = owners
        self.limits = limits
        self.sessions: dict[str, NetworkSession] = {}
        """The open sessions by id, with or without a connection."""
        self._opening: Counter[str] = Counter()
        """Number of sessions that are being opened, by owner; these count as open."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = asyncio.Event()
        """Set, and replaced, when a session is closed."""
        self._end_timers: dict[NetworkSession, asyncio.TimerHandle] = {}
        """Timers that end sessions which no connection shows."""

    def exclusive(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Return a context that holds the lock of a session, in which a connection opens or closes
        the session. Entering raises RpcError -32600 if another connection takes too long."""
        return alone(self._lock(session_id), session_id)

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    @asynccontextmanager
    async def reserve_place(self, owner: str) -> AsyncIterator[None]:
        """Reserve room for one more session of an owner, which the caller opens in the block.

        Until there is room, ends idle sessions that no connection shows, the oldest first. Ends a
        session of another owner only if that owner has more than their share. Raises RpcError if
        no session can be ended and there is no room."""
        limits = self.limits
        while True:
            counts = Counter(session.owner for session in self.sessions.values()) + self._opening
            owners = self.owners.tokens.owner_count
            share = limits.share(limits.sessions, owners, limits.owner_sessions)
            if counts[owner] >= share:
                over_share, count = {owner}, counts[owner]
            elif counts.total() >= limits.sessions:
                over_share = {each for each, number in counts.items() if number > share}
                count = counts.total()
            else:
                break
            unshown = (each for each in self.sessions.values() if each.client is None)
            idle = (each for each in unshown if not each.busy)
            session = next((each for each in idle if each.owner in over_share), None)
            if session is None:
                yours = " of yours" if count < limits.sessions else ""  # "": of all owners
                msg = f"{count} sessions{yours} are open on this server; close one first"
                raise RpcError(OVERLOADED, msg)
            await self.end(session)
        self._opening[owner] += 1
        try:
            yield
        finally:
            self._opening[owner] -= 1

    def open(self, session_id: str, session: NetworkSession) -> None:
        """Add an open session. Raises RpcError if its owner cannot be recorded."""
        self.owners.record(session.owner, session_id)
        session.session_id = session_id
        self.sessions[session_id] = session
        self._cancel_end(session)

    def _cancel_end(self, session: NetworkSession) -> None:
        timer = self._end_timers.pop(session, None)
        if timer is not None:
            timer.cancel()

    def _remove(self, session: NetworkSession) -> None:
        if self.sessions.get(session.session_id) is session:
            del self.sessions[session.session_id]
            self._cancel_end(session)
            session.end()
            self._closed.set()
            self._closed = asyncio.Event()

    def remove_if_closed(self, session: NetworkSession) -> None:
        """Remove a session, unless closing it failed and its agent still has it open."""
        if session.session_id not in session.agent.sessions:
            self._remove(session)

    async def wait_until_unused(self, agent: CodexAgent) -> None:
        while any(session.agent is agent for session in self.sessions.values()):
            await self._closed.wait()

    def owns(self, owner: str, session_id: str) -> bool:
        """Return whether an owner has a session, open or stored; accepts any spelling of its id.

        A sub-agent's session belongs to its parent's owner if Codex says that the parent started
        the sub-agent: a model can name any id."""
        session_id = canonical_id(session_id)
        session = self.sessions.get(session_id)
        if session is None and not self.owners.knows(session_id):
            above = self.parent_of(session_id)
            session = above if above is not None and above.has_started(session_id) else None
        if session is not None:
            return session.owner == owner
        return self.owners.owns(owner, session_id)

    def parent_of(self, session_id: str) -> NetworkSession | None:
        """Return the open session whose sub-agent has this id, or None. Prefers the session that
        started the sub-agent to a session whose model only named the id."""
        parents = [each for each in self.sessions.values() if each.has_sub_agent(session_id)]
        started = (each for each in parents if each.has_started(session_id))
        return next(started, parents[0] if parents else None)

    def agent_of(self, session_id: str) -> CodexAgent | None:
        """Return the agent of an open session, or of the session whose sub-agent has this id."""
        session_id = canonical_id(session_id)
        session = self.sessions.get(session_id) or self.parent_of(session_id)
        return None if session is None else session.agent

    def client_left(self, client: Client) -> None:
        """Detach a client from its sessions, and end or keep them."""
        for session in list(self.sessions.values()):
            if session.detach(client):
                self.schedule_end(session)

    def schedule_end(self, session: NetworkSession) -> None:
        """End a session that no connection shows: at once, or after `Limits.keep_seconds`."""
        if not session.outlives_client:
            self.spawn(partial(self.end, session))
            return
        loop, end = asyncio.get_running_loop(), partial(self.spawn, partial(self.end, session))
        self._cancel_end(session)
        self._end_timers[session] = loop.call_later(self.limits.keep_seconds, end)

    async def end(self, session: NetworkSession) -> None:
        """Close a session that no connection shows; its open questions fail."""
        session_id = session.session_id
        async with self._lock(session_id):  # wait for a connection that opens the session
            if self.sessions.get(session_id) is not session or session.client is not None:
                return
            session.end()
            try:
                await session.agent.close_session(session_id)
            except RpcError as error:
                logger.info("session %s: %s", session_id, error.message)
            finally:
                self._remove(session)


class Owners:
    """The owner of each stored session, of a server whose tokens have names.

    Appends each new session to the file ``path`` as a line of JSON; only the server's user can read
    the file. Without a file, the owners are forgotten when the server ends. A session without a
    recorded owner belongs to everybody, until the tokens have named a second owner. Raises
    MisuseError if the file cannot be read."""

    def __init__(self, tokens: Tokens, path: str | None = None) -> None:
        self.tokens = tokens
        self._path = path
        self._owner_of: dict[str, str] = {}
        self._names = tokens.names
        """All names of owners since the server started."""
        if path is not None and os.path.exists(path):  # noqa: PTH110
            self._read(path)

    def owns(self, owner: str, session_id: str) -> bool:
        """Return whether a session that Codex has stored belongs to an owner. A recorded owner
        stays the owner after their token is removed from the token file."""
        recorded = self._owner_of.get(session_id)
        return recorded == owner if recorded is not None else not self._has_several()

    def knows(self, session_id: str) -> bool:
        """Return whether a session has a recorded owner."""
        return session_id in self._owner_of

    def record(self, owner: str, session_id: str) -> None:
        """Record the owner of a session. Raises RpcError -32603 if the file cannot be written:
        after a restart, nobody would own the session."""
        if self._owner_of.get(session_id) == owner:
            return
        if owner == EVERYBODY and not self._has_several():
            return  # all sessions are everybody's
        try:
            if self._path is not None:
                entry = {"sessionId": session_id, "owner": owner}
                file = open_private(self._path, tighten=True, readable=True)
                try:
                    append_line(file, json.dumps(entry).encode() + b"\n")
                finally:
                    os.close(file)
        except OSError as error:
            logger.error("the file of owners %r cannot be written: %s", self._path, error)
            why = error.strerror or str(error)
            message = (
                f"the server cannot write down whose the session is ({why}), so it was not opened; "
                "whoever runs the server has to mend that"
            )
            raise RpcError(INTERNAL_ERROR, message) from error
        self._owner_of[session_id] = owner

    def _has_several(self) -> bool:
        """Return whether there have been several owners since the server started."""
        self._names |= self.tokens.names
        return len(self._names) > 1

    def _read(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise MisuseError(f"the file of owners {path!r} cannot be read: {error}") from error
        for line in lines:
            try:
                entry = json.loads(line)
                self._owner_of[str(entry["sessionId"])] = str(entry["owner"])
            except (ValueError, KeyError, TypeError, RecursionError):
                logger.warning("a line of %s was left out: it cannot be read", path)
