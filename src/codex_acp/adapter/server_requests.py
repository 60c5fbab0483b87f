"""Run the route of each server request, and settle the request exactly once (contract 1.4, 3, 4.1).

`routing` decides what a request is, the ledger what an answer may do. This module owns the order:
show the tool call, ask the person, and settle the request by what comes first: the answer, a
cancel, the turn's end, Codex's ``serverRequest/resolved`` or the loss of Codex.
`ServerRequestRunner` has the open permission requests; `ElicitationRunner` has the open
elicitations (contract 2.2 to 2.5), and must not know of approvals.
"""

from __future__ import annotations

import logging
import math
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never
from uuid import uuid4

import anyio
import anyio.lowlevel

from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.tasks import SideTasks, guarded
from codex_acp.codex._generated import models
from codex_acp.codex.approvals import refusals
from codex_acp.codex.approvals.actions import (
    ALLOWED_IN_DOUBT,
    SHARED_ID,
    changes_of,
    ends_when_allowed,
    named_paths,
    refreshed,
    unseen_looks,
)
from codex_acp.codex.approvals.classify import ApprovalRequest, classify
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.mapping.events import PermissionQuestion, tool_call_id
from codex_acp.mapping.item_calls import wanted_of_changes
from codex_acp.mapping.prompt import replies_text
from codex_acp.routing import records
from codex_acp.routing.approvals import command_of, reason_shown
from codex_acp.routing.display import shortened, visible
from codex_acp.routing.elicitations import (
    async_questions,
    cancelled,
    create_request,
    declined,
    reply_to,
)
from codex_acp.routing.ledger import Failed, FailedClosed, Key, Ledger
from codex_acp.routing.route import Approval, Decline, Elicitation, RoutingContext, asking_thread
from codex_acp.routing.table import form_of_questions, route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.prompts.turn_calls import Interrupt
    from codex_acp.adapter.session_client import Questioner
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import Items, Reach
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.jsonrpc import RequestId
    from codex_acp.routing.changes import Looks
    from codex_acp.routing.elicitations import AsyncQuestions, ElicitationReply
    from codex_acp.routing.ledger import Answer, LedgerEntry, Settlement
    from codex_acp.transcript.events import ElicitationSettler
    from codex_acp.transcript.log import Transcript
    from codex_acp.wire.model import WireModel

    Say: TypeAlias = Callable[[str, str], None]
    """Called with a session's id and a notice; sends the notice to the session's client."""

logger = logging.getLogger(__name__)

_REASON_LIMIT: Final = 2_000
"""Characters of a reason in a notice: the reason may repeat the text of a hostile server."""

_TURN_USED_SESSION: Final = "its model reached for another session, with rights not its own"
_TURN_GOT_MESSAGE: Final = "it got a message of another session's model"
"""Reasons to interrupt a turn: the second half of the notice in the session of the turn."""

_SESSION_WAS_USED: Final = (
    "The model of another session has reached for this one; that one was interrupted."
)
"""Notice in the session that the model of another session has used."""

MOST_ASYNC_QUESTIONS: Final = 16
"""Open async questions of one thread: a model that does not wait could ask any number."""

_NOT_SENT: Final = (
    "Your answer was not sent: the turn that asked has ended. Send it as a message if it still "
    "matters."
)

_ID_IN_USE: Final = "the request's id is open already"


@dataclass(slots=True)
class _OpenPermission:
    """A permission request that the client has not answered."""

    scope: anyio.CancelScope
    questioner: Questioner
    settlement: Settlement | None = None
    """Set if the request was settled before the client's answer came."""


