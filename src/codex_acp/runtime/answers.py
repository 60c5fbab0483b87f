"""Answers one session's agent when it asks: permissions, forms, files, terminals.

Owns the open questions, which a cancel settles. Must not know how a question arrived.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CancelScope

from codex_acp.acp import types
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import METHOD_NOT_FOUND
from codex_acp.runtime.filesystem import FileAccess, FileThreads, read_text, write_text
from codex_acp.runtime.permissions import (
    Form,
    Permission,
    PermissionPolicy,
    UrlRequest,
    ask_form,
    ask_url,
    decide,
)
from codex_acp.runtime.roots import Roots
from codex_acp.runtime.terminals import Terminals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.runtime.results import ToolCall
    from codex_acp.runtime.services import Services

T = TypeVar("T")

NO_FILES: Final = FileAccess(read=False, write=False)


class Answers:
    """The answers of one session.

    ``tool_call`` gives the tool call of a permission request as it is known, the request included.
    ``drained`` waits until the agent has taken most of what it was sent.
    """

    def __init__(
        self,
        services: Services,
        policy: PermissionPolicy | None,
        cwd: str,
        directories: Sequence[str | os.PathLike[str]],
        tool_call: Callable[[types.RequestPermissionRequest], ToolCall],
        drained: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._policy = policy or services.permissions
        self._files = services.files or NO_FILES
        roots = (cwd, *directories, *self._files.roots)
        offered = self._files.read or self._files.write
        self._roots = Roots(os.path.abspath(root) for root in roots if offered)  # noqa: PTH100
        self._threads = FileThreads(drained=drained)
        self._terminals = None if services.terminals is None else Terminals(services.terminals, cwd)
        self._tool_call = tool_call
        self._open: set[CancelScope] = set()
        self.refusing: bool = False
        """Whether every question is answered "cancelled" at once: a prompt is being cancelled, or
        the session is closed."""

    @property
    def terminals(self) -> Terminals:
        """The session's terminals. Raises RpcError where there are none."""
        if self._terminals is None:
            raise RpcError(METHOD_NOT_FOUND, "terminals are not offered")
        return self._terminals

    def refuse(self) -> None:
        """Settle every open question, and those that come: they are answered "cancelled"."""
        self.refusing = True
        self.settle()

    def settle(self) -> None:
        """Settle every open question: nobody waits for the answer any more."""
        for scope in tuple(self._open):
            scope.cancel()

    async def aclose(self) -> None:
        """Settle what is open, and end the terminals."""
        self.refuse()
        self._roots.close()
        if self._terminals is not None:
            await self._terminals.aclose()

    async def permission(
        self, request: types.RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        """By the policy."""
        question = Permission(
            request.session_id, self._tool_call(request), tuple(request.options), request
        )
        outcome: types.RequestPermissionOutcome | None = await self._unless_cancelled(
            lambda: decide(self._policy, question)
        )
        return types.RequestPermissionResponse(
            outcome=outcome or types.CancelledRequestPermissionOutcome()
        )

    async def form(self, form: Form) -> types.CreateElicitationResponse:
        """By the callback."""
        callback = self._services.on_form
        if callback is None:
            raise RpcError(METHOD_NOT_FOUND, "forms are not offered")
        answer = await self._unless_cancelled(lambda: ask_form(callback, form))
        return answer or types.CancelCreateElicitationResponse()

    async def url(self, request: UrlRequest) -> types.CreateElicitationResponse:
        """By the callback."""
        callback = self._services.on_url
        if callback is None:
            raise RpcError(METHOD_NOT_FOUND, "URLs are not offered")
        answer = await self._unless_cancelled(lambda: ask_url(callback, request))
        return answer or types.CancelCreateElicitationResponse()

    async def read_file(self, request: types.ReadTextFileRequest) -> str:
        """The text of a file within the roots."""
        size = self._files.size_limit
        path, line, limit = request.path, request.line, request.limit
        return await self._threads.run(partial(read_text, self._roots, path, line, limit, size))

    async def write_file(self, request: types.WriteTextFileRequest) -> None:
        """Write a file within the roots: it is replaced as a whole, or not if this is cancelled."""
        size = self._files.size_limit
        path, content = request.path, request.content
        await self._threads.run(partial(write_text, self._roots, path, content, size))

    async def _unless_cancelled(self, question: Callable[[], Awaitable[T]]) -> T | None:
        """The answer; None if a cancel settled the question, before, meanwhile or just now."""
        answer: T | None = None
        with CancelScope() as scope:
            self._open.add(scope)
            try:
                if not self.refusing:
                    answer = await question()
            finally:
                self._open.discard(scope)
        return None if self.refusing else answer
