"""Opens the threads of one client, and lends them to other processes of this package.

Owns what is sent to open a thread and what is remembered of the answer, which stays JSON: a
program has its thread before a model is loaded. At rest a thread is let go to whoever asks for it,
and opened again as it was before its next turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp.codex.connection.notification_router import NotificationSink, is_unloaded, thread_of
from codex_acp.codex.connection.shared_calls import (
    AwaitedNotification,
    is_open_elsewhere,
    let_go,
    login_is_missing,
)
from codex_acp.codex.threads.opening import (
    git_programs_refusal,
    read_params,
    trusting,
    with_settings,
)
from codex_acp.codex.threads.options import ForkOptions, ResumeOptions, params_of, wire_name
from codex_acp.codex.threads.trust import (
    is_trusted,
    linked_instructions,
    trust_root,
    without_false_worktree,
)
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    InvalidPayload,
    MisuseError,
    NotLoggedIn,
    ThreadOpenElsewhere,
    TransportError,
    UntrustedGitPrograms,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.connection.thread_peers import Asker, State, ThreadPeers
    from codex_acp.codex.request_api import RequestApi
    from codex_acp.codex.threads.git_programs import Look
    from codex_acp.codex.threads.notification_stream import TurnMarks
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.codex.threads.watchdog import SharedWatchdog
    from codex_acp.jsonrpc.message import JsonValue

    JsonObject = dict[str, JsonValue]

logger = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0
"""Seconds in which Codex reports the settings it has just taken: usually a millisecond."""


OPENAI: Final = "openai"
"""The model provider where none is configured."""

HEARD: Final = frozenset({"thread/closed", "thread/status/changed", "thread/settings/updated"})

MAX_PLACES: Final = 10_000
"""Threads of which it is remembered where they work."""

MAX_LOOKS: Final = 256
"""Directories of which it is remembered what git would run there."""


class _Place(NamedTuple):
    """The directory of a thread, and its own configuration in the form of ``config/read``."""

    cwd: str
    given: JsonValue


class OpenThread(NamedTuple):
    """A thread that was started, resumed or forked, as Codex has answered."""

    thread_id: str
    info: JsonValue
    opened_by: tuple[str, JsonValue]
    """The method and its answer."""


class ThreadServices(NotificationSink):
    """Opens the threads of one client. Every method raises as the client's calls."""

    def __init__(self, client: RequestApi) -> None:
        self.client = client
        self._places: LastOnes[str, _Place] = LastOnes(MAX_PLACES)
        self._looks: LastOnes[str, Look] = LastOnes(MAX_LOOKS)
        self.watchdogs: dict[float, SharedWatchdog] = {}
        """The watchdogs of running turns, by their time."""
        self._closed: LastOnes[str, None] = LastOnes(MAX_PLACES)
        """Threads that Codex has closed, and nobody has opened again."""
        self.hand_over: HandOver = HandOver(client)
        client.subscribe_all(self, HEARD)

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None:
            return
        if method == "thread/settings/updated":
            self.hand_over.note_settings(thread_id, object_at(params).get("threadSettings"))
        elif is_unloaded(method, params):
            self._closed[thread_id] = None

    def on_closed(self, error: TransportError | None) -> None:
        del error
        self.hand_over.leave()

    async def reopen(
        self,
        thread_id: str,
        options: ResumeOptions | ForkOptions,
        *,
        forks: bool = False,
        trust: bool,
        tools: Iterable[Tool | Callable[..., object]],
        policy: Policy | None,
    ) -> OpenThread:
        """Resume or fork a stored thread, as `Threads.resume` and `Threads.fork` say."""
        if forks and options.get("ephemeral"):
            options.setdefault("exclude_turns", True)  # Codex forks no other way without a file
        params = trusted(params_of(options, ForkOptions if forks else ResumeOptions), trust=trust)
        params["threadId"] = thread_id
        if forks:
            return await self.open("thread/fork", params, tools, policy)
        async with self.hand_over.lock(thread_id):
            return await self.open("thread/resume", params, tools, policy)

    async def open(
        self,
        method: str,
        params: Mapping[str, JsonValue],
        tools: Iterable[Tool | Callable[..., object]],
        policy: Policy | None,
        restore: dict[str, JsonValue] | None = None,
    ) -> OpenThread:
        """Open a thread, and give it ``restore`` before its first turn."""
        if policy is not None:
            self.client.must_be_usable(policy)
        tools = tuple(tools)
        if self.client.believes_worktrees:
            cwd = await self._cwd(params)
            read = await self.client.call_raw("config/read", read_params(cwd))
            params = without_false_worktree(dict(params), cwd, read)
        if "threadId" in params:  # Codex runs git when it resumes or forks one
            await self._must_be_harmless(await self._cwd(params), dict(params))
        answer = await self._answer(method, dict(params))
        info, thread_id = value_at(answer, "thread"), text_at(answer, "thread", "id")
        self._closed.pop(thread_id or "", None)
        if thread_id is None:
            self.client.decode_result(method, answer)  # says what does not fit
            raise InvalidPayload(f"the result of {method}", ("thread.id: it is missing",))
        for path, target in linked_instructions(answer):
            logger.warning("Codex gives the model %r as instructions: %r is a link", target, path)
        if restore is not None:
            answer = await self._restored(thread_id, answer, restore)
        given: JsonValue = {"config": {"projects": object_at(params, "config", "projects")}}
        self._places[thread_id] = _Place(text_at(answer, "cwd") or "", given)
        if policy is not None:
            self.client.use_policy(policy, thread_id)
        self.client.thread_settled(method, answer)
        self.hand_over.note_opened(method, thread_id, params, restore)
        if tools:
            self.client.tool_calls.add(tools, thread_id)
        return OpenThread(thread_id, info, (method, answer))

    async def _answer(self, method: str, params: dict[str, JsonValue]) -> JsonValue:
        """Return Codex's answer, once another process of ours has handed the thread over."""
        again = partial(self.client.call_raw, method, params, settled=False)
        try:
            return await again()
        except ErrorReply as error:
            if method != "thread/resume" or not is_open_elsewhere(error):
                raise
            return await self.hand_over.take_over(str(params["threadId"]), again, error)

    async def before_turn(self, thread_id: str, cwd: str | None = None) -> None:
        """Have a thread here, where it stays while its turns have their `TurnMarks`.

        One that was handed over is taken back, which raises as `resume`. Checks that the turn can
        reach its model, and has git run nothing of where it works: ``cwd``, or where the thread
        does. Raises NotLoggedIn, UntrustedGitPrograms, and ThreadClosed if Codex has closed it.
        """
        async with self.hand_over.lock(thread_id):
            let_go = self.hand_over.params_to_reopen(thread_id)
            if let_go is not None:
                params, settings = let_go
                await self.open("thread/resume", params, (), None, settings or None)
        if thread_id in self._closed:
            from codex_acp.codex.threads.results import TurnRecord
            from codex_acp.codex.threads.turn_errors import ThreadClosed

            raise ThreadClosed(TurnRecord(thread_id).result(""))
        if await login_is_missing(self.client):
            thread = await self.client.call_raw("thread/read", {"threadId": thread_id})
            configured = await self.client.call_raw("config/read", {})
            provider = text_at(configured, "config", "model_provider") or OPENAI
            if text_at(thread, "thread", "modelProvider") in (None, provider):  # no other one
                raise NotLoggedIn
        place = self._places.get(thread_id)
        if place is None or cwd is not None:
            where = cwd or await self._cwd({"threadId": thread_id})
            place = self._places[thread_id] = _Place(where, None if place is None else place.given)
        await self._must_be_harmless(place.cwd, place.given)

    async def _must_be_harmless(self, cwd: str, given: JsonValue) -> None:
        """Raise UntrustedGitPrograms for what git would run there, unless the user trusts it.

        ``given`` is what the thread was opened with: it may trust the directory for itself.
        """
        from codex_acp.codex.threads.git_programs import look_within

        found = self._looks.get(cwd)
        if found is None or not found.holds:
            found = self._looks[cwd] = await look_within(cwd, asyncio.to_thread)
        if not found.programs or is_trusted(cwd, given):
            return
        if not is_trusted(cwd, await self.client.call_raw("config/read", read_params(cwd))):
            message = git_programs_refusal(
                cwd, found.programs, "open the thread with trust=True and its cwd="
            )
            raise UntrustedGitPrograms(message, cwd, found.programs)

    async def _cwd(self, params: Mapping[str, JsonValue]) -> str:
        """Return where a thread works that is to be opened so, or is stored."""
        cwd = text_at(params, "cwd")
        if cwd is None and "threadId" in params:
            asked: JsonValue = {"threadId": params["threadId"]}
            cwd = text_at(await self.client.call_raw("thread/read", asked), "thread", "cwd")
        return cwd or os.getcwd()  # noqa: PTH109 - a string of the wire

    async def _restored(
        self, thread_id: str, answer: JsonValue, restore: dict[str, JsonValue]
    ) -> JsonValue:
        """Give a new thread the settings it was not started with; return its answer with them.

        A thread that cannot have them is let go of. Raises ErrorReply.
        """
        report = AwaitedNotification("thread/settings/updated", thread_id)
        self.client.subscribe(thread_id, report)
        try:
            params = {"threadId": thread_id, **restore}
            await self.client.call_raw("thread/settings/update", params)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await report.came.wait()
        except BaseException:
            with suppress(CodexAcpError, TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self.client.call_raw("thread/unsubscribe", {"threadId": thread_id})
            raise
        finally:
            self.client.unsubscribe(thread_id, report)
        return with_settings(answer, value_at(report.params, "threadSettings") or restore)


def trusted(params: dict[str, JsonValue], *, trust: bool) -> dict[str, JsonValue]:
    """Return params that trust the directory of ``cwd``, if it is to be. Raises MisuseError."""
    if not trust:
        return params
    cwd = params.get("cwd")
    if not isinstance(cwd, str):
        raise MisuseError("trust= is for the directory of cwd=, which is not given")
    return trusting(params, trust_root(cwd), os.path.realpath(cwd))


# Threads that other processes of this package ask for, or have.

MAX_THREADS: Final = 10_000
"""Threads of which it is remembered how they were opened."""

_AGAIN: Final = frozenset(map(wire_name, ResumeOptions.__annotations__))

_SETTINGS: Final = (
    "approvalPolicy", "approvalsReviewer", "collaborationMode", "effort", "model", "serviceTier",
    "summary",
)  # fmt: skip
"""Settings of a thread that Codex tells and takes alike; the sandbox has two names."""


class _Opened:
    """Params and settings with which a thread is opened again."""

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


class HandOver:
    """Lends the threads of one client, and takes them back. Raises as the client's calls."""

    def __init__(self, client: RequestApi) -> None:
        self._client = client
        self._opened: LastOnes[str, _Opened] = LastOnes(MAX_THREADS)
        self._peers: ThreadPeers | None = None
        self._listening: asyncio.Task[None] | None = None
        self.turns: set[TurnMarks] = set()
        """Turns that a caller of this client has begun and not left."""

    def note_opened(
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

            async def listen() -> None:
                await self._thread_peers().listen(self._client)  # imported once the thread is open

            self._listening = asyncio.ensure_future(listen())

    def note_settings(self, thread_id: str, told: JsonValue) -> None:
        """Remember the settings that Codex reports, the sandbox in force among them."""
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
        """Answer no process any more: the connection has ended."""
        if self._listening is not None:
            self._listening.cancel()
        if self._peers is not None:
            self._peers.leave()

    def lock(self, thread_id: str) -> asyncio.Lock:
        """Return what is held while a turn begins in a thread, or it is opened again."""
        it = self._opened.get(thread_id)
        return asyncio.Lock() if it is None else it.lock

    def params_to_reopen(self, thread_id: str) -> tuple[JsonObject, JsonObject] | None:
        """Return the params and the settings to open a thread again with that was let go."""
        it = self._opened.get(thread_id)
        return (it.params, it.settings) if it is not None and it.elsewhere else None

    def note_turn(self, thread_id: str) -> None:
        """Note that a turn has begun in a thread, so that Codex stores it."""
        if thread_id in self._opened:
            self._opened[thread_id].stored = True

    # A thread that another process has.

    async def take_over(
        self, thread_id: str, again: Callable[[], Awaitable[JsonValue]], refused: ErrorReply
    ) -> JsonValue:
        """Take a thread over (`ThreadPeers.take`); ThreadOpenElsewhere names the one who has it."""
        try:
            return await self._thread_peers().take(self._client, thread_id, again, refused)
        except ErrorReply as error:
            if error is not refused:
                raise
        from codex_acp.codex.connection.thread_peers import writer_of

        found = await asyncio.to_thread(writer_of, self._client.server.codex_home, thread_id)
        whose, pid = ("another program", None) if found is None else (str(found), found.pid)
        raise ThreadOpenElsewhere(refused, thread_id, whose, pid, busy=False) from refused

    def _thread_peers(self) -> ThreadPeers:
        if self._peers is None:
            from codex_acp.codex.connection.thread_peers import ThreadPeers

            self._peers = ThreadPeers(_program, self._let_go)
        return self._peers

    # A thread that another process asks for.

    async def _let_go(self, thread_id: str, asker: Asker) -> State:
        it = self._opened.get(thread_id)
        if it is None or it.elsewhere or not it.stored or self._client.closed:
            return "unknown"
        try:
            for turn in self._running(thread_id) if asker.cancels else ():
                await turn.interrupt()
                await turn.wait_for_its_end()
            if self._running(thread_id):
                return "busy"
            async with it.lock:
                return await self._leave(thread_id, it, asker)
        except CodexAcpError as error:
            logger.info("thread %s is not let go: %s", thread_id, error)
            return "unknown"

    async def _leave(self, thread_id: str, it: _Opened, asker: Asker) -> State:
        below = await self._resting_sub_agents(thread_id)
        if below is None or self._running(thread_id):
            return "busy"
        it.elsewhere = True
        logger.info("thread %s goes on in %r until its next turn here", thread_id, asker.client)
        for each in (*below, thread_id):
            await let_go(self._client, each)
        return "free"

    def _running(self, thread_id: str) -> list[TurnMarks]:
        return [turn for turn in self.turns if turn.thread_id == thread_id and turn.runs]

    async def _resting_sub_agents(self, thread_id: str) -> list[str] | None:
        """Return the loaded sub-agents of a thread; None if it, or one of them, works.

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
    """Return the program's name, for the person who reads where a session has gone."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "a program"  # noqa: PTH119 - a name