class ServerRequestRunner:
    """Answers the requests of ``codex``, the app-server connection number ``generation``.

    ``items`` has the running items of the connection. ``questioner_of`` returns the `Questioner` of
    a session, ``context_of`` the routing context of a thread, ``find_session`` an open session."""

    def __init__(
        self,
        codex: AppServerConnection,
        questioner_of: Callable[[str], Questioner],
        generation: int,
        items: Items,
        context_of: Callable[[str | None], RoutingContext],
        find_session: Callable[[str], Session | None],
        transcript: Transcript,
        interrupt: Interrupt,
    ) -> None:
        self._codex = codex
        self._questioner_of = questioner_of
        self._interrupt = interrupt
        self._generation = generation
        self._items = items
        self._context_of = context_of
        self._find_session = find_session
        self._transcript = transcript
        self._ledger = Ledger()
        self._open_permissions: dict[Key, _OpenPermission] = {}
        self._elicitations = ElicitationRunner(questioner_of, generation, self._say, transcript)
        self._waiting: dict[ExitStack, Approval | Elicitation] = {}
        """Stack with the contexts in which a session shows that it waits → the open question."""
        self._calls_to_end: dict[tuple[str, str], list[Approval]] = {}
        """Thread and item → accepted approvals with a tool call of their own, which ends with the
        item."""
        self._asking_threads: list[str] = []
        """The thread of each open async question."""
        self._spawn = guarded(SideTasks().start)  # for async questions

    async def wait_shown(self, session_id: str) -> None:
        """Wait until all earlier messages about the session were shown (contract 4.1)."""
        session = self._find_session(session_id)
        if session is not None:
            await session.thread.wait_shown()

    async def look(self, request: ServerRequest, session_id: str) -> Looks:
        """Look where the paths that a request names lead, after all earlier messages."""
        await self.wait_shown(session_id)
        approval = classify(request, self._items)
        if not isinstance(approval, ApprovalRequest):
            return {}
        return await self._look_at(approval, session_id)

    async def _look_at(self, approval: ApprovalRequest, session_id: str) -> Looks:
        session, unseen = self._find_session(session_id), unseen_looks(approval)
        if session is None or unseen:  # nobody to show it to, or perhaps another machine
            return unseen
        wants_text = wanted_of_changes(changes_of(approval))
        wanted = {path: wants_text.get(path, False) for path in named_paths(approval)}
        return await session.thread.look(wanted) if wanted else {}

    async def handle(self, request: ServerRequest, looks: Looks | None = None) -> WireModel:
        """Return the reply to one request; `look` has returned ``looks``. Raises RpcError for a
        refusal if the method has no negative reply."""
        context = replace(self._context_of(asking_thread(request)), looks=looks or {})
        routed = route(request, context)
        match routed:
            case Approval() | Elicitation() if self._too_late(routed):
                return self._decline_cancelled(request, routed.session_id)
            case Approval():
                return await self._approve(routed)
            case Elicitation():
                with self._shown_waiting(routed):
                    reply = await self._elicitations.ask(self._key(routed.request.id), routed)
                return self._refuse(request, _ID_IN_USE) if reply is None else reply
            case Decline():
                failed = self._ledger.note_declined(request)  # open approvals with its id
                if failed is not None:
                    await self._fail_closed_before_reply(failed)
                return self._decline(routed)
            case _:
                assert_never(routed)

    # Async questions: questions in a completed item, for whose answers no turn waits.

    def ask_async(self, params: models.ItemCompletedNotification) -> None:
        """Ask the questions of a completed item, in a task of their own."""
        questions = async_questions(params)
        if questions is None:
            return
        if self._asking_threads.count(params.thread_id) < MOST_ASYNC_QUESTIONS:
            self._asking_threads.append(params.thread_id)
            self._spawn(partial(self._send_async_answers, questions))

    async def _send_async_answers(self, questions: AsyncQuestions) -> None:
        """Ask async questions, and send the answers to the turn that asked."""
        params = questions.params
        try:
            answered = await self._async_answers(questions)
        finally:
            self._asking_threads.remove(params.thread_id)
        if answered is None:
            return
        text = replies_text(questions.id, params.questions, answered.answers)
        if text is None:
            return
        calls = TurnCalls(self._codex, params.thread_id)
        message: list[models.UserInput] = [models.TextUserInput(text=text, text_elements=[])]
        if not await calls.steer(params.turn_id, message, uuid4().hex):
            self._say_in(params.thread_id, _NOT_SENT)

    async def _async_answers(
        self, questions: AsyncQuestions
    ) -> models.ToolRequestUserInputResponse | None:
        """Return the answers to async questions; None if the questions could not be asked."""
        thread_id, turn_id = questions.params.thread_id, questions.params.turn_id
        await self.wait_shown(self._items.root_of(thread_id))
        routed = form_of_questions(questions, self._context_of(thread_id))
        if routed is None or self._too_late(routed):
            return None
        if not self._items.is_running(thread_id, turn_id):
            return None
        key = Key(self._generation, questions.method, questions.id)  # of an item, not of a request
        reply = await self._elicitations.ask(key, routed)
        return reply if isinstance(reply, models.ToolRequestUserInputResponse) else None

    def _say_in(self, thread_id: str, text: str) -> None:
        """Send a notice to the client of the session that a thread belongs to."""
        self._say(self._items.root_of(thread_id), text)

    # A model that uses other sessions (contract 3.9c).

    def note_reach(self, reach: Reach) -> None:
        """Tell the sessions of ``reach`` why a turn is interrupted."""
        used = ", ".join(reach.others)
        why = f"{_TURN_USED_SESSION} ({used})" if used else _TURN_GOT_MESSAGE
        logger.warning("a turn of %s is interrupted: %s", reach.thread_id, why)
        self._say_in(reach.thread_id, f"The turn is interrupted: {why}.")
        for other in reach.others:
            self._say_in(other, _SESSION_WAS_USED)

    # Events that settle open requests.

    def prompt_cancelled(self, session_id: str) -> None:
        """Cancel the requests of a session and its sub-agents: the client cancelled the prompt."""
        routes = [entry.route for entry in self._ledger.pending]
        threads = {route.thread_id for route in routes if route.session_id == session_id}
        self._carry_out(self._ledger.turn_cancelled(frozenset(threads)))
        self._elicitations.withdraw_all("turn_cancelled", lambda e: e.session_id == session_id)

    def sub_agents_cancelled(self, threads: frozenset[str]) -> None:
        """Cancel the requests of sub-agents that the client cancelled."""
        self._carry_out(self._ledger.turn_cancelled(threads))
        self._elicitations.withdraw_all("turn_cancelled", lambda e: e.thread_id in threads)

    def note_notification(self, event: ServerNotification) -> None:
        """Apply a notification; interrupt a turn that runs another action than the allowed one."""
        failed = self._ledger.reported(event)
        if failed is not None:
            self._fail_closed(failed)

    def item_ended(self, thread_id: str, item_id: str, *, ended_well: bool) -> None:
        """End the tool calls that were announced for the approvals of an item that has ended."""
        for routed in self._calls_to_end.pop((thread_id, item_id), ()):
            self._end_call(routed, ended_well=ended_well)

    def turn_ended(self, thread_id: str, turn_id: str) -> None:
        """Settle the requests of a turn that has ended, and end its thread's open tool calls."""
        self._carry_out(self._ledger.turn_ended(thread_id, turn_id))
        for thread, item in list(self._calls_to_end):
            if thread == thread_id:
                self.item_ended(thread, item, ended_well=False)
        turn = thread_id, turn_id
        self._elicitations.withdraw_all("turn_ended", lambda e: (e.thread_id, e.turn_id) == turn)

    def settle_resolved(self, request_id: RequestId) -> None:
        """Settle a request that Codex has settled itself (``serverRequest/resolved``)."""
        key = self._key(request_id)
        settlement = self._ledger.resolved(key)
        if settlement is not None:
            self._carry_out([settlement])
        else:
            self._elicitations.withdraw(key, "codex_resolved")

    def codex_lost(self) -> None:
        """Settle all requests, and withdraw their questions: the connection to Codex has ended."""
        self._carry_out(self._ledger.codex_lost(self._generation))
        self._elicitations.withdraw_all("disconnected")

    def note_refused(self, request: RefusedRequest) -> None:
        """Report and record a request that was refused without a route (contract 1.6). Withdraw an
        open question with the request's id: Codex has used the id twice (contract 3.7)."""
        key = self._key(request.id)
        settlement = self._ledger.abandoned(key, request.reason, by="superseded")
        if settlement is not None:
            self._carry_out([settlement])
            routed = settlement.entry.route
            self._show_outcome(routed, accepted=False)
            self._say(routed.session_id, f"Not approved: {request.reason}")
        elif (withdrawn := self._elicitations.withdraw(key, "superseded")) is not None:
            self._say(withdrawn.session_id, f"Withdrawn: {request.reason}")
        else:
            thread_id = records.thread_named(request.params)
            context = self._context_of(thread_id)
            root = None if thread_id is None else self._items.root_of(thread_id)
            session_id = root if root in context.sessions else None
            event = records.request_refused(*request, session_id, self._generation)
            self._transcript.record(event)
            if session_id is not None:
                self._say(session_id, f"Declined without asking: {visible(request.reason)}")

    # Approvals.

    async def _approve(self, routed: Approval) -> WireModel:
        key = self._key(routed.approval.request.id)
        acp_request_id = self._questioner_of(routed.session_id).next_request_id
        entry = self._ledger.open(key, routed, acp_request_id)
        if entry is None:
            return self._refuse(routed.approval.request, _ID_IN_USE)
        if isinstance(entry, FailedClosed):
            await self._fail_closed_before_reply(entry)
            return self._decline(Decline(routed.approval.request, SHARED_ID, routed.session_id))
        for decision in routed.offered.unknown:
            logger.warning("Codex offers %s, which is unknown here and left out", decision)
        running_item = self._items.get(routed.thread_id, routed.item_id)
        if running_item is not None:
            running_item.asked = True
        with self._shown_waiting(routed):
            self._transcript.record(records.approval_requested(entry))
            settlement = await self._ask(entry)
        self._show_outcome(routed, accepted=settlement.outcome == "accepted")
        if settlement.reply is None:  # the connection to Codex has ended: nobody reads the error
            raise RpcError(-32000, settlement.reason)
        return _returned_or_raised(settlement.reply.result)

    def _fail_closed(self, failed: FailedClosed) -> None:
        """Stop actions that Codex cannot tell from another action (contract 3.7): interrupt the
        turns of accepted actions, and settle the questions about actions that wait."""
        for entry in failed.accepted:
            routed = entry.route
            self._interrupt(routed.thread_id, routed.turn_id)
            self._transcript.record(records.acceptance_in_doubt(entry, ALLOWED_IN_DOUBT))
            logger.warning("turn %s is interrupted: %s", routed.turn_id, ALLOWED_IN_DOUBT)
            title = shortened(routed.shown.title or "", _REASON_LIMIT)
            self._say(routed.session_id, f"The turn is interrupted: {ALLOWED_IN_DOUBT} ({title}).")
        self._carry_out(failed.settled)

    async def _fail_closed_before_reply(self, failed: FailedClosed) -> None:
        """Call `_fail_closed`; its interrupts are written before the caller's reply."""
        self._fail_closed(failed)
        await anyio.lowlevel.checkpoint()  # the tasks of the interrupts run now

    def _show_outcome(self, routed: Approval, *, accepted: bool) -> None:
        """Show an approval's outcome, and end the tool call now or together with the item."""
        session = self._find_session(routed.session_id)
        if session is not None:
            session.show_settled(routed.shown.id, accepted=accepted)
        if accepted and ends_when_allowed(routed.approval):
            self._end_call(routed, ended_well=True)
        elif accepted and routed.shown.id != tool_call_id(routed.item_id):
            self._calls_to_end.setdefault((routed.thread_id, routed.item_id), []).append(routed)

    def _end_call(self, routed: Approval, *, ended_well: bool) -> None:
        session = self._find_session(routed.session_id)
        if session is not None:
            session.tool_call_ended(routed.shown.id, ended_well=ended_well)

    async def _ask(self, entry: LedgerEntry) -> Settlement:
        """Send a permission request; return its settlement by the answer or by another event."""
        routed = entry.route
        permission = _OpenPermission(anyio.CancelScope(), self._questioner_of(routed.session_id))
        self._open_permissions[entry.key] = permission
        answer: Answer = Failed("the question was withdrawn")
        looks: Looks = {}
        try:
            with permission.scope:
                answer = await self._await_answer(entry, permission.questioner)
                if entry.is_granted_by(answer):  # since the question, a path may lead elsewhere
                    looks = await self._look_at(routed.approval, routed.session_id)
            if permission.settlement is not None:  # another event came before the answer
                return permission.settlement
            action_now = refreshed(routed.approval, self._items)
            turn_runs = self._items.is_running(routed.thread_id, routed.turn_id)
            settlement = self._ledger.answered(
                entry.key, entry.token, answer, action_now, turn_runs, looks
            )
            assert settlement is not None, "an open question has a pending entry"
            self._report(settlement)
            return settlement
        except BaseException:
            # Nobody waits for the settlement: the client has left, or this process ends.
            abandoned = self._ledger.abandoned(entry.key, "the client is gone")
            if abandoned is not None:
                self._report(abandoned)
            raise
        finally:
            del self._open_permissions[entry.key]

    async def _await_answer(self, entry: LedgerEntry, questioner: Questioner) -> Answer:
        approval = entry.route.approval
        question = PermissionQuestion(
            session_id=entry.route.session_id,
            shown=entry.route.shown,
            options=[choice.option for choice in entry.choices],
            reason=reason_shown(approval),
            command=command_of(approval, entry.route.looks),
        )
        try:
            return await questioner.request_permission(
                question, partial(self._ledger.set_request_id, entry.key)
            )
        except CodexAcpError as error:
            return Failed(f"the client gave no outcome: {error}")

    def _carry_out(self, settlements: list[Settlement]) -> None:
        """Report settlements that came before an answer, and withdraw their questions."""
        for settlement in settlements:
            self._report(settlement)
            permission = self._open_permissions.get(settlement.entry.key)
            if permission is not None:
                permission.settlement = settlement
                permission.questioner.withdraw(settlement.entry.acp_request_id)
                permission.scope.cancel()

    def _report(self, settlement: Settlement) -> None:
        """Record a settlement; tell the person why an answer was refused."""
        for event in records.approval_settled(settlement):
            self._transcript.record(event)
        if settlement.failed_check is not None:
            logger.warning(
                "an answer to %s was refused: %s",
                settlement.entry.route.approval.request.method,
                settlement.reason,
            )
            self._say(settlement.entry.route.session_id, f"Not approved: {settlement.reason}.")

    # Declines.

    def _too_late(self, routed: Approval | Elicitation) -> bool:
        """Return whether the turn was given up, or Codex asked before it read an interrupt."""
        session = self._find_session(routed.session_id)
        return session is not None and not session.may_ask(routed.thread_id, routed.turn_id)

    def _decline_cancelled(self, request: ServerRequest, session_id: str) -> WireModel:
        routed = Decline(request, "the prompt was cancelled", session_id)
        self._transcript.record(records.request_declined(routed, self._generation))
        self._say(session_id, f"Declined without asking: {routed.reason}")
        reply = refusals.cancellation(request.method, request.params, routed.reason)
        return _returned_or_raised(reply)

    def _decline(self, routed: Decline) -> WireModel:
        logger.warning("declined %s: %s", routed.request.method, routed.reason)
        self._transcript.record(records.request_declined(routed, self._generation))
        if routed.session_id is not None:
            reason = shortened(routed.reason, _REASON_LIMIT)
            self._say(routed.session_id, f"Declined without asking: {reason}")
        return self._refuse(routed.request, routed.reason)

    # What the person sees.

    def opened_again(self, session_id: str) -> None:
        """Show the open questions of a session in the new `Session` that replaces an old one."""
        for stack, routed in self._waiting.items():
            if routed.session_id == session_id:
                stack.close()  # leaves the old `Session`; a closed stack can be used again
                self._show_waiting(routed, stack)

    @contextmanager
    def _shown_waiting(self, routed: Approval | Elicitation) -> Iterator[None]:
        """Show, within the context, that the session waits for the answer to a question."""
        with ExitStack() as stack:
            self._show_waiting(routed, stack)
            self._waiting[stack] = routed
            try:
                yield
            finally:
                del self._waiting[stack]

    def _show_waiting(self, routed: Approval | Elicitation, stack: ExitStack) -> None:
        session = self._find_session(routed.session_id)
        if session is not None:
            if isinstance(routed, Approval):
                session.announce_tool_call(routed.announcement)
            stack.enter_context(session.waiting_for_person(routed.thread_id, routed.turn_id))

    def _say(self, session_id: str, text: str) -> None:
        session = self._find_session(session_id)
        if session is not None:
            session.say(text)

    def _refuse(self, request: ServerRequest, reason: str) -> WireModel:
        return _returned_or_raised(refusals.refusal(request.method, request.params, reason))

    def _key(self, request_id: RequestId) -> Key:
        """Return the key of a request of Codex; the type of the id keeps 1 and "1" apart."""
        return Key(self._generation, type(request_id).__name__, request_id)


