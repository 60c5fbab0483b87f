"""A program's own handlers, and its policy: neither is answered for by an action that has its id.

Codex finds what an answer is for by thread and call id, which the model chooses (contract 3.7). So
of several requests that share one, asked of a handler or of the policy, none is allowed. Nor is a
handler asked to have a page opened that is none (2.4). Owns only these two: whatever else a handler
replies is its own matter.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.codex._generated.models import McpUrlElicitationParams
from codex_acp.codex._generated.notifications import (
    ThreadClosedEvent,
    TurnCompletedEvent,
    TurnStartedEvent,
)
from codex_acp.codex.approvals.action_ids import SHARED_ID, Collision
from codex_acp.codex.approvals.actions import answer_id_of
from codex_acp.codex.approvals.classify import ApprovalRequest, classify
from codex_acp.codex.approvals.policies import ApprovalQuestion, Deny, Policy
from codex_acp.codex.approvals.policy_runner import PolicyRunner
from codex_acp.codex.approvals.refusals import is_negative

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.wire.model import WireModel

_Handler: TypeAlias = "Callable[[Any], Awaitable[WireModel]]"


class HandlerGuard(PolicyRunner):
    """Runs a policy, and what is asked of handlers beside it."""

    def __init__(
        self,
        client: AppServerConnection,
        policy: Policy,
        on_refused: Callable[[RefusedRequest], None] | None = None,
    ) -> None:
        super().__init__(client, policy, on_refused)
        self._unread: dict[tuple[str, str], asyncio.Future[Deny] | None] = {}
        """Thread and answer id of what a handler is asked that `_ids` cannot hold, and what
        withdraws it; None for what was allowed. Until the thread's turn is over."""

    async def guarded(self, request: ServerRequest, handler: _Handler) -> WireModel:
        """Return the reply of the program's own handler, unless Codex could take it for another
        action's.

        Only that is checked (contract 3.7): whatever the handler replies is sent as it is. It is
        not asked about a URL that a browser reads as another (contract 2.4).
        """
        if isinstance(request.params, McpUrlElicitationParams):
            page = allowed_url(request.params.url)
            if isinstance(page, RefusedUrl):
                return await self._refuse_unasked(request, f"the URL was refused: {page.reason}")
        what, shared = classify(request, self._items), answer_id_of(request)
        question = self._question(what) if isinstance(what, ApprovalRequest) else None
        key = (type(request.id), request.id)
        if (
            shared in self._unread
            or not isinstance(question, ApprovalQuestion)
            or key in self._open
        ):
            return await self._guarded_unread(request, handler, shared)
        open_ = await self._enter(key, question)
        if open_ is None:
            return self._refuse(request, SHARED_ID)
        try:
            reply = await self._reply_of(handler, request, open_.withdrawn)
            if is_negative(reply):
                self._ids.forget(key)
            else:
                self._ids.allowed(key)
        except BaseException:
            self._ids.forget(key)
            raise
        else:
            return reply
        finally:
            del self._open[key]

    async def _guarded_unread(
        self, request: ServerRequest, handler: _Handler, shared: tuple[str, str] | None
    ) -> WireModel:
        """As `guarded`, for what is not known to be an approval: alone under its id, or refused."""
        if shared is None:
            return await handler(request)
        if shared in self._unread:
            await self._withdraw_unread(request, shared)
            return self._refuse(request, SHARED_ID)
        if await self._declines_others(request):
            return self._refuse(request, SHARED_ID)
        withdrawn: asyncio.Future[Deny] = asyncio.get_running_loop().create_future()
        self._unread[shared] = withdrawn
        try:
            reply = await self._reply_of(handler, request, withdrawn)
        except BaseException:
            if not withdrawn.done():
                self._unread.pop(shared, None)
            raise
        if withdrawn.done():
            return reply
        if is_negative(reply):
            self._unread.pop(shared, None)
        elif shared in self._unread:
            self._unread[shared] = None
        return reply

    async def _withdraw_unread(self, request: ServerRequest, shared: tuple[str, str]) -> None:
        held = self._unread[shared]
        if held is None:
            allowed = ((type(request.id), request.id),)
            turn_id = getattr(request.params, "turn_id", "")
            self._fail_closed(Collision((), allowed), shared[0], turn_id)
            await asyncio.sleep(0)
        elif not held.done():
            held.set_result(Deny(SHARED_ID))

    async def _reply_of(
        self, handler: _Handler, request: ServerRequest, withdrawn: asyncio.Future[Deny]
    ) -> WireModel:
        """Return the handler's reply, or its refusal if another request shares its id."""
        task, waits = asyncio.current_task(), True

        def withdraw(done: asyncio.Future[Deny]) -> None:
            if waits and task is not None and _is_shared(done):
                task.cancel()

        withdrawn.add_done_callback(withdraw)
        try:
            # In this very task, by which the client knows a handler that closes it.
            reply = await handler(request)
        except asyncio.CancelledError:
            if not _is_shared(withdrawn) or task is None or task.uncancel():
                raise
            return self._refuse(request, SHARED_ID)
        finally:
            waits = False
        return self._refuse(request, SHARED_ID) if _is_shared(withdrawn) else reply

    def _learn(self, event: ServerNotification) -> None:
        super()._learn(event)
        if isinstance(event, TurnStartedEvent | TurnCompletedEvent | ThreadClosedEvent):
            over = event.params.thread_id
            for shared in [each for each in self._unread if each[0] == over]:
                del self._unread[shared]


def _is_shared(withdrawn: asyncio.Future[Deny]) -> bool:
    return withdrawn.done() and withdrawn.result().reason == SHARED_ID
