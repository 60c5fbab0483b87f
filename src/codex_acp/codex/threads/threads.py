"""The threads of an app-server: start, resume, fork, list.

Decides how the settings of a new thread are sent to Codex; owns the list of stored threads.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Unpack

from codex_acp.codex.threads.opening import read_params, trusts_nothing, untrusted_opening
from codex_acp.codex.threads.options import (
    ForkOptions,
    ListOptions,
    ResumeOptions,
    StartOptions,
    params_of,
)
from codex_acp.codex.threads.thread import Thread
from codex_acp.codex.threads.thread_services import ThreadServices, with_trust
from codex_acp.codex.threads.trust import undecided_root, unused_folders
from codex_acp.errors import refuse_unless, several

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from codex_acp.codex._generated.models import ThreadListResponse
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.request_api import RequestApi
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc import JsonValue

logger = logging.getLogger(__name__)


class Threads:
    """The threads of one client: ``codex.threads``. Methods raise as calls of `CodexClient` do."""

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
        """Start a thread, ready for a turn. Codex's configuration has the defaults of ``options``.

        ``options`` are ``cwd``, ``model``, ``sandbox`` (``"read-only"``, ``"workspace-write"``,
        ``"danger-full-access"``), ``approval_policy`` (``"on-request"``, ``"never"``), ``config``
        and the others of ``codex_acp.codex.threads.options.StartOptions``.

        Codex starts nothing that the directory ``cwd`` names, and writes nothing to the user's
        configuration. The directory's own ``.codex`` (MCP servers, hooks, settings) is used if the
        user has trusted the directory, or if ``trust`` is true. ``trust`` is for the repository
        around ``cwd``, in this thread alone; it needs ``cwd``.

        ``tools`` are functions that the model may call in this thread, besides those of
        `CodexClient.tool`. Codex stores the offered tools with the thread; a program that resumes
        the thread must pass the functions again. ``policy`` decides the approvals of this thread
        and of its sub-agents, in place of the client's policy. Raises MisuseError for a function
        that cannot be a tool, for a value that is no policy, for an unknown option, and for a
        ``cwd`` that is no directory.
        """
        params = params_of(options, StartOptions)
        await self._services.check_cwd(params)
        tools = several("tools", tools)
        if tools or self._client.has_tools:
            offered = self._client.tool_calls.offered(tools)
            if offered:
                params["dynamicTools"] = offered
        if trust:
            params = with_trust(params)
        if trust or trusts_nothing(params):  # else Codex may trust ``cwd`` by itself
            return Thread(
                self._services, *await self._services.open("thread/start", params, tools, policy)
            )
        cwd = str(params["cwd"])
        config_read = await self._client.call_raw("config/read", read_params(cwd))
        # A thread that starts read-only gets its sandbox by ``restore``, before its first turn.
        params, restore = untrusted_opening(params, config_read)
        opened = await self._services.open("thread/start", params, tools, policy, restore)
        if undecided_root(cwd, config_read) is not None:  # else the person has decided
            for folder, contents in unused_folders(config_read):
                listed = ", ".join(contents)
                logger.warning(
                    "%r is not used (%s): nobody trusts it; see trust=True", folder, listed
                )
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

        ``tools`` are the functions for the tools with which the thread was started, with the
        names of these tools. ``trust`` and ``policy`` are as in `start`. Without a ``policy``
        the thread keeps the policy with which this client opened it, or has the client's policy.
        """
        thread = self.get(thread_id)
        return await thread.resume(trust=trust, tools=tools, policy=policy, **options)

    async def fork(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """Start a thread with a copy of another thread's conversation.

        ``tools`` and ``trust`` are as in `resume`. Without a ``policy`` the new thread has the
        client's policy, even if the other thread has a policy of its own.
        """
        thread = self.get(thread_id)
        return await thread.fork(trust=trust, tools=tools, policy=policy, **options)

    def get(self, thread_id: str) -> Thread:
        """Return the object of a stored thread, without a call, to read, rename, archive or delete
        it. Call `Thread.resume` before its first turn. Raises MisuseError for an id that is no
        text."""
        refuse_unless(isinstance(thread_id, str), "a thread is named by its id", thread_id)
        return Thread(self._services, thread_id)

    def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[Thread]:
        """Iterate over the stored threads, the last used first; fetches pages as needed.

        ``async for thread in codex.threads.list(): print(thread.info.preview)``. The threads are
        not loaded, as with `get`.
        """
        # By default Codex sorts by creation, with a cursor in whole seconds: of the threads that
        # began in one second, some can be lost between two pages.
        options.setdefault("sort_key", "recency_at")
        return self._pages(params_of(options, ListOptions))

    async def _pages(self, params: dict[str, JsonValue]) -> AsyncIterator[Thread]:
        seen: set[str] = set()
        while True:
            answer = await self._client.call_raw("thread/list", params)
            page: ThreadListResponse = self._client.decode_result("thread/list", answer)
            for info in page.data:
                yield Thread(self._services, info.id, info)
            if page.next_cursor is None or page.next_cursor in seen:  # Codex may repeat a cursor
                return
            seen.add(page.next_cursor)
            params["cursor"] = page.next_cursor
