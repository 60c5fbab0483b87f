"""Ask the person, after a turn in plan mode, whether to carry out the plan that Codex proposed.

Codex sends no request for that; its own programs and the official adapter ask with the same texts.
To carry the plan out, the adapter begins a turn that leaves plan mode. This turn is one action, so
the question is a permission (contract 2.1). Any other answer changes nothing. The session's machine
decides when to ask the question, to withdraw the question, and to carry out the plan.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp._record import NamedTuple
from codex_acp.errors import CodexAcpError
from codex_acp.mapping.messages import IMPLEMENT, plan_question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.session_client import Questioner
    from codex_acp.jsonrpc import JsonValue, RequestId
    from codex_acp.mapping.events import PermissionQuestion, ToolCallAnnounced
    from codex_acp.transcript.events import ApprovalSettler

CARRY_OUT_PLAN: Final = "Implement the approved plan."


class PlanMode(NamedTuple):
    """Functions for the plan mode of one session, and for the question about a plan."""

    is_on: Callable[[], bool]
    ensure_live: Callable[[], Awaitable[None]]
    """Has Codex load the thread: Codex may have been lost since the question."""
    leaving: Callable[[], dict[str, JsonValue]]
    """Returns the params with which a turn leaves plan mode, none if plan mode is off."""
    questioner: Callable[[], Questioner]
    record: Callable[[str, bool | None, ApprovalSettler], None]
    """Records the plan, whether it was approved (None: withdrawn), and who settled the question."""


class PlanQuestion:
    """The question about one plan; ``plan`` is the id of the plan's item, and the plan's text."""

    def __init__(self, session_id: str, plan: tuple[str, str], mode: PlanMode) -> None:
        item_id, text = plan
        self.announced: ToolCallAnnounced
        self._question: PermissionQuestion
        self.announced, self._question = plan_question(session_id, item_id, text)
        self._questioner = mode.questioner()
        self._record = partial(mode.record, text)
        self._settled_by: ApprovalSettler = "turn_cancelled"
        self._request_id: RequestId | None = None

    async def approved(self) -> bool:
        """Ask the person; return whether to carry the plan out, False without an answer."""
        from codex_acp.routing.ledger import Selected

        self._set_request_id(self._questioner.next_request_id)
        try:
            answer = await self._questioner.request_permission(self._question, self._set_request_id)
        except CodexAcpError:
            self._settled_by = "disconnected"
            return False
        self._settled_by = "client"
        return isinstance(answer, Selected) and answer.option_id == IMPLEMENT

    def _set_request_id(self, request_id: RequestId | None) -> None:
        self._request_id = request_id

    def settle(self, approved: bool | None) -> None:
        """Record the answer, or withdraw the question (None)."""
        if approved is None:
            self._questioner.withdraw(self._request_id)
        self._record(approved, self._settled_by)
