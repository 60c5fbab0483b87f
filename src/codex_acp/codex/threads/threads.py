"""The threads of an app-server: start, resume, fork, list.

Owns how a new thread's settings go to the wire, and the list of those that are stored.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Unpack

from codex_acp.codex.threads.opening import needs_no_configuration, opening, read_params
from codex_acp.codex.threads.options import (
    ForkOptions,
    ListOptions,
    ResumeOptions,
    StartOptions,
    params_of,
)
from codex_acp.codex.threads.thread import Thread
from codex_acp.codex.threads.thread_services import ThreadServices, trusted
from codex_acp.codex.threads.trust import left_out_here, undecided_root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from codex_acp.codex._generated.models import ThreadListResponse
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.request_api import RequestApi
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)


class Threads:
    """The threads of one client: ``codex.threads``. Every method raises as the client's calls."""

    def __init__(self, client: RequestApi) -> None:
        self._client = client
        self._services = ThreadServices(client)

    def __repr__(self) -> str:
        return f"{self._client!r}.threads"

    async def start(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[StartOptions],
    ) -> Thread:
        """A new thread, ready for a turn. What is not given is as Codex is configured.

        ``options`` are ``cwd``, ``model``, ``sandbox`` (``"read-only"``, ``"workspace-write"``,
        ``"danger-full-access"``), ``approval_policy`` (``"on-request"``, ``"never"``), ``config``
        and the others of ``codex_acp.codex.threads.options.StartOptions``.

        Nothing of the directory ``cwd`` is run, and nothing is written to the configuration: what
        it brings of its own in ``.codex`` (MCP servers, hooks, settings) is used if the user has
        trusted it, or with ``trust`` in this thread alone. The trust is in the repository around
        ``cwd``, which must be given for it.

        ``tools`` are functions that the model may call in this thread, besides those of
        `CodexClient.tool`. Codex keeps what is offered with the thread; a program that resumes it
        must have the functions again. ``policy`` decides the approvals of this thread and of its
        sub-agents, in place of the client's. Raises MisuseError for a function that cannot be a
        tool, for what is no policy, and for an option that there is not.
        """
        params = params_of(options, StartOptions)
        tools = tuple(tools)
        if tools or self._client.has_tools:
            offered = self._client.tool_calls.offered(tools)
            if offered:
                params["dynamicTools"] = offered
        if trust or needs_no_configuration(params):
            params = trusted(params, trust=trust)
            return Thread(
                self._services, *await self._services.open("thread/start", params, tools, policy)
            )
        cwd = str(params["cwd"])
        read = await self._client.call_raw("config/read", read_params(cwd))
        params, restore = opening(params, read)
        opened = await self._services.open("thread/start", params, tools, policy, restore)
        for folder, words in left_out_here(read) if undecided_root(cwd, read) is not None else ():
            what = ", ".join(words)
            logger.warning("%r is not used (%s): nobody trusts it; see trust=True", folder, what)
        return Thread(self._services, *opened)

    async def resume(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Load a thread that Codex has stored, so that turns can run in it.

        ``tools`` answer the calls of those that were offered when it was started, by their names;
        ``trust`` and ``policy`` as for `start`; without one a thread keeps the policy that it was
        opened with in this client, else it has the client's.
        """
        opened = await self._services.reopen(
            thread_id, options, trust=trust, tools=tools, policy=policy
        )
        return Thread(self._services, *opened)

    async def fork(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """A new thread that begins with what was said in another one, which stays as it is.

        ``tools`` and ``trust`` as for `resume`. Without a ``policy`` it has the client's, whatever
        the thread has that it is forked off.
        """
        opened = await self._services.reopen(
            thread_id, options, forks=True, trust=trust, tools=tools, policy=policy
        )
        return Thread(self._services, *opened)

    def get(self, thread_id: str) -> Thread:
        """The object for a stored thread, to read, rename, archive or delete it; asks nobody.

        Before a turn can run in it, `Thread.resume` it.
        """
        return Thread(self._services, thread_id)

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
        seen: set[str] = set()
        while True:
            answer = await self._client.call_raw("thread/list", params)
            page: ThreadListResponse = self._client.decode_result("thread/list", answer)
            for info in page.data:
                yield Thread(self._services, info.id, info)
            if page.next_cursor is None or page.next_cursor in seen:  # Codex goes in circles
                return
            seen.add(page.next_cursor)
            params["cursor"] = page.next_cursor
