"""Open the threads of one client, and hand them over to other processes of this package.

Owns the calls that open a thread, and remembers the answers as JSON: a program has its thread
before models load. If another process asks for a thread in which no turn runs, this process unloads
the thread, and opens it again with its settings before the next turn here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp.codex.connection.notification_router import NotificationSink, is_unloaded, thread_of
from codex_acp.codex.connection.shared_calls import (
    AwaitedNotification,
    is_no_directory,
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
    several,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.connection.thread_peers import Asker, State, ThreadPeers
    from codex_acp.codex.request_api import RequestApi
    from codex_acp.codex.threads.git_programs import Look
    from codex_acp.codex.threads.notification_stream import TurnMarks
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc import JsonValue

    JsonObject = dict[str, JsonValue]

logger = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0
"""Seconds for Codex's report of new settings, which usually takes a millisecond."""

OPENAI: Final = "openai"
"""Codex's default model provider."""

MAX_PLACES: Final = 10_000
"""Threads whose directory is remembered."""

MAX_LOOKS: Final = 256
"""Directories whose programs for git are remembered."""


class _Place(NamedTuple):
    """The directory of a thread, and the settings that the thread was opened with."""

    cwd: str
    own_config: JsonValue
    """Settings of the thread alone, in the form of an answer to ``config/read``."""


class OpenThread(NamedTuple):
    """A thread that was started, resumed or forked."""

    thread_id: str
    info: JsonValue
    opened_by: tuple[str, JsonValue]
    """The method that opened the thread, and Codex's answer."""


