"""Runs a policy for the app-server's requests, and settles each exactly once (contract 1.4, 6).

Owns the questions that are open. What a request is, `classify` decides; what a decision may do,
`policies.accepting_reply`. Elicitations, and whatever only a program can answer, get their negative
reply here: a policy is not asked about them.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never

from codex_acp.codex._generated.notifications import UnknownNotification
from codex_acp.codex.approvals.callbacks import END_OF_CALLBACK_SECONDS, end_task
from codex_acp.codex.approvals.classify import (
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpForm,
    McpToolApproval,
    McpToolQuestion,
    McpUrl,
    PermissionsApproval,
    ProgramOnly,
    Refused,
    UserInput,
    classify,
    refreshed,
)
from codex_acp.codex.approvals.grants import allows, arguments_of, digest_of, offered
from codex_acp.codex.approvals.policies import Allow, ApprovalQuestion, Deny, accepting_reply
from codex_acp.codex.approvals.policy_warnings import why_never_asked
from codex_acp.codex.approvals.refusals import refusal
from codex_acp.codex.approvals.running_items import FOLLOWED, Items
from codex_acp.codex.connection.server_requests import RefusedRequest
from codex_acp.errors import RpcError
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.classify import Approval
    from codex_acp.codex.approvals.policies import Decision, Policy
    from codex_acp.codex.approvals.policy_warnings import StartedThread
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue, RequestId
    from codex_acp.wire.model import WireModel

__all__ = ["PolicyRunner"]

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"

END_OF_DECISION_SECONDS: Final = 2 * END_OF_CALLBACK_SECONDS
"""How long a withdrawn decision may take: a callback's own bound, and as much again."""

MAX_REASON_LENGTH: Final = 2000
"""Characters of a reason: it may quote an exception, and the model may get to read it."""

ELICITATION: Final = "a policy answers no forms, pages or questions; register a handler for them"


@dataclass(slots=True, eq=False)
class _Open:
    """A question that the policy has not answered."""

    question: ApprovalQuestion
    withdrawn: asyncio.Future[str]
    """Why nobody needs the answer any more."""

    def withdraw(self, reason: str) -> None:
        if not self.withdrawn.done():
            self.withdrawn.set_result(reason)


