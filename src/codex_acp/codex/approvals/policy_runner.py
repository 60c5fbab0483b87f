"""Runs a policy for the app-server's requests, and settles each exactly once (contract 1.4, 6).

Owns the questions that are open, of the policy and of the program's own handlers. What a request
is, `classify` decides; what a decision may do, `grants.accepting_reply`; which actions Codex could
take for each other, `actions.ActionIds`. Elicitations, and whatever only a program can answer, get
their negative reply here: a policy is not asked.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.codex._generated import notifications
from codex_acp.codex._generated.models import McpUrlElicitationParams, TurnInterruptParams
from codex_acp.codex.approvals import actions, grants
from codex_acp.codex.approvals.callbacks import (
    END_OF_CALLBACK_SECONDS,
    CallbackFailed,
    answer_of,
    end_task,
)
from codex_acp.codex.approvals.classify import ApprovalRequest, ElicitationRequest, classify
from codex_acp.codex.approvals.grants import accepting_reply
from codex_acp.codex.approvals.policies import (
    Allow,
    ApprovalQuestion,
    Decision,
    Deny,
    Policy,
    StartedThread,
    why_never_asked,
)
from codex_acp.codex.approvals.real_paths import LOOK_SECONDS, look_at, not_looked_at
from codex_acp.codex.approvals.refusals import is_negative, refusal
from codex_acp.codex.approvals.running_items import FOLLOWED, ForeignReach, Items
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.connection.server_requests import RefusedRequest, sendable, tell_refused
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue, RequestId
    from codex_acp.wire.model import WireModel


_Key: TypeAlias = tuple[type, "RequestId"]
"""The id of a request, with its type: ``"0"`` is another one than ``0``."""

_Handler: TypeAlias = "Callable[[Any], Awaitable[WireModel]]"
"""A program's own handler of a request."""

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"

END_OF_DECISION_SECONDS: Final = 2 * END_OF_CALLBACK_SECONDS
"""Seconds for a withdrawn decision to end: a callback's own bound, and as much again."""

INTERRUPT_SECONDS: Final = 10.0
"""An interrupt is answered at once, or never."""

ELICITATION: Final = "a policy answers no forms, pages or questions; register a handler for them"


@dataclass(slots=True, eq=False)
class _Open:
    """A question that the policy has not answered."""

    question: ApprovalQuestion
    withdrawn: asyncio.Future[Deny]
    """Denial that takes the place of an answer which nobody needs any more."""
    looks: Mapping[str, actions.PathLook] = field(default_factory=dict)
    """Paths that the question names, as one look at the disk found them."""

    def withdraw(self, reason: str, *, answered: bool = True) -> None:
        if not self.withdrawn.done():
            self.withdrawn.set_result(Deny(reason, answered))


