"""PURE: what a bridge gives: what the client is told and asked, and what Codex is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.errors import RpcError
from codex_acp.routing.elicitations import create_request
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.jsonrpc.message import JsonValue, RequestId
    from codex_acp.mapping.events import PermissionQuestion, PromptEnd, SessionEvent
    from codex_acp.routing import route as routes
    from codex_acp.routing.ledger import LedgerEntry
    from codex_acp.wire.model import WireModel


class Reply(NamedTuple):
    """The one reply to a request of Codex."""

    id: RequestId
    result: WireModel | RpcError

    def message(self) -> dict[str, JsonValue]:
        """Return the JSON-RPC response."""
        if isinstance(self.result, RpcError):
            error: dict[str, JsonValue] = {"code": self.result.code, "message": self.result.message}
            return {"id": self.id, "error": error}
        return {"id": self.id, "result": cast("JsonValue", plain(self.result))}


class RunningTurn(NamedTuple):
    """A turn that is to be interrupted at once: Codex may take an acceptance for another action."""

    thread_id: str
    turn_id: str


@dataclass(frozen=True)
class Told:
    """Results of one message of Codex or of the client."""

    session_id: str
    replies: tuple[Reply, ...] = ()
    """Replies for Codex."""
    settled: tuple[RequestId, ...] = ()
    """Requests whose question is to be withdrawn: something else than an answer settled them."""
    interrupts: tuple[RunningTurn, ...] = ()
    end: PromptEnd | None = None
    """How the prompt ends, if the turn of the session has ended."""
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
    """Asks whether one pending action may run: ``session/request_permission``, and nothing else."""

    id: RequestId
    told: Told
    """Updates for the client to be sent first: the tool call that the question refers to."""
    _entry: LedgerEntry
    _question: PermissionQuestion

    @property
    def title(self) -> str:
        """Return what would run, in one line."""
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
    """Asks a person for input: ``elicitation/create``, and nothing else."""

    id: RequestId
    told: Told
    _route: routes.Elicitation
    _name: str

    @property
    def message(self) -> str:
        """Return what is asked, with whose words they are."""
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
        child = routed.thread_id if routed.thread_id != routed.session_id else None
        return create_request(routed.asked, routed.session_id, self._name, child)


@dataclass(frozen=True)
class Decline:
    """Answered at once, with the refusal of its method; the person is told why."""

    id: RequestId
    reason: str
    told: Told
    """The reply, and the line for the person if the session's thread has asked."""


Route: TypeAlias = Approval | Elicitation | Decline
"""Route of a request of Codex."""
