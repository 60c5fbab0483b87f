"""Threads of a program that go to another process of this package, and come back.

At rest a thread is let go to whoever asks for it, and opened again as it was before its next turn.
Owns when that may be, and what it is opened with again. Must not know how a thread is opened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, object_at, text_at
from codex_acp._last_ones import LastOnes
from codex_acp.codex.threads.options import ResumeOptions, wire_name
from codex_acp.errors import CodexAcpError, ErrorReply, ThreadOpenElsewhere

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.codex.connection.thread_peers import Asker, State, ThreadPeers
    from codex_acp.codex.request_api import RequestApi
    from codex_acp.codex.threads.turn_marks import TurnMarks
    from codex_acp.jsonrpc.message import JsonValue

    JsonObject = dict[str, JsonValue]

logger = logging.getLogger(__name__)

MAX_THREADS: Final = 10_000
"""Threads of which it is remembered how they were opened."""

_AGAIN: Final = frozenset(map(wire_name, ResumeOptions.__annotations__))

_SETTINGS: Final = (
    "approvalPolicy", "approvalsReviewer", "collaborationMode", "effort", "model", "serviceTier",
    "summary",
)  # fmt: skip
"""Settings of a thread that Codex tells and takes alike; the sandbox has two names."""


class _Opened:
    """How a thread is opened again."""

    def __init__(self) -> None:
        self.params: JsonObject = {}
        """Params of ``thread/resume``."""
        self.settings: JsonObject = {}
        """Given to it then, before its next turn."""
        self.stored = False
        """Whether Codex has it on disk, which it has from the first turn on."""
        self.elsewhere = False
        self.lock = asyncio.Lock()
        """Held while a turn begins, and while the thread goes or comes back."""


class HandedThreads:
    """The threads of one client. Every method raises as the client's calls."""

    def __init__(self, client: RequestApi) -> None:
        self._client = client
        self._opened: LastOnes[str, _Opened] = LastOnes(MAX_THREADS)
        self._peers: ThreadPeers | None = None
        self._listening: asyncio.Task[None] | None = None
        self.turns: set[TurnMarks] = set()
        """Those that somebody here has begun and not left."""

    def opened(
        self, method: str, thread_id: str, params: Mapping[str, JsonValue], settings: JsonValue
    ) -> None:
        """Remember a thread that ``method`` has opened, and let others ask for it."""
        if params.get("ephemeral"):
            return
        it = self._opened.get(thread_id) or _Opened()
        it.params = {name: value for name, value in params.items() if name in _AGAIN}
        it.params |= {"threadId": thread_id, "excludeTurns": True}
        it.settings = dict(object_at(settings))
        it.stored = it.stored or method != "thread/start"
        it.elsewhere = False
        self._opened[thread_id] = it
        for turn in self.turns:  # it was let go before the turn that has it opened again
            turn.closed &= turn.thread_id != thread_id or turn.turn_id is not None
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())

    def changed(self, thread_id: str, told: JsonValue) -> None:
        """Codex tells the settings of a thread, the sandbox in force among them."""
        it, settings = self._opened.get(thread_id), object_at(told)
        if it is None or it.elsewhere:
            return
        it.settings = {name: settings[name] for name in _SETTINGS if settings.get(name) is not None}
        profile = text_at(settings, "activePermissionProfile", "id")
        if profile is not None:  # Codex refuses the two together
            it.settings["permissions"] = profile
        elif "sandboxPolicy" in settings:
            it.settings["sandboxPolicy"] = settings["sandboxPolicy"]
        if "cwd" in settings:
            it.params["cwd"] = settings["cwd"]

    def leave(self) -> None:
        """The connection has ended."""
        if self._listening is not None:
            self._listening.cancel()
        if self._peers is not None:
            self._peers.leave()

    def lock(self, thread_id: str) -> asyncio.Lock:
        """Return what is held while a turn begins in a thread, or it is opened again."""
        it = self._opened.get(thread_id)
        return asyncio.Lock() if it is None else it.lock

    def gone(self, thread_id: str) -> tuple[JsonObject, JsonObject] | None:
        """Return the params and the settings to open a thread again with that was let go."""
        it = self._opened.get(thread_id)
        return (it.params, it.settings) if it is not None and it.elsewhere else None

    def begun(self, thread_id: str) -> None:
        """Note that a turn has begun in a thread, so that Codex stores it."""
        if thread_id in self._opened:
            self._opened[thread_id].stored = True

    # The one who wants it.

    async def take(
        self, thread_id: str, again: Callable[[], Awaitable[JsonValue]], refused: ErrorReply
    ) -> JsonValue:
        """Have it handed over, as `ThreadPeers.take`; a ThreadOpenElsewhere names who has it."""
        try:
            return await self._asking().take(self._client, thread_id, again, refused)
        except ErrorReply as error:
            if error is not refused:
                raise
        from codex_acp.codex.connection.writers import writer_of

        found = await asyncio.to_thread(writer_of, self._client.server.codex_home, thread_id)
        whose, pid = ("another program", None) if found is None else (str(found), found.pid)
        raise ThreadOpenElsewhere(refused, thread_id, whose, pid, busy=False) from refused

    def _asking(self) -> ThreadPeers:
        if self._peers is None:
            from codex_acp.codex.connection.thread_peers import ThreadPeers

            self._peers = ThreadPeers(_program, self._let_go)
        return self._peers

    # The one who has it.

    async def _listen(self) -> None:
        await self._asking().listen(self._client)

    async def _let_go(self, thread_id: str, asker: Asker) -> State:
        it = self._opened.get(thread_id)
        if it is None or it.elsewhere or not it.stored or self._client.closed:
            return "unknown"
        try:
            if asker.cancels:
                await self._interrupted(thread_id)
            if self._runs(thread_id):
                return "busy"
            async with it.lock:
                return await self._leave(thread_id, it, asker)
        except CodexAcpError as error:
            logger.info("thread %s is not let go: %s", thread_id, error)
            return "unknown"

    async def _leave(self, thread_id: str, it: _Opened, asker: Asker) -> State:
        from codex_acp.codex.connection.unloading import let_go

        below = await self._at_rest_below(thread_id)
        if below is None or self._runs(thread_id):
            return "busy"
        it.elsewhere = True
        logger.info("thread %s goes on in %r until its next turn here", thread_id, asker.client)
        for each in (*below, thread_id):
            await let_go(self._client, each)
        return "free"

    def _runs(self, thread_id: str) -> bool:
        return any(turn.thread_id == thread_id and turn.runs for turn in self.turns)

    async def _interrupted(self, thread_id: str) -> None:
        for turn in [each for each in self.turns if each.thread_id == thread_id and each.runs]:
            await turn.interrupt()
            await turn.wait_for_its_end()

    async def _at_rest_below(self, thread_id: str) -> list[str] | None:
        """The sub-agents of a thread that Codex has loaded; None: one of them works, or itself.

        Codex is asked, not those who run turns here: a turn may have been detached.
        """
        loaded = list_at(await self._client.call_raw("thread/loaded/list", {}), "data")
        others = [str(each) for each in loaded if each not in self._opened]
        found: dict[str, JsonObject] = {}
        for each in (thread_id, *others):
            with suppress(ErrorReply):  # it has just been unloaded
                read = await self._client.call_raw("thread/read", {"threadId": each})
                found[each] = object_at(read, "thread")
        family = [thread_id]
        for each in family:  # grows meanwhile
            family += [child for child in found if text_at(found[child], "parentThreadId") == each]
        if any(text_at(found.get(each), "status", "type") == "active" for each in family):
            return None
        terminals: JsonValue = None
        with suppress(ErrorReply):
            about: JsonObject = {"threadId": thread_id}
            terminals = await self._client.call_raw("thread/backgroundTerminals/list", about)
        return None if list_at(object_at(terminals), "data") else family[1:]


def _program() -> str:
    """The name of this program, for the person who reads where a session has gone."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "a program"  # noqa: PTH119 - a name