class PolicyRunner(NotificationSink):
    """Answers the requests of one client by its policy, and guards the program's own handlers.

    A sink of all notifications of the client. ``policy`` may be replaced; questions that are open
    stay with the old one. ``on_refused`` is called with each request that was declined without
    anybody having said so.
    """

    def __init__(
        self,
        client: AppServerConnection,
        policy: Policy,
        on_refused: Callable[[RefusedRequest], None] | None = None,
    ) -> None:
        self.policy = policy
        self.of_threads: dict[str, Policy] = {}
        """Policies in place of that one, by the threads that began with them."""
        self._client = client
        self._on_refused = on_refused
        self._items = Items(client.opened_threads)
        self.reach: ForeignReach = ForeignReach(self._items)
        self._ids: actions.ActionIds[_Key] = actions.ActionIds()
        self._open: dict[_Key, _Open] = {}
        self._unread: dict[tuple[str, str], asyncio.Future[Deny] | None] = {}
        """Thread and answer id of what a handler is asked that `_ids` cannot hold, and what
        withdraws it; None for what was allowed. Until the thread's turn is over."""
        self._resolved_early: set[_Key] = set()
        self._interrupts: set[asyncio.Task[None]] = set()
        self._batch_over = False
        self._warned: set[str] = set()

    async def handle(self, request: ServerRequest) -> WireModel:
        """Return the reply to a request. Raises RpcError where its method cannot say no."""
        what = classify(request, self._items)
        if isinstance(what, ApprovalRequest):
            return await self._approve(what)
        if isinstance(what, ElicitationRequest):
            return self._refuse(request, ELICITATION)
        return await self._refuse_unasked(request, what.reason)

    def thread_started(self, thread: StartedThread, thread_id: str) -> None:
        """Warn, once, if Codex will never ask under the settings of a thread that begins."""
        policy = self.of_threads.get(thread_id, self.policy)
        text = why_never_asked(
            policy, thread.approval_policy, thread.sandbox, thread.approvals_reviewer
        )
        if text is not None and text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    # The program's own handlers.

    async def guarded(self, request: ServerRequest, handler: _Handler) -> WireModel:
        """Return the handler's reply, unless Codex could take it for another action's.

        Codex finds what an answer is for by thread and call id, which the model chooses (contract
        3.7): of several requests that share one, none is allowed. Nor is a handler asked to have a
        URL opened that a browser reads as another (2.4). Whatever else it replies is sent as it is.
        """
        if isinstance(request.params, McpUrlElicitationParams):
            page = allowed_url(request.params.url)
            if isinstance(page, RefusedUrl):
                return await self._refuse_unasked(request, f"the URL was refused: {page.reason}")
        kind, shared = classify(request, self._items), actions.answer_id_of(request)
        question = self._question(kind) if isinstance(kind, ApprovalRequest) else None
        key = (type(request.id), request.id)
        if (
            shared in self._unread
            or not isinstance(question, ApprovalQuestion)
            or key in self._open
        ):
            return await self._guarded_unread(request, handler, shared)
        open_ = await self._enter(key, question)
        if open_ is None:
            return self._refuse(request, actions.SHARED_ID)
        try:
            reply = await self._reply_of(handler, request, open_.withdrawn)
            if is_negative(reply):
                self._ids.forget(key)
            else:
                self._ids.note_allowed(key)
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
        """Guard a request that is not known to be an approval: alone under its id, or refused."""
        if shared is None:
            return await handler(request)
        if shared in self._unread:
            held = self._unread[shared]
            if held is None:
                allowed = ((type(request.id), request.id),)
                turn_id = getattr(request.params, "turn_id", "")
                self._fail_closed(actions.Collision((), allowed), shared[0], turn_id)
                await asyncio.sleep(0)
            elif not held.done():
                held.set_result(Deny(actions.SHARED_ID))
            return self._refuse(request, actions.SHARED_ID)
        if await self._fail_others_closed(request):
            return self._refuse(request, actions.SHARED_ID)
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
            return self._refuse(request, actions.SHARED_ID)
        finally:
            waits = False
        return self._refuse(request, actions.SHARED_ID) if _is_shared(withdrawn) else reply

    # Approvals.

    async def _approve(self, approval: ApprovalRequest) -> WireModel:
        request = approval.request
        key = (type(request.id), request.id)
        question = self._question(approval)
        if isinstance(question, Deny):
            return await self._refuse_unasked(request, question.reason)
        if key in self._open:
            return self._refuse(request, "the request's id is open already")
        if key in self._resolved_early:
            return self._refuse(request, "Codex settled it itself")
        open_ = await self._enter(key, question)
        if open_ is None:
            return self._refuse(request, actions.SHARED_ID)
        try:
            open_.looks = await _look_at(actions.named_paths(approval))
            open_.question = _with_looks(question, open_.looks)
            decision = await self._decided(open_)
            looks_now: Mapping[str, actions.PathLook] = {}
            if isinstance(decision, Allow):
                looks_now = actions.comparable_looks(open_.looks, await _look_at(open_.looks))
            if open_.withdrawn.done():
                decision = open_.withdrawn.result()
            return self._reply(key, open_.question, decision, looks_now)
        except BaseException:
            self._ids.forget(key)
            raise
        finally:
            del self._open[key]

    async def _enter(self, key: _Key, question: ApprovalQuestion) -> _Open | None:
        """Open the question; None if Codex could take its action for another, so that none runs."""
        collision = self._ids.enter(key, question.approval, question.turn_id)
        if collision is not None:
            self._fail_closed(collision, question.thread_id, question.turn_id)
            await asyncio.sleep(0)  # an interrupt is written before this refusal
            return None
        running = self._items.get(question.thread_id, question.item_id)
        if running is not None:
            running.asked = True  # no second request can claim to be about this item
        loop = asyncio.get_running_loop()
        open_ = self._open[key] = _Open(question, loop.create_future())
        return open_

    def _question(self, approval: ApprovalRequest) -> ApprovalQuestion | Deny:
        grantable = grants.offered(approval).grants
        if not grantable:
            return Deny("Codex offers no way to allow it")
        place = actions.place_of(approval)
        thread_id = place.thread_id
        turn_id = place.turn_id or self._items.running_turn(thread_id)
        if turn_id is None:
            return Deny("Codex asks for an approval without a turn")
        return ApprovalQuestion(
            approval=approval,
            arguments=grants.arguments_of(approval),
            offered=grantable,
            thread_id=thread_id,
            root_thread_id=self._items.root_of(thread_id),
            turn_id=turn_id,
            item_id=place.item_id,
            digest=grants.digest_of(approval),
        )

    async def _decided(self, open_: _Open) -> Decision:
        """Return the policy's decision, or why none matters any more; one that hangs is left."""
        thread_id = open_.question.thread_id
        line = (thread_id, *self._items.ancestors_of(thread_id))  # the nearest policy decides
        policy = next((self.of_threads[t] for t in line if t in self.of_threads), self.policy)
        task = asyncio.get_running_loop().create_task(
            _decision(policy, open_.question), name="a policy"
        )
        first: set[asyncio.Future[Any]] = {task, open_.withdrawn}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not await end_task(task, END_OF_DECISION_SECONDS):
                logger.warning("a policy that was cancelled does not end; it is left")
        if open_.withdrawn.done():
            return open_.withdrawn.result()
        return Deny("the policy was cancelled") if task.cancelled() else task.result()

    def _reply(
        self,
        key: _Key,
        question: ApprovalQuestion,
        decision: Decision,
        looks: Mapping[str, actions.PathLook],
    ) -> WireModel:
        """Return the reply, without an await: what is checked is what Codex reported last."""
        request = question.approval.request
        if isinstance(decision, Deny):
            self._ids.forget(key)
            return self._refuse(request, decision.reason, answered=decision.answered)
        grant, now = decision.grant, actions.refreshed(question.approval, self._items)
        running = self._items.is_running(question.thread_id, question.turn_id)
        reply = accepting_reply(
            grant, question.offered, question.digest, now, looks, running=running
        )
        if isinstance(reply, grants.NotGranted):
            self._ids.forget(key)
            return self._refuse(request, reply.reason)
        if grants.allows(grant):
            self._ids.note_allowed(key)
        else:
            self._ids.forget(key)
        what = "allowed" if grants.allows(grant) else "ruled out"
        logger.info("%s (id %r): %s, %r", request.method, request.id, what, grant)
        return reply

    def _fail_closed(
        self, collision: actions.Collision[_Key], thread_id: str, turn_id: str
    ) -> None:
        """Let none of these actions run, which Codex cannot tell apart (contract 3.7)."""
        if collision.allowed:
            logger.warning("turn %s is interrupted: %s", turn_id, actions.ALLOWED_IN_DOUBT)
            self._interrupt(thread_id, self._items.running_turn(thread_id) or turn_id)
        for key in collision.pending:
            self._open[key].withdraw(actions.SHARED_ID, answered=False)

    async def _refuse_unasked(self, request: ServerRequest, reason: str) -> WireModel:
        """Refuse a request without its policy; what shares its id fails closed with it."""
        await self._fail_others_closed(request)
        return self._refuse(request, reason)

    async def _fail_others_closed(self, request: ServerRequest) -> bool:
        """Let what shares the request's id fail closed; return whether there was something."""
        collision, shared = self._ids.note_declined(request), actions.answer_id_of(request)
        if collision is None or shared is None:
            return False
        self._fail_closed(collision, shared[0], getattr(request.params, "turn_id", ""))
        await asyncio.sleep(0)
        return True

    def _interrupt(self, thread_id: str, turn_id: str) -> None:
        """Interrupt a turn, within a bound: Codex never answers for one that has just ended."""

        async def interrupt() -> None:
            params = TurnInterruptParams(thread_id=thread_id, turn_id=turn_id)
            try:
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await self._client.turn_interrupt(params)
            except (CodexAcpError, TimeoutError) as error:
                logger.warning("turn %s could not be interrupted: %s", turn_id, error)

        task = asyncio.get_running_loop().create_task(interrupt())
        self._interrupts.add(task)
        task.add_done_callback(self._interrupts.discard)

    def _refuse(self, request: ServerRequest, reason: str, *, answered: bool = False) -> WireModel:
        """Return the negative reply, with one warning unless somebody said no."""
        text = sendable(f"{request.method} was declined: {reason}")
        level = logging.INFO if answered else logging.WARNING
        logger.log(level, "refused %s (id %r): %s", request.method, request.id, text)
        if not answered:
            told = RefusedRequest(request.id, request.method, plain(request.params), text)
            tell_refused(self._on_refused, told)
        reply = refusal(request.method, request.params, text)
        if isinstance(reply, RpcError):
            raise reply
        return reply

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if self._batch_over:
            # Requests of the batch before are open by now, so these were somebody else's.
            self._resolved_early.clear()
            self._batch_over = False
        if method == RESOLVED:
            self._resolved(params)
        elif method in FOLLOWED:
            event = self._client.decode_notification(method, params)
            if not isinstance(event, notifications.UnknownNotification):
                self._learn(event)

    def _learn(self, event: notifications.ServerNotification) -> None:
        self._items.apply(event)
        reach = self.reach.apply(event)
        if reach is not None:  # Codex ran no hook for it (contract 3.9c)
            why = "its model reached for" if reach.others else "another thread's model began it"
            logger.warning(
                "turn %s of thread %s is interrupted: %s %s",
                reach.turn_id, reach.thread_id, why, ", ".join(reach.others),
            )  # fmt: skip
            self._interrupt(reach.thread_id, reach.turn_id)
        collision = self._ids.apply(event)
        if collision is not None and isinstance(
            event, notifications.ItemStartedEvent | notifications.ItemCompletedEvent
        ):
            self._fail_closed(collision, event.params.thread_id, event.params.turn_id)
        self._withdraw_what_is_over()
        if isinstance(
            event,
            notifications.TurnStartedEvent
            | notifications.TurnCompletedEvent
            | notifications.ThreadClosedEvent,
        ):
            over = event.params.thread_id
            for shared in [each for each in self._unread if each[0] == over]:
                del self._unread[shared]

    def _withdraw_what_is_over(self) -> None:
        for open_ in self._open.values():
            if not self._items.is_running(open_.question.thread_id, open_.question.turn_id):
                open_.withdraw("its turn is over")

    def on_batch_end(self) -> None:
        self._batch_over = True

    def _resolved(self, params: JsonValue) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(request_id, str | int):
            return
        key = (type(request_id), request_id)
        if key in self._open:
            self._open[key].withdraw("Codex settled it itself")
        else:
            self._ids.note_resolved(key)
            self._resolved_early.add(key)