def _returned_or_raised(reply: WireModel | RpcError) -> WireModel:
    if isinstance(reply, RpcError):
        raise reply
    return reply


@dataclass(slots=True)
class _OpenElicitation:
    """An elicitation that the client has not answered."""

    routed: Elicitation
    scope: anyio.CancelScope
    questioner: Questioner
    acp_request_id: int | None
    """Id of the newest request to a client for this question."""
    settled_by: ElicitationSettler = "client"
    """If `withdraw` has set another settler, the client's answer does not count."""

    def set_request_id(self, acp_request_id: int | None) -> None:
        self.acp_request_id = acp_request_id

    def withdraw(self, by: ElicitationSettler) -> None:
        """Withdraw the question, because ``by`` has settled it."""
        self.settled_by = by
        self.questioner.withdraw(self.acp_request_id)
        self.scope.cancel()


class ElicitationRunner:
    """The elicitations of one app-server connection. ``questioner_of`` returns the `Questioner` of
    a session."""

    def __init__(
        self,
        questioner_of: Callable[[str], Questioner],
        generation: int,
        say: Say,
        transcript: Transcript,
    ) -> None:
        self._questioner_of = questioner_of
        self._generation = generation
        self._say = say
        self._transcript = transcript
        self._open: dict[Key, _OpenElicitation] = {}
        self._count = 0

    async def ask(self, key: Key, routed: Elicitation) -> WireModel | None:
        """Ask the person; return the reply for Codex, or None if a request with this id is open."""
        if key in self._open:
            return None
        self._count += 1
        elicitation_id = f"e{self._generation}-{self._count}"
        questioner = self._questioner_of(routed.session_id)
        acp_request_id = questioner.next_request_id
        elicitation = _OpenElicitation(routed, anyio.CancelScope(), questioner, acp_request_id)
        self._open[key] = elicitation
        self._transcript.record(
            records.elicitation_requested(routed, self._generation, acp_request_id)
        )
        reply = cancelled(routed.form_or_url)
        settler: ElicitationSettler = "disconnected"
        try:
            # Codex answers some questions itself, after a time that the request names.
            milliseconds = getattr(routed.request.params, "auto_resolution_ms", None)
            seconds = math.inf if milliseconds is None else milliseconds / 1000
            with elicitation.scope, anyio.move_on_after(seconds) as limit:
                reply = await self._await_answer(elicitation, elicitation_id)
            if elicitation.settled_by != "client":
                # Codex or a cancel was first, perhaps in one read with the client's answer.
                reply = cancelled(routed.form_or_url)
            elif limit.cancelled_caught:
                reply = declined(routed.form_or_url, "nobody answered in the time that Codex waits")
            settler = "invalid_answer" if reply.problem is not None else elicitation.settled_by
        except BaseException:  # Codex no longer waits for a reply
            if elicitation.settled_by != "client":
                settler = elicitation.settled_by
            raise
        finally:
            del self._open[key]
            self._transcript.record(
                records.elicitation_answered(
                    routed, self._generation, reply, settler, elicitation.acp_request_id
                )
            )
        if reply.problem is not None:
            self._say(routed.session_id, f"An answer was not passed on: {reply.problem}.")
        return reply.result

    async def _await_answer(
        self, elicitation: _OpenElicitation, elicitation_id: str
    ) -> ElicitationReply:
        routed = elicitation.routed
        sub_agent = routed.thread_id if routed.thread_id != routed.session_id else None
        request = create_request(routed.form_or_url, routed.session_id, elicitation_id, sub_agent)
        try:
            response = await elicitation.questioner.elicitation_create(
                request, elicitation.set_request_id
            )
        except CodexAcpError as error:
            return declined(routed.form_or_url, f"the client gave no answer: {error}")
        return reply_to(routed.form_or_url, response)

    # Events that settle open elicitations.

    def withdraw(self, key: Key, by: ElicitationSettler) -> Elicitation | None:
        """Withdraw one elicitation and return it; None if it is not open."""
        elicitation = self._open.get(key)
        if elicitation is None:
            return None
        elicitation.withdraw(by)
        return elicitation.routed

    def withdraw_all(
        self, by: ElicitationSettler, concerns: Callable[[Elicitation], bool] = lambda _: True
    ) -> None:
        """Withdraw each open elicitation for which ``concerns`` returns True."""
        for elicitation in self._open.values():
            if concerns(elicitation.routed):
                elicitation.withdraw(by)
