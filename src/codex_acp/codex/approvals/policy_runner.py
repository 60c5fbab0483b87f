"""Run a policy for the app-server's requests, and settle each exactly once (contract 1.4, 6).

Owns the open questions of the policy and of the program's own handlers. `classify` decides what a
request is, `grants.accepting_reply` whether a grant may be sent, `actions.ActionIds` which actions
Codex could take for each other. Elicitations, and requests that only a program can answer, are
refused here without the policy.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.codex._generated import notifications
from codex_acp.codex._generated.models import McpUrlElicitationParams, TurnInterruptParams
from codex_acp.codex.approvals import actions, grants
from codex_acp.codex.approvals.callbacks import (
    END_OF_CALLBACK_SECONDS,
    CallbackFailed,
    answer_of,
    call,
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
from codex_acp.codex.approvals.running_items import (
    USED_BY_ITEMS,
    ForeignReach,
    Items,
    created_paths,
    removed_paths,
)
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.connection.server_requests import RefusedRequest, report_refused, sendable
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import PathLook
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue, RequestId
    from codex_acp.wire.model import WireModel


_Key: TypeAlias = tuple[type, "RequestId"]
"""The id of a request with its type: ``"0"`` and ``0`` are different ids."""

_Handler: TypeAlias = "Callable[[Any], Awaitable[WireModel]]"
"""A program's own handler of a request."""

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"

END_OF_DECISION_SECONDS: Final = 2 * END_OF_CALLBACK_SECONDS
"""Seconds that a withdrawn decision gets to end: twice the time of a callback."""

INTERRUPT_SECONDS: Final = 10.0
"""Seconds for the answer to an interrupt, which Codex answers at once or never."""

OPEN_ALREADY: Final = "the request's id is open already"

ELICITATION: Final = "a policy answers no forms, pages or questions; register a handler for them"


@dataclass(slots=True, eq=False)
class _OpenQuestion:
    """A question that the policy or the handler has not answered."""

    turn: tuple[str, str] | None
    """Thread and turn. The question is withdrawn when the turn ends, or Codex settles the request.
    None for a request that is no known approval: only another request with its id withdraws it."""
    withdrawn: asyncio.Future[Deny]
    """Has the denial to use in place of the answer, once the answer does not matter any more."""

    def withdraw(self, reason: str, *, answered: bool = True) -> None:
        if not self.withdrawn.done():
            self.withdrawn.set_result(Deny(reason, answered))