async def _look_at(paths: Iterable[str]) -> Mapping[str, actions.PathLook]:
    wanted = tuple(paths)
    if not wanted:
        return {}
    looks = await answer_of(look_at, wanted, LOOK_SECONDS)  # in a thread, which may never end
    return not_looked_at(wanted) if isinstance(looks, CallbackFailed) else looks


def _with_looks(
    question: ApprovalQuestion, looks: Mapping[str, actions.PathLook]
) -> ApprovalQuestion:
    changes = actions.changes_of(question.approval)
    removed, made = actions.removed_paths(changes), actions.created_paths(changes)
    real = {path: look.place if path in removed else look.real for path, look in looks.items()}
    return replace(
        question,
        digest=grants.digest_of(question.approval, looks),
        real_paths={path: place or None for path, place in real.items()},
        replaced=tuple(path for path in dict.fromkeys(made) if looks[path].exists),
    )


async def _decision(policy: Policy, question: ApprovalQuestion) -> Decision:
    try:
        decision: object = await policy.decide(question)
    except Exception as error:
        logger.warning("a policy failed", exc_info=error)
        return Deny(f"the policy failed with {type(error).__name__}: {error}")
    if decision is None:
        return Deny("no policy allows it")
    if not isinstance(decision, Allow | Deny):
        return Deny(f"a policy must decide Allow, Deny or None, not {decision!r}")
    return decision


def _is_shared(withdrawn: asyncio.Future[Deny]) -> bool:
    return withdrawn.done() and withdrawn.result().reason == actions.SHARED_ID
