"""The threads of an app-server: start, resume, fork, list.

Owns how their settings go to the wire and what is remembered of the answers. The answers stay
JSON: a program has its thread before a model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex.threads.options import params_of
from codex_acp.codex.threads.thread import Thread
from codex_acp.errors import InvalidPayload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from typing import Unpack

    from codex_acp.codex._generated.models import ThreadListResponse
    from codex_acp.codex.client import CodexClient
    from codex_acp.codex.threads.options import (
        ForkOptions,
        ListOptions,
        ResumeOptions,
        StartOptions,
    )
    from codex_acp.codex.threads.silence import Watches
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["Threads"]


class Threads:
    """The threads of one client: ``codex.threads``. Every method raises as the client's calls."""

    def __init__(self, client: CodexClient) -> None:
        self._client = client
        self._watches: Watches | None = None

    async def start(
        self,
        *,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[StartOptions],
    ) -> Thread:
        """A new thread, ready for a turn. What is not given is as Codex is configured.

        ``tools`` are functions that the model may call in this thread, besides those of
        `CodexClient.tool`. Codex keeps what is offered with the thread; a program that resumes it
        must have the functions again. Raises MisuseError for a function that cannot be a tool.
        """
        params = params_of(options)
        tools = tuple(tools)
        if tools or self._client.has_tools:
            offered = self._client.tool_calls.offered(tools)
            if offered:
                params["dynamicTools"] = offered
        return await self._begin("thread/start", params, tools)

    async def resume(
        self,
        thread_id: str,
        *,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Load a thread that Codex has stored, so that turns can run in it.

        ``tools`` answer the calls of those that were offered when it was started, by their names.
        """
        params = {**params_of(options), "threadId": thread_id}
        return await self._begin("thread/resume", params, tuple(tools))

    async def fork(
        self,
        thread_id: str,
        *,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """A new thread that begins with what was said in another one, which stays as it is.

        ``tools`` as for `resume`.
        """
        if options.get("ephemeral"):
            options.setdefault("exclude_turns", True)  # Codex forks no other way without a file
        params = {**params_of(options), "threadId": thread_id}
        return await self._begin("thread/fork", params, tuple(tools))

    def get(self, thread_id: str) -> Thread:
        """The object for a stored thread, to read, rename, archive or delete it; asks nobody.

        Before a turn can run in it, `Thread.resume` it.
        """
        return Thread(self._client, thread_id)

    async def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[Thread]:
        """The stored threads, the last used first; pages are fetched as they are needed.

        ``async for thread in codex.threads.list(): print(thread.info.preview)``. None of them is
        loaded: see `get`.
        """
        # Codex's own default, by creation, loses threads at the end of a page: its cursor is a
        # second, and several may have begun in it.
        options.setdefault("sort_key", "recency_at")
        params = params_of(options)
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
    ) -> Thread:
        answer = await self._client.call_raw(method, dict(params))
        info = answer.get("thread") if isinstance(answer, dict) else None
        thread_id = info.get("id") if isinstance(info, dict) else None
        if not isinstance(thread_id, str):
            self._client.decode_result(method, answer)  # says what does not fit
            what = f"the result of {method}"
            raise InvalidPayload(what, ("thread.id: it is missing",))
        if tools:
            self._client.tool_calls.add(tools, thread_id)
        return Thread(self._client, thread_id, info, (method, answer))