class PolicyRunner(NotificationSink):
    """Answers the requests of one client by its policy, and guards the program's own handlers. Gets
    all notifications of the client. ``policy`` may be replaced; the old policy still answers the
    open questions. ``on_refused`` gets each declined request for which nobody said no."""

    def __init__(
        self,
        client: AppServerConnection,
        policy: Policy,
        on_refused: Callable[[RefusedRequest], None] | None = None,
    ) -> None:
        self.policy = policy
        self.thread_policies: dict[str, Policy] = {}
        """Thread → the policy that it was opened with, if it has one of its own."""
        self._client = client
        self._on_refused = on_refused
        self.items: Items = Items(client.opened_threads)
        self.foreign_reach: ForeignReach = ForeignReach(self.items)
        self._ids: actions.ActionIds[_Key] = actions.ActionIds()
        self._open: dict[_Key, _OpenQuestion] = {}
        self._resolved_early: set[_Key] = set()
        """Requests of this batch of messages that Codex settled before they reached `handle`."""
        self._interrupts: set[asyncio.Task[None]] = set()
        self._batch_over = False
        self._warned: set[str] = set()

    async def handle(self, request: ServerRequest) -> WireModel:
        """Return the reply to a request. Raises RpcError if its method has no negative reply."""
        classified = classify(request, self.items)
        if isinstance(classified, ApprovalRequest):
            return await self._approve(classified)
        if isinstance(classified, ElicitationRequest):
            return self._refuse(request, ELICITATION)
        return await self._refuse_unasked(request, classified.reason)

    def thread_started(self, thread: StartedThread, thread_id: str) -> None:
        """Warn, once, if Codex never asks the policy under the settings of a new thread."""
        policy = self.thread_policies.get(thread_id, self.policy)
        text = why_never_asked(
            policy, thread.approval_policy, thread.sandbox, thread.approvals_reviewer
        )
        if text is not None and text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    # The program's own handlers.

    async def guarded(self, request: ServerRequest, handler: _Handler) -> WireModel:
        """Return the handler's reply unchanged, or the refusal if a reply would be unsafe.

        Codex finds the action of an answer by thread and call id, which the model chooses (contract
        3.7): no request is allowed that shares its ids with another. No handler is asked to open a
        URL that a browser would read differently (2.4).
        """
        if isinstance(request.params, McpUrlElicitationParams):
            page = allowed_url(request.params.url)
            if isinstance(page, RefusedUrl):
                return await self._refuse_unasked(request, f"the URL was refused: {page.reason}")
        classified = classify(request, self.items)
        question = self._question(classified) if isinstance(classified, ApprovalRequest) else None
        key, answer_id = (type(request.id), request.id), actions.answer_id_of(request)
        if key in self._open:
            return self._refuse(request, OPEN_ALREADY)
        if isinstance(question, ApprovalQuestion):
            opened = await self._enter(key, question)
        elif answer_id is not None:  # no known approval, but Codex waits for an answer
            turn_id = getattr(request.params, "turn_id", "")
            place = actions.Place(answer_id[0], turn_id, answer_id[1], None)
            opened = await self._enter(key, place)
        else:
            return await handler(request)
        if opened is None:
            return self._refuse(request, actions.SHARED_ID)
        try:
            reply = await self._reply_of(handler, request, opened.withdrawn)
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

    async def _reply_of(
        self, handler: _Handler, request: ServerRequest, withdrawn: asyncio.Future[Deny]
    ) -> WireModel:
        """Return the handler's reply, or the refusal if two requests share an id."""
        task, is_waiting = asyncio.current_task(), True
        assert task is not None

        def cancel_handler(_: object) -> None:
            if is_waiting and _is_shared(withdrawn):
                task.cancel()

        withdrawn.add_done_callback(cancel_handler)
        try:
            # In this task, by which the client recognizes a handler that closes the client.
            reply = await handler(request)
        except asyncio.CancelledError:
            if not _is_shared(withdrawn) or task.uncancel():  # cancelled by others, too
                raise
            return self._refuse(request, actions.SHARED_ID)
        finally:
            is_waiting = False
        return self._refuse(request, actions.SHARED_ID) if _is_shared(withdrawn) else reply

    # Approvals.

    async def _approve(self, approval: ApprovalRequest) -> WireModel:
        """Ask the policy, and return the reply to the request. Raises RpcError as `handle`."""
        request = approval.request
        key = (type(request.id), request.id)
        question = self._question(approval)
        if isinstance(question, Deny):
            return await self._refuse_unasked(request, question.reason)
        if key in self._open:
            return self._refuse(request, OPEN_ALREADY)
        if key in self._resolved_early:
            return self._refuse(request, "Codex settled it itself")
        opened = await self._enter(key, question)
        if opened is None:
            return self._refuse(request, actions.SHARED_ID)
        try:
            looks = await _look_at(approval)
            question = _with_looks(question, looks)
            reason = actions.unshowable(approval, looks)
            decision = await self._decide(question, opened) if reason is None else Deny(reason)
            looks_now: Mapping[str, PathLook] = {}
            if isinstance(decision, Allow):
                looks_now = actions.comparable_looks(looks, await _look_at(approval))
            if opened.withdrawn.done():
                decision = opened.withdrawn.result()
            return self._reply(key, question, decision, looks_now)
        except BaseException:
            self._ids.forget(key)
            raise
        finally:
            del self._open[key]

    async def _enter(
        self, key: _Key, question: ApprovalQuestion | actions.Place
    ) -> _OpenQuestion | None:
        """Open the question; return None, and fail closed, if Codex could confuse the action. For a
        request that is no known approval, ``question`` is the place."""
        thread_id, turn_id, turn = question.thread_id, question.turn_id or "", None
        if isinstance(question, actions.Place):
            collision = self._ids.enter(key, question, turn_id)
        else:
            collision = self._ids.enter(key, question.approval, turn_id)
            turn = thread_id, turn_id
        if collision is not None:
            self._fail_closed(collision, thread_id, turn_id)
            await asyncio.sleep(0)  # an interrupt is written before the refusal
            return None
        running = self.items.get(thread_id, question.item_id)
        if running is not None and turn is not None:
            running.asked = True  # no second request can claim to be about this item
        future: asyncio.Future[Deny] = asyncio.get_running_loop().create_future()
        opened = self._open[key] = _OpenQuestion(turn, future)
        return opened

    def _question(self, approval: ApprovalRequest) -> ApprovalQuestion | Deny:
        """Return the question for the policy, or why the approval cannot be asked."""
        grantable = grants.offered_grants(approval).grants
        if not grantable:
            return Deny("Codex offers no way to allow it")
        place = actions.place_of(approval)
        thread_id = place.thread_id
        turn_id = place.turn_id or self.items.running_turn(thread_id)
        if turn_id is None:
            return Deny("Codex asks for an approval without a turn")
        return ApprovalQuestion(
            approval=approval,
            arguments=grants.arguments_of(approval),
            offered=grantable,
            thread_id=thread_id,
            root_thread_id=self.items.root_of(thread_id),
            turn_id=turn_id,
            item_id=place.item_id,
            digest=grants.digest_of(approval),
        )

    async def _decide(self, question: ApprovalQuestion, opened: _OpenQuestion) -> Decision:
        """Return the decision of the policy of the thread or its nearest ancestor, or the denial
        of a withdrawn question."""
        thread_id = question.thread_id
        lineage = (thread_id, *self.items.ancestors_of(thread_id))
        of_lineage = (self.thread_policies[t] for t in lineage if t in self.thread_policies)
        policy = next(of_lineage, self.policy)
        task = asyncio.get_running_loop().create_task(
            _call_policy(policy, question), name="a policy"
        )
        futures: set[asyncio.Future[Any]] = {task, opened.withdrawn}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not await end_task(task, END_OF_DECISION_SECONDS):
                logger.warning("a policy that was cancelled does not end; it is left")
        if opened.withdrawn.done():
            return opened.withdrawn.result()
        return Deny("the policy was cancelled") if task.cancelled() else task.result()

    def _reply(
        self,
        key: _Key,
        question: ApprovalQuestion,
        decision: Decision,
        looks: Mapping[str, PathLook],
    ) -> WireModel:
        """Return the reply. Has no await, so that it checks the state that Codex reported last."""
        request = question.approval.request
        if isinstance(decision, Deny):
            self._ids.forget(key)
            return self._refuse(request, decision.reason, answered=decision.answered)
        grant = decision.grant
        now = actions.refreshed(question.approval, self.items)
        running = self.items.is_running(question.thread_id, question.turn_id)
        reply = accepting_reply(
            grant, question.offered, question.digest, now, looks, running=running
        )
        if isinstance(reply, grants.NotGranted):
            self._ids.forget(key)
            return self._refuse(request, reply.reason)
        if grants.allows(grant):
            outcome = "allowed"
            self._ids.note_allowed(key)
        else:
            outcome = "ruled out"
            self._ids.forget(key)
        logger.info("%s (id %r): %s, %r", request.method, request.id, outcome, grant)
        return reply

    def _fail_closed(
        self, collision: actions.Collision[_Key], thread_id: str, turn_id: str
    ) -> None:
        """Deny the pending actions, and interrupt the turn of allowed ones (contract 3.7)."""
        if collision.allowed:
            logger.warning("turn %s is interrupted: %s", turn_id, actions.ALLOWED_IN_DOUBT)
            self._interrupt(thread_id, self.items.running_turn(thread_id) or turn_id)
        for key in collision.pending:
            self._open[key].withdraw(actions.SHARED_ID, answered=False)

    async def _refuse_unasked(self, request: ServerRequest, reason: str) -> WireModel:
        """Refuse a request without its policy; requests with its id fail closed, too."""
        answer_id = actions.answer_id_of(request)
        collision = self._ids.note_declined(request)
        if collision is not None and answer_id is not None:
            self._fail_closed(collision, answer_id[0], getattr(request.params, "turn_id", ""))
            await asyncio.sleep(0)  # an interrupt is written before the refusal
        return self._refuse(request, reason)

    def _interrupt(self, thread_id: str, turn_id: str) -> None:
        """Interrupt a turn, in a task; Codex never answers if the turn has just ended."""

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
        """Return the negative reply; warn and report the request unless somebody said no."""
        text = sendable(f"{request.method} was declined: {reason}")
        level = logging.INFO if answered else logging.WARNING
        logger.log(level, "refused %s (id %r): %s", request.method, request.id, text)
        if not answered:
            refused = RefusedRequest(request.id, request.method, plain(request.params), text)
            report_refused(self._on_refused, refused)
        reply = refusal(request.method, request.params, text)
        if isinstance(reply, RpcError):
            raise reply
        return reply

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if self._batch_over:
            # All requests of the last batch have reached `handle`: later ones may have these ids.
            self._resolved_early.clear()
            self._batch_over = False
        if method == RESOLVED:
            request_id = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(request_id, str | int):
                key = (type(request_id), request_id)
                opened = self._open.get(key)
                if opened is not None and opened.turn is not None:
                    opened.withdraw("Codex settled it itself")
                else:
                    self._ids.note_resolved(key)
                    self._resolved_early.add(key)
        elif method in USED_BY_ITEMS:
            event = self._client.decode_notification(method, params)
            if not isinstance(event, notifications.UnknownNotification):
                self._apply(event)

    def _apply(self, event: notifications.ServerNotification) -> None:
        """Apply a notification; interrupt turns and withdraw questions that have become unsafe."""
        self.items.apply(event)
        reach = self.foreign_reach.apply(event)
        if reach is not None:  # a Codex without hooks did not refuse the call (contract 3.9c)
            why = "its model reached for" if reach.others else "it got a message of another model"
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
        self._withdraw_ended()

    def _withdraw_ended(self) -> None:
        for opened in self._open.values():
            if opened.turn is not None and not self.items.is_running(*opened.turn):
                opened.withdraw("its turn is over")

    def on_batch_end(self) -> None:
        self._batch_over = True


async def _look_at(approval: ApprovalRequest) -> Mapping[str, PathLook]:
    if elsewhere := actions.unseen_looks(approval):
        return elsewhere
    wanted = tuple(actions.named_paths(approval))
    if not wanted:
        return {}
    looks = await answer_of(look_at, wanted, LOOK_SECONDS)  # the disk may never answer
    return not_looked_at(wanted) if isinstance(looks, CallbackFailed) else looks


def _with_looks(question: ApprovalQuestion, looks: Mapping[str, PathLook]) -> ApprovalQuestion:
    changes = actions.changes_of(question.approval)
    removed, created = removed_paths(changes), created_paths(changes)
    real_paths = {
        path: (look.place if path in removed else look.real) or None for path, look in looks.items()
    }
    return replace(
        question,
        digest=grants.digest_of(question.approval, looks),
        real_paths=real_paths,
        replaced=tuple(path for path in dict.fromkeys(created) if looks[path].exists),
    )


async def _call_policy(policy: Policy, question: ApprovalQuestion) -> Decision:
    try:
        decision: object = await call(policy.decide, question)
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