class PolicyRunner:
    """Handles the requests of one client; a sink of all its notifications.

    ``policy`` may be replaced; questions that are open stay with the old one. ``on_refused`` hears
    of each request that was declined without anybody having said so.
    """

    def __init__(
        self,
        client: AppServerConnection,
        policy: Policy,
        on_refused: Callable[[RefusedRequest], None] | None = None,
    ) -> None:
        self.policy = policy
        self._client = client
        self._on_refused = on_refused
        self._items = Items()
        self._open: dict[tuple[type, RequestId], _Open] = {}
        self._resolved_early: set[tuple[type, RequestId]] = set()
        self._batch_over = False
        self._warned: set[str] = set()

    async def handle(self, request: ServerRequest) -> WireModel:
        """The reply to one request. Raises RpcError where its method has no negative reply."""
        what = classify(request, self._items)
        match what:
            case (
                CommandApproval()
                | FileChangeApproval()
                | PermissionsApproval()
                | McpToolApproval()
                | McpToolQuestion()
                | LegacyCommandApproval()
                | LegacyPatchApproval()
            ):
                return await self._approve(what)
            case McpForm() | McpUrl() | UserInput():
                return self._refuse(request, ELICITATION)
            case ProgramOnly(reason=reason) | Refused(reason=reason):
                return self._refuse(request, reason)
            case _:
                assert_never(what)

    def thread_started(self, thread: StartedThread) -> None:
        """A thread begins with these settings: warn, once, if Codex will never ask under them."""
        text = why_never_asked(
            self.policy, thread.approval_policy, thread.sandbox, thread.approvals_reviewer
        )
        if text is not None and text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    # Approvals.

    async def _approve(self, approval: Approval) -> WireModel:
        request = approval.request
        key = (type(request.id), request.id)
        question = self._question(approval)
        if isinstance(question, Deny):
            return self._refuse(request, question.reason)
        if key in self._open:
            return self._refuse(request, "the request's id is open already")
        if key in self._resolved_early:
            return self._refuse(request, "Codex settled it itself")
        running = self._items.get(question.thread_id, question.item_id)
        if running is not None:
            running.asked = True  # no second request can claim to be about this item
        loop = asyncio.get_running_loop()
        open_ = self._open[key] = _Open(question, loop.create_future())
        try:
            decision = await self._decided(open_)
        finally:
            del self._open[key]
        return self._reply(question, decision)

    def _question(self, approval: Approval) -> ApprovalQuestion | Deny:
        grants = offered(approval).grants
        if not grants:
            return Deny("Codex offers no way to allow it")
        thread_id, turn_id, item_id = _place_of(approval)
        turn_id = turn_id or self._items.running_turn(thread_id)
        if turn_id is None:
            return Deny("Codex asks for an approval without a turn")
        return ApprovalQuestion(
            approval=approval,
            arguments=arguments_of(approval),
            offered=grants,
            thread_id=thread_id,
            root_thread_id=self._items.root_of(thread_id),
            turn_id=turn_id,
            item_id=item_id,
            digest=digest_of(approval),
        )

    async def _decided(self, open_: _Open) -> Decision:
        """What the policy says, or why that does not matter any more; never waits for the hung."""
        task = asyncio.get_running_loop().create_task(
            _decision(self.policy, open_.question), name="a policy"
        )
        first: set[asyncio.Future[Any]] = {task, open_.withdrawn}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not await end_task(task, END_OF_DECISION_SECONDS):
                logger.warning("a policy that was cancelled does not end; it is left")
        if open_.withdrawn.done():
            return Deny(open_.withdrawn.result(), answered=True)
        return Deny("the policy was cancelled") if task.cancelled() else task.result()

    def _reply(self, question: ApprovalQuestion, decision: Decision) -> WireModel:
        """No await from here to the sending: what is checked is what Codex reported last."""
        request = question.approval.request
        if isinstance(decision, Deny):
            return self._refuse(request, decision.reason, answered=decision.answered)
        now = refreshed(question.approval, self._items)
        running = self._items.is_running(question.thread_id, question.turn_id)
        reply = accepting_reply(question, decision.grant, now, running=running)
        if isinstance(reply, Deny):
            return self._refuse(request, reply.reason)
        what = "allowed" if allows(decision.grant) else "ruled out"
        logger.info("%s (id %r): %s, %r", request.method, request.id, what, decision.grant)
        return reply

    def _refuse(self, request: ServerRequest, reason: str, *, answered: bool = False) -> WireModel:
        """The negative reply, with one warning unless somebody said no."""
        text = _sendable(f"{request.method} was declined: {reason}")
        level = logging.INFO if answered else logging.WARNING
        logger.log(level, "refused %s (id %r): %s", request.method, request.id, text)
        if not answered:
            self._tell(request, text)
        reply = refusal(request.method, request.params, text)
        if isinstance(reply, RpcError):
            raise reply
        return reply

    def _tell(self, request: ServerRequest, reason: str) -> None:
        if self._on_refused is None:
            return
        params: JsonValue = plain(request.params)  # type: ignore[assignment]
        try:
            self._on_refused(RefusedRequest(request.id, request.method, params, reason))
        except Exception:
            logger.exception("on_refused failed at %s", request.method)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`."""
        if self._batch_over:
            # Requests of the batch before are open by now, so these were somebody else's.
            self._resolved_early.clear()
            self._batch_over = False
        if method == RESOLVED:
            self._resolved(params)
        elif method in FOLLOWED:
            event = self._client.decode_notification(method, params)
            if isinstance(event, UnknownNotification):
                return
            self._items.apply(event)
            self._withdraw_what_is_over()

    def on_batch_end(self) -> None:
        """See `NotificationSink`."""
        self._batch_over = True

    def on_closed(self, error: TransportError | None) -> None:
        """See `NotificationSink`. The client cancels its handlers itself."""

    def _withdraw_what_is_over(self) -> None:
        for open_ in self._open.values():
            if not self._items.is_running(open_.question.thread_id, open_.question.turn_id):
                open_.withdraw("its turn is over")

    def _resolved(self, params: JsonValue) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(request_id, str | int):
            return
        key = (type(request_id), request_id)
        if key in self._open:
            self._open[key].withdraw("Codex settled it itself")
        else:
            self._resolved_early.add(key)


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


def _place_of(approval: Approval) -> tuple[str, str | None, str]:
    """Thread, turn and item; the protocol's first version does not tell the turn."""
    match approval:
        case CommandApproval(request=command):
            return command.params.thread_id, command.params.turn_id, command.params.item_id
        case FileChangeApproval(request=change):
            return change.params.thread_id, change.params.turn_id, change.params.item_id
        case PermissionsApproval(request=permissions):
            params = permissions.params
            return params.thread_id, params.turn_id, params.item_id
        case McpToolApproval(params=elicitation, item=call):
            return elicitation.thread_id, elicitation.turn_id, call.id
        case McpToolQuestion(request=question, item=call):
            return question.params.thread_id, question.params.turn_id, call.id
        case LegacyCommandApproval(request=legacy):
            return legacy.params.conversation_id, None, legacy.params.call_id
        case LegacyPatchApproval(request=patch):
            return patch.params.conversation_id, None, patch.params.call_id
        case _:
            assert_never(approval)


def _sendable(reason: str) -> str:
    """Valid Unicode of bounded length: an exception's text must not be what makes a reply fail."""
    if len(reason) > MAX_REASON_LENGTH:
        reason = f"{reason[:MAX_REASON_LENGTH]}… ({len(reason)} characters in all)"
    return reason.encode("utf-8", "replace").decode()