class ThreadServices(NotificationSink):
    """Opens the threads of one client. Each method raises the errors of the client's calls."""

    def __init__(self, client: RequestApi) -> None:
        self.client = client
        self._places: LastOnes[str, _Place] = LastOnes(MAX_PLACES)
        self._looks: LastOnes[str, Look] = LastOnes(MAX_LOOKS)
        self.last_event: LastOnes[str, float] = LastOnes(MAX_PLACES)
        """Thread → time of the last notification of the thread, or of a sub-agent below it."""
        self._closed: LastOnes[str, None] = LastOnes(MAX_PLACES)
        """Threads that Codex has closed and that were not opened again."""
        self._errors: LastOnes[str, JsonObject] = LastOnes(MAX_PLACES)
        """Thread → params of the last final ``error`` since a turn of the thread ended."""
        self.ended_by_older_error: LastOnes[str, None] = LastOnes(MAX_PLACES)
        """Ids of turns that Codex reported as failed, but with the error of an earlier turn."""
        self.hand_over: HandOver = HandOver(client)
        client.subscribe_all(self)

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None:
            return
        for each in (thread_id, *self.client._ancestors_of(thread_id)):
            self.last_event[each] = monotonic()
        if method == "thread/settings/updated":
            self.hand_over.note_settings(thread_id, object_at(params).get("threadSettings"))
        elif method == "error":
            if not value_at(params, "willRetry"):
                self._errors[thread_id] = object_at(params)
        elif method == "turn/completed":
            turn, last_error = object_at(params, "turn"), self._errors.pop(thread_id, {})
            is_older = bool(last_error) and last_error.get("turnId") != turn.get("id")
            is_same = last_error.get("error") == turn.get("error")
            if turn.get("status") == "failed" and is_older and is_same:
                self.ended_by_older_error[str(turn.get("id"))] = None
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
        """Resume or fork a stored thread, for `Threads.resume` and `Threads.fork`."""
        if forks and options.get("ephemeral"):
            options.setdefault("exclude_turns", True)  # else Codex refuses an ephemeral fork
        params = params_of(options, ForkOptions if forks else ResumeOptions)
        await self.check_cwd(params)
        if trust:
            params = with_trust(params)
        params["threadId"] = thread_id
        if forks:
            with naming("thread/fork"):
                return await self.open("thread/fork", params, tools, policy)
        async with self.hand_over.lock(thread_id):
            with naming("thread/resume"):
                return await self.open("thread/resume", params, tools, policy)

    async def open(
        self,
        method: str,
        params: Mapping[str, JsonValue],
        tools: Iterable[Tool | Callable[..., object]],
        policy: Policy | None,
        restore: dict[str, JsonValue] | None = None,
    ) -> OpenThread:
        """Open a thread by ``method``, then give it the settings ``restore``."""
        if policy is not None:
            self.client.must_be_usable(policy)
        tools = several("tools", tools)
        if self.client.believes_worktrees:  # an old Codex, which trusts a false worktree
            cwd = await self._cwd(params)
            config_read = await self.client.call_raw("config/read", read_params(cwd))
            params = without_false_worktree(dict(params), cwd, config_read)
        if "threadId" in params:  # Codex runs git when it resumes or forks a thread
            # Settings are at ``config`` in these params, as in an answer to ``config/read``.
            await self._check_git_programs(await self._cwd(params), dict(params))
        # Not settled: the thread gets the settings ``restore`` before `thread_settled`.
        open_thread = partial(self.client.call_raw, method, dict(params), settled=False)
        try:
            answer = await open_thread()
        except ErrorReply as error:
            if method != "thread/resume" or not is_open_elsewhere(error):
                raise
            answer = await self.hand_over.take_over(str(params["threadId"]), open_thread, error)
        info, thread_id = value_at(answer, "thread"), text_at(answer, "thread", "id")
        self._closed.pop(thread_id or "", None)
        if thread_id is None:
            self.client.decode_result(method, answer)  # raises an error that names the fault
            raise InvalidPayload(f"the result of {method}", ("thread.id: it is missing",))
        for path, target in linked_instructions(answer):
            logger.warning("Codex gives the model %r as instructions: %r is a link", target, path)
        if restore is not None:
            answer = await self._restore(thread_id, answer, restore)
        own_projects = object_at(params, "config", "projects")  # trust for this thread alone
        place = _Place(text_at(answer, "cwd") or "", {"config": {"projects": own_projects}})
        self._places[thread_id] = place
        if policy is not None:
            self.client.use_policy(policy, thread_id)
        self.client.thread_settled(method, answer)
        self.hand_over.note_opened(method, thread_id, params, restore)
        if tools:
            self.client.tool_calls.add(tools, thread_id)
        return OpenThread(thread_id, info, (method, answer))

    async def check_cwd(self, params: Mapping[str, JsonValue]) -> None:
        """Raise MisuseError if the ``cwd`` of a program surely is no directory: Codex would start
        there, and every command of the model would fail."""
        cwd = text_at(params, "cwd")
        if cwd is not None and await is_no_directory(self.client, cwd):
            raise MisuseError(f"cwd={cwd!r} is not a directory; create it, or name another one")

    async def before_turn(self, thread_id: str, cwd: str | None = None) -> None:
        """Make a thread ready for a turn in ``cwd``, or in the thread's own directory.

        Opens a thread again that was handed over, and raises the errors of `Threads.resume`. Raises
        NotLoggedIn if the turn could not reach its model, UntrustedGitPrograms for programs that
        git would run in the directory, and ThreadClosed if Codex has closed the thread.
        """
        async with self.hand_over.lock(thread_id):
            known = self.hand_over.handed_over(thread_id)
            if known is not None:
                settings = known.settings or None
                await self.open("thread/resume", known.params, (), None, settings)
        if thread_id in self._closed:
            from codex_acp.codex.threads.results import TurnRecord
            from codex_acp.codex.threads.turn_errors import ThreadClosed

            raise ThreadClosed(TurnRecord(thread_id).result(""))  # the result of no turn
        if await login_is_missing(self.client):
            thread = await self.client.call_raw("thread/read", {"threadId": thread_id})
            configured = await self.client.call_raw("config/read", {})
            provider = text_at(configured, "config", "model_provider") or OPENAI
            # A thread with another provider needs no login of the configured one.
            if text_at(thread, "thread", "modelProvider") in (None, provider):
                raise NotLoggedIn
        place = self._places.get(thread_id)
        if place is None or cwd is not None:
            directory = cwd or await self._cwd({"threadId": thread_id})
            own_config = None if place is None else place.own_config
            place = self._places[thread_id] = _Place(directory, own_config)
        await self._check_git_programs(place.cwd, place.own_config)

    async def _check_git_programs(self, cwd: str, own_config: JsonValue) -> None:
        """Raise UntrustedGitPrograms for programs that git would run in an untrusted directory.
        ``own_config`` has the settings of the thread alone, which may trust the directory."""
        from codex_acp.codex.threads.git_programs import look_within

        look = self._looks.get(cwd)
        if look is None or not look.is_current:
            look = self._looks[cwd] = await look_within(cwd, asyncio.to_thread)
        if not look.programs or is_trusted(cwd, own_config):
            return
        if not is_trusted(cwd, await self.client.call_raw("config/read", read_params(cwd))):
            message = git_programs_refusal(
                cwd, look.programs, "open the thread with trust=True and its cwd="
            )
            raise UntrustedGitPrograms(message, cwd, look.programs)

    async def _cwd(self, params: Mapping[str, JsonValue]) -> str:
        """Return the ``cwd`` of ``params``, else of their stored thread, else of this process."""
        cwd = text_at(params, "cwd")
        if cwd is None and "threadId" in params:
            answer = await self.client.call_raw("thread/read", {"threadId": params["threadId"]})
            cwd = text_at(answer, "thread", "cwd")
        return cwd or os.getcwd()  # noqa: PTH109 - a string of the wire

    async def _restore(
        self, thread_id: str, answer: JsonValue, restore: dict[str, JsonValue]
    ) -> JsonValue:
        """Give a new thread its settings, and return ``answer`` with these settings. If Codex
        refuses the settings, unsubscribe from the thread and raise ErrorReply."""
        report = AwaitedNotification("thread/settings/updated", thread_id)
        self.client.subscribe(thread_id, report)
        try:
            params = {"threadId": thread_id, **restore}
            await self.client.call_raw("thread/settings/update", params)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await report.arrived.wait()
        except BaseException:
            with suppress(CodexAcpError, TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self.client.call_raw("thread/unsubscribe", {"threadId": thread_id})
            raise
        finally:
            self.client.unsubscribe(thread_id, report)
        return with_settings(answer, value_at(report.params, "threadSettings") or restore)


@contextmanager
def naming(method: str) -> Iterator[None]:
    """Within the block, raise an error about a missing thread as the error of ``method``, the
    program's own call, with advice."""
    try:
        yield
    except ErrorReply as error:
        if "thread not found" in error.message:  # Codex has stored the thread, but not loaded it
            cure = "this client has not opened it: call its resume() first"
        elif "thread not loaded" in error.message or "invalid thread id" in error.message:
            cure = "Codex has no such thread: `threads.list()` has all"
        else:
            raise
        raise ErrorReply(method, error.code, f"{error.message}; {cure}", error.data) from error


def with_trust(params: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return ``params`` that trust their ``cwd``. Raises MisuseError without ``cwd``."""
    cwd = params.get("cwd")
    if not isinstance(cwd, str):
        raise MisuseError("trust= is for the directory of cwd=, which is not given")
    return trusting(params, trust_root(cwd), os.path.realpath(cwd))


# The hand-over between processes of this package.

MAX_THREADS: Final = 10_000
"""Threads whose params are remembered."""

_RESUME_PARAMS: Final = frozenset(map(wire_name, ResumeOptions.__annotations__))

_SETTINGS: Final = (
    "approvalPolicy", "approvalsReviewer", "collaborationMode", "effort", "model", "serviceTier",
    "summary",
)  # fmt: skip
"""Settings that have one name in Codex's reports and in its params; the sandbox has two names."""


class _KnownThread:
    """State of a thread, and params and settings to open it again."""

    def __init__(self) -> None:
        self.params: JsonObject = {}
        """Params of ``thread/resume``."""
        self.settings: JsonObject = {}
        """Settings for the thread after ``thread/resume``, before its next turn."""
        self.stored = False
        """Whether Codex has the thread on the disk, as it does from the first turn on."""
        self.handed_over = False
        """Whether the thread was let go for another process, and not opened again."""
        self.lock = asyncio.Lock()
        """Held while a turn begins, and while the thread is let go or opened again."""


class HandOver:
    """Hands over the threads of one client, and takes them back."""

    def __init__(self, client: RequestApi) -> None:
        self._client = client
        self._known: LastOnes[str, _KnownThread] = LastOnes(MAX_THREADS)
        self._peers: ThreadPeers | None = None
        self._listening: asyncio.Task[None] | None = None
        self.turns: set[TurnMarks] = set()
        """Turns that the program has begun and not left; `Turn` adds and removes itself."""

    def note_opened(
        self, method: str, thread_id: str, params: Mapping[str, JsonValue], settings: JsonValue
    ) -> None:
        """Remember a thread that ``method`` has opened, and let other processes ask for it."""
        if params.get("ephemeral"):
            return
        known = self._known.get(thread_id) or _KnownThread()
        known.params = {name: value for name, value in params.items() if name in _RESUME_PARAMS}
        known.params |= {"threadId": thread_id, "excludeTurns": True}
        known.settings = dict(object_at(settings))
        known.stored = known.stored or method != "thread/start"
        known.handed_over = False
        self._known[thread_id] = known
        # A turn without an id begins only now: the earlier end of the thread did not end this turn.
        for turn in self.turns:
            if turn.thread_id == thread_id and turn.turn_id is None:
                turn.closed = False
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        await self._thread_peers().listen(self._client)  # imported once the thread is open

    def note_settings(self, thread_id: str, reported: JsonValue) -> None:
        """Remember the settings that Codex reports, as params that set them again."""
        known, new = self._known.get(thread_id), object_at(reported)
        if known is None or known.handed_over:
            return
        known.settings = {name: new[name] for name in _SETTINGS if new.get(name) is not None}
        profile = text_at(new, "activePermissionProfile", "id")
        if profile is not None:  # Codex refuses a profile together with a sandbox
            known.settings["permissions"] = profile
        elif "sandboxPolicy" in new:
            known.settings["sandboxPolicy"] = new["sandboxPolicy"]
        if "cwd" in new:
            known.params["cwd"] = new["cwd"]

    def leave(self) -> None:
        """Stop answering other processes, because the connection has ended."""
        if self._listening is not None:
            self._listening.cancel()
        if self._peers is not None:
            self._peers.leave()

    def lock(self, thread_id: str) -> asyncio.Lock:
        """Return the lock to hold while a turn begins in a thread, or the thread is reopened.
        An unknown thread gets a new lock at each call."""
        known = self._known.get(thread_id)
        return asyncio.Lock() if known is None else known.lock

    def handed_over(self, thread_id: str) -> _KnownThread | None:
        """Return the state to reopen a thread with; None if the thread was not handed over."""
        known = self._known.get(thread_id)
        return known if known is not None and known.handed_over else None

    def note_turn(self, thread_id: str) -> None:
        """Note that a turn has begun in a thread, so that Codex stores the thread."""
        if thread_id in self._known:
            self._known[thread_id].stored = True

    # Take a thread from another process.

    async def take_over(
        self, thread_id: str, open_thread: Callable[[], Awaitable[JsonValue]], refused: ErrorReply
    ) -> JsonValue:
        """Take a thread over (`ThreadPeers.take`). Raises ThreadOpenElsewhere."""
        try:
            return await self._thread_peers().take(self._client, thread_id, open_thread, refused)
        except ErrorReply as error:
            if error is not refused:  # `take` raises ``refused`` if no process lets the thread go
                raise
        from codex_acp.codex.connection.thread_peers import writer_of

        writer = await asyncio.to_thread(writer_of, self._client.server.codex_home, thread_id)
        name, pid = ("another program", None) if writer is None else (str(writer), writer.pid)
        raise ThreadOpenElsewhere(refused, thread_id, name, pid, busy=False) from refused

    def _thread_peers(self) -> ThreadPeers:
        if self._peers is None:
            from codex_acp.codex.connection.thread_peers import ThreadPeers

            self._peers = ThreadPeers(_program_name, self._let_go)
        return self._peers

    # Let a thread go to another process.

    async def _let_go(self, thread_id: str, asker: Asker) -> State:
        """Let another process have a thread if no turn runs in it; return the thread's state."""
        known = self._known.get(thread_id)
        if known is None or known.handed_over or not known.stored or self._client.closed:
            return "unknown"
        try:
            if asker.cancels:
                for turn in self._running_turns(thread_id):
                    await turn.interrupt()
                    await turn.wait_for_end()
            if self._running_turns(thread_id):
                return "busy"
            async with known.lock:
                sub_agents = await self._idle_sub_agents(thread_id)
                if sub_agents is None or self._running_turns(thread_id):
                    return "busy"
                known.handed_over = True  # also if `let_go` fails: the next turn reopens the thread
                client = asker.client
                logger.info("thread %s goes on in %r until its next turn here", thread_id, client)
                for each in (*sub_agents, thread_id):
                    await let_go(self._client, each)
                return "free"
        except CodexAcpError as error:
            logger.info("thread %s is not let go: %s", thread_id, error)
            return "unknown"

    def _running_turns(self, thread_id: str) -> list[TurnMarks]:
        return [turn for turn in self.turns if turn.thread_id == thread_id and turn.runs]

    async def _idle_sub_agents(self, thread_id: str) -> list[str] | None:
        """Return the loaded sub-agents of a thread; None if a turn or a terminal runs in them or in
        the thread. Asks Codex, because `turns` does not have detached turns."""
        loaded = list_at(await self._client.call_raw("thread/loaded/list", {}), "data")
        others = [str(each) for each in loaded if each not in self._known]
        infos: dict[str, JsonObject] = {}
        for each in (thread_id, *others):
            with suppress(ErrorReply):  # it has just been unloaded
                answer = await self._client.call_raw("thread/read", {"threadId": each})
                infos[each] = object_at(answer, "thread")
        family = [thread_id]
        for each in family:  # the loop also visits the threads that it adds
            family += [child for child in infos if text_at(infos[child], "parentThreadId") == each]
        if any(text_at(infos.get(each), "status", "type") == "active" for each in family):
            return None
        for each in family:
            with suppress(ErrorReply):
                params: JsonObject = {"threadId": each}
                answer = await self._client.call_raw("thread/backgroundTerminals/list", params)
                if list_at(object_at(answer), "data"):
                    return None
        return family[1:]


def _program_name() -> str:
    """Return the program's name, which another process shows to a person."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "a program"  # noqa: PTH119 - a name
