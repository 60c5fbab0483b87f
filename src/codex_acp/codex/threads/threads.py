"""The threads of an app-server: start, resume, fork, list.

Owns how their settings go to the wire and what is remembered of the answers. The answers stay
JSON: a program has its thread before a model is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.codex.threads.opening import (
    needs_no_configuration,
    opening,
    read_params,
    trusting,
    with_settings,
)
from codex_acp.codex.threads.options import (
    ForkOptions,
    ListOptions,
    ResumeOptions,
    StartOptions,
    params_of,
)
from codex_acp.codex.threads.thread import Thread
from codex_acp.codex.threads.trust import left_out_here, trust_root, undecided_root
from codex_acp.errors import CodexAcpError, InvalidPayload, MisuseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from typing import Unpack

    from codex_acp.codex._generated.models import ThreadListResponse
    from codex_acp.codex.client import CodexClient
    from codex_acp.codex.threads.silence import Watches
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["Threads"]

logger = logging.getLogger(__name__)

REPORT_SECONDS: Final = 1.0
"""How long Codex may take to report the settings it has just taken: usually a millisecond."""


class Threads:
    """The threads of one client: ``codex.threads``. Every method raises as the client's calls."""

    def __init__(self, client: CodexClient) -> None:
        self._client = client
        self._watches: Watches | None = None

    async def start(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[StartOptions],
    ) -> Thread:
        """A new thread, ready for a turn. What is not given is as Codex is configured.

        Nothing of the directory ``cwd`` is run, and nothing is written to the configuration: what
        it brings of its own in ``.codex`` (MCP servers, hooks, settings) is used if the user has
        trusted it, or with ``trust`` in this thread alone. The trust is in the repository around
        ``cwd``, which must be given for it.

        ``tools`` are functions that the model may call in this thread, besides those of
        `CodexClient.tool`. Codex keeps what is offered with the thread; a program that resumes it
        must have the functions again. Raises MisuseError for a function that cannot be a tool, and
        for an option that there is not.
        """
        params = params_of(options, StartOptions)
        tools = tuple(tools)
        if tools or self._client.has_tools:
            offered = self._client.tool_calls.offered(tools)
            if offered:
                params["dynamicTools"] = offered
        if trust or needs_no_configuration(params):
            return await self._begin("thread/start", _trusted(params, trust=trust), tools)
        cwd = str(params["cwd"])
        read = await self._client.call_raw("config/read", read_params(cwd))
        params, restore = opening(params, read)
        thread = await self._begin("thread/start", params, tools, restore)
        if undecided_root(cwd, read) is not None:
            _tell_left_out(read)
        return thread

    async def resume(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Load a thread that Codex has stored, so that turns can run in it.

        ``tools`` answer the calls of those that were offered when it was started, by their names;
        ``trust`` as for `start`.
        """
        params = _trusted(params_of(options, ResumeOptions), trust=trust)
        params["threadId"] = thread_id
        return await self._begin("thread/resume", params, tuple(tools))

    async def fork(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """A new thread that begins with what was said in another one, which stays as it is.

        ``tools`` and ``trust`` as for `resume`.
        """
        if options.get("ephemeral"):
            options.setdefault("exclude_turns", True)  # Codex forks no other way without a file
        params = _trusted(params_of(options, ForkOptions), trust=trust)
        params["threadId"] = thread_id
        return await self._begin("thread/fork", params, tuple(tools))

    def get(self, thread_id: str) -> Thread:
        """The object for a stored thread, to read, rename, archive or delete it; asks nobody.

        Before a turn can run in it, `Thread.resume` it.
        """
        return Thread(self._client, thread_id)

    def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[Thread]:
        """The stored threads, the last used first; pages are fetched as they are needed.

        ``async for thread in codex.threads.list(): print(thread.info.preview)``. None of them is
        loaded: see `get`.
        """
        # Codex's own default, by creation, loses threads at the end of a page: its cursor is a
        # second, and several may have begun in it.
        options.setdefault("sort_key", "recency_at")
        return self._pages(params_of(options, ListOptions))

    async def _pages(self, params: dict[str, JsonValue]) -> AsyncIterator[Thread]:
        while True:
            answer = await self._client.call_raw("thread/list", params)
            page: ThreadListResponse = self._client.decode_result("thread/list", answer)
            for info in page.data:
                yield Thread(self._client, info.id, info)
            if page.next_cursor is None:
                return
            params["cursor"] = page.next_cursor

    @property
    def watches(self) -> Watches:
        """What watches running turns for silence."""
        if self._watches is None:
            from codex_acp.codex.threads.silence import Watches

            self._watches = Watches(self._client)
        return self._watches

    async def _begin(
        self,
        method: str,
        params: Mapping[str, JsonValue],
        tools: tuple[Tool | Callable[..., object], ...],
        restore: dict[str, JsonValue] | None = None,
    ) -> Thread:
        answer = await self._client.call_raw(method, dict(params), settled=False)
        info = answer.get("thread") if isinstance(answer, dict) else None
        thread_id = info.get("id") if isinstance(info, dict) else None
        if not isinstance(thread_id, str):
            self._client.decode_result(method, answer)  # says what does not fit
            what = f"the result of {method}"
            raise InvalidPayload(what, ("thread.id: it is missing",))
        if restore is not None:
            answer = await self._restored(thread_id, answer, restore)
        self._client.thread_settled(method, answer)
        if tools:
            self._client.tool_calls.add(tools, thread_id)
        return Thread(self._client, thread_id, info, (method, answer))

    async def _restored(
        self, thread_id: str, answer: JsonValue, restore: dict[str, JsonValue]
    ) -> JsonValue:
        """Give a new thread what it was not started with; its answer with that.

        One that cannot have it is no thread that was asked for: it is let go of. Raises ErrorReply.
        """
        report = _Report()
        self._client.subscribe(thread_id, report)
        try:
            params = {"threadId": thread_id, **restore}
            await self._client.call_raw("thread/settings/update", params)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await report.came.wait()
        except BaseException:
            with suppress(CodexAcpError, TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._client.call_raw("thread/unsubscribe", {"threadId": thread_id})
            raise
        finally:
            self._client.unsubscribe(thread_id, report)
        return with_settings(answer, report.settings or restore)


class _Report:
    """A sink that waits for the settings of a thread."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.settings: JsonValue = None

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`."""
        if method == "thread/settings/updated" and isinstance(params, dict):
            self.settings = params.get("threadSettings")
            self.came.set()

    def on_batch_end(self) -> None:
        """See `NotificationSink`."""

    def on_closed(self, error: TransportError | None) -> None:  # noqa: ARG002 - of the protocol
        """See `NotificationSink`: whoever uses the thread finds out."""
        self.came.set()


def _trusted(params: dict[str, JsonValue], *, trust: bool) -> dict[str, JsonValue]:
    if not trust:
        return params
    cwd = params.get("cwd")
    if not isinstance(cwd, str):
        raise MisuseError("trust= is for the directory of cwd=, which is not given")
    return trusting(params, trust_root(cwd), os.path.realpath(cwd))


def _tell_left_out(read: JsonValue) -> None:
    for folder, words in left_out_here(read):
        what = ", ".join(words)
        logger.warning("%r is not used (%s): nobody trusts it; see trust=True", folder, what)
