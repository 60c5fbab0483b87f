"""PURE: translate one session of Codex to ACP, and the client's answers to replies for Codex.

Owns the open questions, and the order of updates and replies. `routing` decides the route and the
possible replies of a request. `mapping` renders items. Only the ledger makes accepting replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, assert_never, cast

from codex_acp._json import value_at
from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated import notifications
from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS, SERVER_REQUESTS
from codex_acp.codex._generated.server_requests import REQUEST_CLASSES
from codex_acp.codex.approvals import refusals
from codex_acp.codex.approvals.actions import (
    ALLOWED_IN_DOUBT,
    SHARED_ID,
    ends_when_allowed,
    named_paths,
    refreshed,
    unseen_looks,
)
from codex_acp.codex.approvals.classify import ApprovalRequest, classify
from codex_acp.codex.approvals.running_items import Items
from codex_acp.errors import InvalidPayload, RpcError
from codex_acp.mapping.events import PermissionQuestion, StateChanged, tool_call_id
from codex_acp.mapping.messages import make_notice
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, WITHOUT_SECRETS, Ignored
from codex_acp.mapping.running_calls import announce, approval_settled, call_ended, flush_due
from codex_acp.mapping.session import end_of_shown_turn, failure
from codex_acp.mapping.state import SessionState
from codex_acp.routing import elicitations
from codex_acp.routing import route as routes
from codex_acp.routing.approvals import command_of, reason_shown
from codex_acp.routing.elicitations import create_request
from codex_acp.routing.ledger import Failed, FailedClosed, Key, Ledger, OutcomeCancelled, Selected
from codex_acp.routing.table import route
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import PathLook
    from codex_acp.jsonrpc import JsonValue, RequestId
    from codex_acp.mapping.events import PromptEnd, SessionEvent, SessionEvents
    from codex_acp.routing.ledger import Answer, LedgerEntry, Settlement
    from codex_acp.wire.model import WireModel


class Reply(NamedTuple):
    """The reply to a request of Codex."""

    id: RequestId
    result: WireModel | RpcError

    def message(self) -> dict[str, JsonValue]:
        """Return the JSON-RPC response."""
        if isinstance(self.result, RpcError):
            error: dict[str, JsonValue] = {"code": self.result.code, "message": self.result.message}
            return {"id": self.id, "error": error}
        return {"id": self.id, "result": plain(self.result)}


class RunningTurn(NamedTuple):
    """A turn that the program must interrupt at once."""

    thread_id: str
    turn_id: str


@dataclass(frozen=True)
class Told:
    """Results of one message of Codex or of the client, to send to Codex and to the client."""

    session_id: str
    replies: tuple[Reply, ...] = ()
    settled: tuple[RequestId, ...] = ()
    """Ids of requests whose questions are settled without an answer: withdraw these questions."""
    interrupts: tuple[RunningTurn, ...] = ()
    """Turns to interrupt: Codex may apply an acceptance to another action."""
    end: PromptEnd | None = None
    """Answer to the prompt, if the turn of the session has ended."""
    _events: tuple[SessionEvent, ...] = ()
    _client: ClientFeatures = field(default_factory=ClientFeatures)

    def v1(self) -> list[v1.SessionNotification]:
        """Return the ``session/update`` notifications of ACP v1, in order."""
        from codex_acp.acp._generated.v1.models import SessionNotification
        from codex_acp.mapping.v1.updates import updates_of

        updates = [update for event in self._events for update in updates_of(event, self._client)]
        return [SessionNotification(session_id=self.session_id, update=u) for u in updates]

    def v2(self) -> list[v2.UpdateSessionNotification]:
        """Return the ``session/update`` notifications of ACP v2, in order."""
        from codex_acp.acp._generated.v2.models import UpdateSessionNotification
        from codex_acp.mapping.v2.updates import updates_of

        updates = [update for event in self._events for update in updates_of(event)]
        return [UpdateSessionNotification(session_id=self.session_id, update=u) for u in updates]


@dataclass(frozen=True)
class Approval:
    """A question whether an action may run: send it as ``session/request_permission``."""

    id: RequestId
    told: Told
    """Updates to send before the question: the tool call that the question refers to."""
    _entry: LedgerEntry
    _question: PermissionQuestion

    @property
    def title(self) -> str:
        """Return the action in one line."""
        return self._question.shown.title or ""

    def v1(self) -> v1.RequestPermissionRequest:
        """Return the request for a client of ACP v1."""
        from codex_acp.mapping.v1.updates import permission_request

        return permission_request(self._question)

    def v2(self) -> v2.RequestPermissionRequest:
        """Return the request for a client of ACP v2."""
        from codex_acp.mapping.v2.updates import permission_request

        return permission_request(self._question)


@dataclass(frozen=True)
class Elicitation:
    """A question for a person's input: send it as ``elicitation/create``."""

    id: RequestId
    told: Told
    """Updates to send before the question."""
    _route: routes.Elicitation
    _name: str
    """The ``elicitationId``."""

    @property
    def message(self) -> str:
        """Return the text of the question. The text names the asking server or agent."""
        return str(self._params()["message"])

    def v1(self) -> v1.CreateElicitationRequest:
        """Return the request for a client of ACP v1."""
        from codex_acp.acp._generated.v1.methods import MODELS

        request: v1.CreateElicitationRequest
        request = MODELS.decode("CreateElicitationRequest", self._params(), "an elicitation")
        return request

    def v2(self) -> v2.CreateElicitationRequest:
        """Return the request for a client of ACP v2."""
        from codex_acp.acp._generated.v2.methods import MODELS

        request: v2.CreateElicitationRequest
        request = MODELS.decode("CreateElicitationRequest", self._params(), "an elicitation")
        return request

    def _params(self) -> dict[str, Any]:
        routed = self._route
        sub_agent = routed.thread_id if routed.thread_id != routed.session_id else None
        return create_request(routed.form_or_url, routed.session_id, self._name, sub_agent)


