"""Ask whether a plan that plan mode has proposed is to be carried out, behind its turn.

Codex itself asks nothing: its own programs do, and so does the official adapter, in these words.
What may then happen is one action of ours, leaving plan mode with a turn that begins at once, so it
is asked as a permission (contract 2.1). Anything but the choice to do it leaves all as it is. When
it is asked, withdrawn and carried out, the session's machine decides.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import CodexAcpError
from codex_acp.mapping.events import question_ended
from codex_acp.mapping.messages import IMPLEMENT, review_question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.session_client import Asks
    from codex_acp.jsonrpc.message import RequestId
    from codex_acp.mapping.events import PermissionQuestion, ToolCallAnnounced, ToolCallChanged
    from codex_acp.transcript.events import ApprovalSettler

MESSAGE: Final = "Implement the approved plan."


class PlanMode(NamedTuple):
    """The plan mode of one session, and whom it asks."""

    is_on: Callable[[], bool]
    leave: Callable[[], Awaitable[object]]
    asks: Callable[[], Asks]
    record: Callable[[str, bool | None, ApprovalSettler], None]
    """Notes in the transcript how a plan was decided on; None: it was withdrawn."""


class PlanQuestion:
    """The question about one plan; ``plan`` is the item's id and its text."""

    def __init__(self, session_id: str, plan: tuple[str, str], mode: PlanMode) -> None:
        self.announced: ToolCallAnnounced
        self._question: PermissionQuestion
        self.announced, self._question = review_question(session_id, *plan)
        self._asks = mode.asks()
        self._record = partial(mode.record, plan[1])
        self._by: ApprovalSettler = "turn_cancelled"
        self._request: RequestId | None = None

    async def approved(self) -> bool:
        """Ask the person; False without an answer: it is not carried out."""
        from codex_acp.routing.ledger import Selected

        self._now_asked(self._asks.next_request_id)
        try:
            answer = await self._asks.request_permission(self._question, self._now_asked)
        except CodexAcpError:
            self._by = "disconnected"
            return False
        self._by = "client"
        return isinstance(answer, Selected) and answer.option_id == IMPLEMENT

    def _now_asked(self, request_id: RequestId | None) -> None:
        self._request = request_id

    def ended(self, approved: bool | None) -> ToolCallChanged:
        """Withdraw the question if it is open; return what is shown of its end."""
        if approved is None:
            self._asks.withdraw(self._request)
        self._record(approved, self._by)
        return question_ended(self.announced.id, approved)