@dataclass(frozen=True)
class Decline:
    """A request that becomes no question: Codex gets the refusal of its method."""

    id: RequestId
    reason: str
    told: Told
    """The reply to Codex and, for a request of this session, a notice for the person."""


Route: TypeAlias = Approval | Elicitation | Decline
"""Route of a request of Codex."""

if TYPE_CHECKING:
    Response: TypeAlias = (
        v1.RequestPermissionResponse
        | v2.RequestPermissionResponse
        | v1.CreateElicitationResponse
        | v2.CreateElicitationResponse
        | Mapping[str, object]
    )
    """Answer of a client, as a model of either version or as JSON."""


@dataclass(slots=True)
class _Results:
    """The results of one message so far, for a `Told`."""

    events: list[SessionEvent] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    settled: list[RequestId] = field(default_factory=list)
    interrupts: list[RunningTurn] = field(default_factory=list)
    end: PromptEnd | None = None


class Bridge:
    """Translates one session; ``thread_id`` is its thread in Codex, and its session id in ACP.

    ``client`` has the client's capabilities. ``roots`` are the session's directories. ``others``
    are the threads of other sessions on the same Codex. ``look`` returns where the paths of an
    approval lead (`look_at` reads the disk). Without ``look``, links are not followed.
    ``environments`` are the ids in ``thread.environments`` of the answer that opened the thread: no
    notification names the other machines of a resumed thread.

    Call `heard` with every notification of the connection, in order, and `asked` with every request
    for whose params `holds` returns True.
    """

    def __init__(
        self,
        thread_id: str,
        client: ClientFeatures | None = None,
        *,
        roots: Sequence[str] = (),
        others: Iterable[str] = (),
        look: Callable[[Sequence[str]], Mapping[str, PathLook]] | None = None,
        environments: Iterable[str] = (),
    ) -> None:
        self.thread_id = thread_id
        self._client = ClientFeatures() if client is None else client
        self._look = look
        self._root_looks = {} if look is None else look(roots)
        """Where the session's directories led when the session was opened."""
        other_threads: dict[str, tuple[str, ...]] = dict.fromkeys(others, ())
        self._items = Items(other_threads | {thread_id: tuple(environments)})
        self._ledger = Ledger()
        self._state = SessionState(features=self._client)
        self._open_questions: dict[Key, tuple[ServerRequest, Approval | Elicitation]] = {}
        self._calls_of_items: dict[tuple[str, str], list[str]] = {}
        """Thread and item → ids of accepted tool calls that are not the item's own call."""
        self._cancelled: set[tuple[str, str]] = set()
        """Thread and turn of cancelled prompts: later requests of these turns are declined."""
        self._elicitation_count = 0
        """Number of elicitations so far: the next number is in the next ``elicitationId``."""

    # Messages of Codex.

    def heard(self, method: str, params: JsonValue, now: float | None = None) -> Told:
        """Translate a notification of Codex. The result for an unknown method is empty.

        ``now`` is the time in seconds: output that arrives too fast is held back. Without ``now``,
        each notification counts as one second. Raises InvalidPayload if the params do not fit.
        """
        self._state.now = self._state.now + 1 if now is None else now
        out = _Results()
        if method not in SERVER_NOTIFICATIONS:
            return self._told(out)
        if method in WITHOUT_SECRETS:
            params = WITHOUT_SECRETS[method](params)
        decoded = {} if params is None else params
        params_class = SERVER_NOTIFICATIONS[method].params
        if params_class is not None:
            decoded = MODELS.decode(params_class, decoded, f"the params of {method}")
        event = notifications.NOTIFICATION_CLASSES[method](decoded)
        self._items.apply(event)
        self._fail_closed(self._ledger.reported(event), out)
        # A notification without a thread is about the whole connection.
        if getattr(event.params, "thread_id", None) in (self.thread_id, None):
            self._show(event, out)
        match event:
            case notifications.ItemStartedEvent():
                self._interrupt_reach_elsewhere(event, out)
            case notifications.ItemCompletedEvent():
                item = event.params.item
                ended_well = getattr(item, "status", "completed") == "completed"
                item_id = str(getattr(item, "id", ""))
                self._end_item((event.params.thread_id, item_id), out, ended_well=ended_well)
            case notifications.TurnCompletedEvent():
                self._end_turn(event.params.thread_id, event.params.turn.id, out)
            case notifications.ServerRequestResolvedEvent():
                key = _key(event.params.request_id)
                self._settle(key, self._ledger.resolved(key), out)
        return self._told(out)

    def holds(self, params: JsonValue) -> bool:
        """Return whether a request with ``params`` is from the session's thread or a sub-agent."""
        thread_id = value_at(params, "threadId") or value_at(params, "conversationId")
        return self.thread_id in (thread_id, *self._items.ancestors_of(str(thread_id)))

    def asked(self, request_id: RequestId, method: str, params: JsonValue) -> Route:
        """Make the route of a request of Codex. A repeated open request keeps its question."""
        info = SERVER_REQUESTS.get(method)
        try:
            if info is None or info.params is None:
                problems = ("no schema that is known here has it",)
                raise InvalidPayload(f"the request {method}", problems)
            decoded: Any = {} if params is None else params
            decoded = MODELS.decode_request(info.params, decoded, f"the params of {method}")
            request: ServerRequest = REQUEST_CLASSES[method](request_id, decoded)
        except InvalidPayload as error:
            reason = str(error)
            reply = Reply(request_id, refusals.refusal(method, params, reason))
            return Decline(request_id, reason, self._told(_Results(replies=[reply])))
        key = _key(request_id)
        if key in self._open_questions:
            open_request, question = self._open_questions[key]
            if open_request == request:
                return question
            out = _Results()
            abandoned = self._ledger.abandoned(key, "Codex used its id again", by="superseded")
            self._settle(key, abandoned, out)
            return self._decline(request, "the request's id is open already", out)
        classified = classify(request, self._items)
        looks = self._look_at(classified) if isinstance(classified, ApprovalRequest) else {}
        context = routes.RoutingContext(self._items, self._client, {self.thread_id}, looks)
        routed = route(request, context)
        turn = None if isinstance(routed, routes.Decline) else (routed.thread_id, routed.turn_id)
        if turn in self._cancelled:
            reason = "the prompt was cancelled"
            result = refusals.cancellation(method, request.params, reason)
            return self._decline(request, reason, _Results(), result)
        match routed:
            case routes.Approval():
                return self._open_approval(key, routed)
            case routes.Elicitation():
                self._elicitation_count += 1
                out = _Results()
                self._announce_waiting(out)
                name = f"e{self._elicitation_count}"
                elicitation = Elicitation(request_id, self._told(out), routed, name)
                self._open_questions[key] = (request, elicitation)
                return elicitation
            case routes.Decline():
                out = _Results()
                self._fail_closed(self._ledger.note_declined(request), out)
                has_notice = routed.session_id is not None
                return self._decline(request, routed.reason, out, has_notice=has_notice)
            case _:
                assert_never(routed)

    # Messages of the client.

    def answered(self, question: Approval | Elicitation, response: Response) -> Told:
        """Translate the client's answer to a question. The result for a settled question is empty.

        An invalid answer, or an option that the question did not offer, accepts nothing.
        """
        if not self._is_open(question):
            return self._told(_Results())
        content = plain(response)
        answer: Mapping[str, Any] = content if isinstance(content, dict) else {}
        if isinstance(question, Elicitation):
            return self._settle_elicitation(
                question, elicitations.reply_to(question._route.form_or_url, answer)
            )
        return self._settle_approval(question, _outcome(answer.get("outcome")))

    def failed(self, question: Approval | Elicitation, reason: str) -> Told:
        """Decline a question that the client did not answer, for example because of an error."""
        if not self._is_open(question):
            return self._told(_Results())
        if isinstance(question, Elicitation):
            declined = elicitations.declined(question._route.form_or_url, reason)
            return self._settle_elicitation(question, declined)
        return self._settle_approval(question, Failed(reason))

    def cancelled(self) -> Told:
        """Settle all open questions after the client has cancelled the prompt.

        The program must also interrupt the turn.
        """
        out = _Results()
        threads = [self.thread_id, *self._items.sub_agents_of(self.thread_id)]
        turns = [(thread, self._items.running_turn(thread)) for thread in threads]
        self._cancelled |= {(thread, turn) for thread, turn in turns if turn is not None}
        for settlement in self._ledger.turn_cancelled(frozenset(threads)):
            self._carry_out(settlement, out, cancelled=True)
        for key in [*self._open_questions]:
            self._withdraw(key, out)
        return self._told(out)

    # Making questions.

    def _open_approval(self, key: Key, routed: routes.Approval) -> Route:
        request = routed.approval.request
        entry = self._ledger.open(key, routed)
        assert entry is not None, "`asked` has closed an approval with this key"
        out = _Results()
        if isinstance(entry, FailedClosed):
            self._fail_closed(entry, out)
            return self._decline(request, SHARED_ID, out)
        running = self._items.get(routed.thread_id, routed.item_id)
        if running is not None:
            running.asked = True
        question = PermissionQuestion(
            session_id=routed.session_id,
            shown=routed.shown,
            options=[choice.option for choice in entry.choices],
            reason=reason_shown(routed.approval),
            command=command_of(routed.approval, routed.looks),
        )
        out.events += announce(self._state, routed.announcement)
        self._announce_waiting(out)
        approval = Approval(request.id, self._told(out), entry, question)
        self._open_questions[key] = (request, approval)
        return approval

    def _decline(
        self,
        request: ServerRequest,
        reason: str,
        out: _Results,
        result: Any = None,
        *,
        has_notice: bool = True,
    ) -> Decline:
        """Decline a request with the reply ``result``, or with the refusal of its method."""
        result = result or refusals.refusal(request.method, request.params, reason)
        # An older question with this id may just have got a reply, but Codex expects one reply.
        out.replies = [r for r in out.replies if _key(r.id) != _key(request.id)]
        out.replies.append(Reply(request.id, result))
        if has_notice:
            out.events.append(make_notice(f"Declined without asking: {reason}"))
        return Decline(request.id, reason, self._told(out))

    def _look_at(self, approval: ApprovalRequest) -> Mapping[str, PathLook]:
        """Return where the paths of an approval lead."""
        if elsewhere := unseen_looks(approval):  # this disk says nothing about another machine
            return elsewhere
        paths = [*named_paths(approval)]
        looks = dict(self._look(paths)) if self._look is not None and paths else {}
        for path in looks.keys() & self._root_looks.keys():
            if looks[path].real == self._root_looks[path].real:  # as when the session was opened
                looks[path] = looks[path]._replace(named=looks[path].real)
        return looks

    # Settling questions.

    def _is_open(self, question: Approval | Elicitation) -> bool:
        """Return whether ``question`` itself is open, not just a later question with its id."""
        _, open_question = self._open_questions.get(_key(question.id), (None, None))
        return open_question is question

    def _settle_approval(self, question: Approval, answer: Answer) -> Told:
        entry = question._entry
        routed = entry.route
        settlement = self._ledger.answered(
            entry.key, entry.token, answer,
            action_now=refreshed(routed.approval, self._items),
            running=self._items.is_running(routed.thread_id, routed.turn_id),
            looks=self._look_at(routed.approval) if entry.is_granted_by(answer) else {},
        )  # fmt: skip
        assert settlement is not None, "an open question has a pending entry"
        out = _Results()
        self._carry_out(settlement, out)
        return self._told(out)

    def _settle_elicitation(
        self, question: Elicitation, reply: elicitations.ElicitationReply
    ) -> Told:
        del self._open_questions[_key(question.id)]
        out = _Results(replies=[Reply(question.id, reply.result)])
        if reply.problem is not None:
            out.events.append(make_notice(f"An answer was not passed on: {reply.problem}."))
        self._announce_running(out)
        return self._told(out)

    def _carry_out(self, settlement: Settlement, out: _Results, *, cancelled: bool = False) -> None:
        """Add the reply, the notice and the updates of a settled approval to the results."""
        entry = settlement.entry
        routed, accepted = entry.route, settlement.outcome == "accepted"
        self._open_questions.pop(entry.key, None)
        if settlement.reply is not None:
            out.replies.append(Reply(entry.key.id, settlement.reply.result))
        if settlement.withdraw:
            out.settled.append(entry.key.id)
        if settlement.failed_check is not None:
            out.events.append(make_notice(f"Not approved: {settlement.reason}."))
        call_id = routed.shown.id
        out.events += approval_settled(self._state, call_id, accepted=accepted, cancelled=cancelled)
        if accepted and ends_when_allowed(routed.approval):
            out.events += call_ended(self._state, call_id, ended_well=True)
        elif accepted and call_id != tool_call_id(routed.item_id):
            item = (routed.thread_id, routed.item_id)
            self._calls_of_items.setdefault(item, []).append(call_id)
        self._announce_running(out)

    def _fail_closed(self, failed: FailedClosed | None, out: _Results) -> None:
        """Interrupt the turns of accepted approvals that are in doubt; settle open approvals."""
        if failed is None:
            return
        for entry in failed.accepted:
            out.interrupts.append(RunningTurn(entry.route.thread_id, entry.route.turn_id))
            out.events.append(make_notice(f"The turn is interrupted: {ALLOWED_IN_DOUBT}."))
        for settlement in failed.settled:
            self._carry_out(settlement, out)

    def _withdraw(self, key: Key, out: _Results) -> None:
        """Settle an elicitation without an answer. Leave an approval to the ledger."""
        _, question = self._open_questions[key]
        if isinstance(question, Elicitation):
            del self._open_questions[key]
            out.replies.append(
                Reply(key.id, elicitations.cancelled(question._route.form_or_url).result)
            )
            out.settled.append(key.id)
            self._announce_running(out)

    def _settle(self, key: Key, settlement: Settlement | None, out: _Results) -> None:
        """Carry out the ledger's settlement of an approval, or else withdraw an elicitation."""
        if settlement is not None:
            self._carry_out(settlement, out)
        elif key in self._open_questions:
            self._withdraw(key, out)

    # Turns and items.

    def _show(self, event: ServerNotification, out: _Results) -> None:
        """Add the updates for a notification of the session's thread to the results."""
        if isinstance(event, notifications.TurnStartedEvent):
            out.events.append(StateChanged("running"))
        row = cast("Mapping[str, Any]", NOTIFICATION_HANDLERS)[event.method]
        if not isinstance(row, Ignored):
            self._state.looks = {}
            shown: SessionEvents = row(self._state, event.params)
            out.events += [*shown, *flush_due(self._state)]
        if isinstance(event, notifications.TurnCompletedEvent):
            out.end = end_of_shown_turn(self._state, event.params.turn)
        elif isinstance(event, notifications.ErrorEvent) and not (
            event.params.will_retry or self._items.is_running(self.thread_id, event.params.turn_id)
        ):
            out.end = failure(event.params.error)  # the turn never begins
            out.events.append(StateChanged("idle", out.end))

    def _interrupt_reach_elsewhere(
        self, event: notifications.ItemStartedEvent, out: _Results
    ) -> None:
        """Interrupt a turn whose model would use another session's rights (contract 3.9c)."""
        thread_id = event.params.thread_id
        if self._items.root_of(thread_id) != self.thread_id:
            return
        others = self._items.reached_elsewhere(thread_id, event.params.item)
        if others:
            out.interrupts.append(RunningTurn(thread_id, event.params.turn_id))
            why = "its model reached for another session, with rights not its own"
            out.events.append(make_notice(f"The turn is interrupted: {why} ({', '.join(others)})."))

    def _end_item(self, item: tuple[str, str], out: _Results, *, ended_well: bool) -> None:
        for call_id in self._calls_of_items.pop(item, ()):
            out.events += call_ended(self._state, call_id, ended_well=ended_well)

    def _end_turn(self, thread_id: str, turn_id: str, out: _Results) -> None:
        for settlement in self._ledger.turn_ended(thread_id, turn_id):
            self._carry_out(settlement, out)
        for thread_and_item in [*self._calls_of_items]:
            if thread_and_item[0] == thread_id:
                self._end_item(thread_and_item, out, ended_well=False)
        for key, (_, question) in [*self._open_questions.items()]:
            if isinstance(question, Elicitation):
                routed = question._route
                if (routed.thread_id, routed.turn_id) == (thread_id, turn_id):
                    self._withdraw(key, out)
        self._cancelled.discard((thread_id, turn_id))
        if thread_id == self.thread_id:
            out.events.append(StateChanged("idle", out.end))

    def _announce_waiting(self, out: _Results) -> None:
        """Report that the session waits for a person, before the first open question."""
        if not self._open_questions:
            out.events.append(StateChanged("requires_action"))

    def _announce_running(self, out: _Results) -> None:
        """Report that the session runs again, after its last open question."""
        if not self._open_questions and self._items.running_turn(self.thread_id) is not None:
            out.events.append(StateChanged("running"))

    def _told(self, out: _Results) -> Told:
        return Told(
            self.thread_id, tuple(out.replies), tuple(out.settled), tuple(out.interrupts), out.end,
            tuple(out.events), self._client,
        )  # fmt: skip


def _key(request_id: RequestId) -> Key:
    """Return the ledger's key of a request. A bridge has one connection, so its generation is 1."""
    return Key(1, type(request_id).__name__, request_id)


def _outcome(value: object) -> Answer:
    """Return the outcome in a client's answer to a permission request; Failed without one."""
    outcome = value if isinstance(value, dict) else {}
    option_id = outcome.get("optionId")
    match outcome.get("outcome"):
        case "selected" if isinstance(option_id, str):
            return Selected(option_id)
        case "cancelled":
            return OutcomeCancelled()
    return Failed("the client gave no outcome that ACP has")
