"""Whether a plan that plan mode has proposed is to be carried out: asked behind its turn.

Codex itself asks nothing: its own programs do, and so does the official adapter, in these words.
What may then happen is one action of ours, leaving plan mode with a turn that begins at once, so it
is asked as a permission (contract 2.1). Anything but the choice to do it leaves all as it is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.prompts.turn_calls import start_refused
from codex_acp.adapter.session.driver import PromptDone
from codex_acp.adapter.sessions.prompt_message import refused
from codex_acp.errors import CodexAcpError
from codex_acp.mapping.events.content import TextBlock
from codex_acp.mapping.events.session_events import tool_call_id
from codex_acp.mapping.session.stop_reasons import PromptStop
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractContextManager

    from codex_acp.adapter.audience import Asks
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.events.session_events import SessionEvents, ToolCallChanged
    from codex_acp.mapping.session.stop_reasons import PromptEnd

IMPLEMENT: Final = "implement_plan"
REVISE: Final = "revise_plan"
TITLE: Final = "Implement this plan?"
MESSAGE: Final = "Implement the approved plan."

DONE: Final = PromptStop("end_turn")


class PlanMode(NamedTuple):
    """The plan mode of one session, and whom it asks."""

    is_on: Callable[[], bool]
    leave: Callable[[], Awaitable[object]]
    asks: Callable[[], Asks]


class Planning(Protocol):
    """The session, as far as it is needed here."""

    id: str

    def tell(self, told: SessionEvents) -> None:
        """Send events."""

    def waiting_for_person(self, thread_id: str) -> AbstractContextManager[None]:
        """While a person is asked something."""

    def rests(self, end: PromptEnd) -> None:
        """What it did is over."""

    async def prompt(self, prompt: Sequence[Block]) -> PromptDone:
        """Run one prompt and return how it ended."""


class PlanReview:
    """Of one session. ``spawn`` starts a task that may outlive a request."""

    def __init__(self, session: Planning, spawn: Spawn) -> None:
        self.mode: PlanMode | None = None
        """Known when the client knows the session."""
        self._session = session
        self._spawn = spawn
        self._open: asyncio.Future[PromptDone] | None = None
        """How the one ends that no prompt waits for yet."""
        self._last: asyncio.Future[PromptDone] | None = None
        self._scope = CancelScope()
        self._cancelled = False

    @property
    def open(self) -> object | None:
        """The same object from the question to the end of what was allowed, None for nothing."""
        return None if self._last is None or self._last.done() else self._last

    async def settled(self) -> None:
        """Wait until that is over; bounded after a `cancel`."""
        if self._last is not None:
            await asyncio.wait({self._last})

    def takes(self, end: PromptEnd, plan: tuple[str, str] | None) -> bool:
        """Whether a turn that has ended so goes on with the question, which is asked then.

        ``plan`` is the item's id and its text.
        """
        if plan is None or end != DONE or self.mode is None or not self.mode.is_on():
            return False
        self._open = self._last = over = asyncio.get_running_loop().create_future()
        over.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._scope, self._cancelled = CancelScope(), False
        self._spawn(lambda: self._run(over, *plan))
        return True

    async def follow(self, done: PromptDone) -> PromptDone:
        """How a prompt ends whose turn has ended so; only the first one waits for the answer.

        Raises RpcError if the plan was to be carried out and that has failed.
        """
        over, self._open = self._open, None
        if over is None:
            return done
        try:
            return await shielded(over)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """The client has cancelled the session's prompt."""
        self._cancelled = True
        self._scope.cancel()

    def withdraw(self) -> None:
        """Another turn begins: the person has said something else."""
        self._scope.cancel()

    async def _run(self, over: asyncio.Future[PromptDone], item_id: str, plan: str) -> None:
        try:
            over.set_result(await self._reviewed(tool_call_id(item_id, "plan-review"), plan))
        except CodexAcpError as error:
            self._session.rests(start_refused(error))
            over.set_exception(refused(error))
        finally:
            over.cancel()

    async def _reviewed(self, call_id: str, plan: str) -> PromptDone:
        from codex_acp.mapping.messages.plans import review_asked, review_ended
        from codex_acp.routing.table import announcement

        session, mode = self._session, self.mode
        assert mode is not None
        approved: bool | None = None
        shown = review_asked(call_id, TITLE, plan)
        session.tell([announcement(shown, shown.content or ())])
        with session.waiting_for_person(session.id), self._scope:
            approved = await self._approved(mode.asks(), shown)
        if self._cancelled:  # also when the answer stood before it
            approved = None
        session.tell([review_ended(call_id, approved=approved)])
        if approved:
            await mode.leave()
            if not self._cancelled:
                return await session.prompt([TextBlock(MESSAGE)])
        end = PromptStop("cancelled") if self._cancelled else DONE
        if approved is not None or self._cancelled:  # else another turn runs
            session.rests(end)
        return PromptDone(end)

    async def _approved(self, asks: Asks, shown: ToolCallChanged) -> bool:
        from codex_acp.mapping.events.permissions import PermissionOption, PermissionQuestion
        from codex_acp.routing.ledger import Selected

        options = (
            PermissionOption(IMPLEMENT, "Yes, implement this plan", "allow_once"),
            PermissionOption(REVISE, "No, and tell Codex what to do differently", "reject_once"),
        )
        with suppress(CodexAcpError):  # without an answer it is not carried out
            question = PermissionQuestion(self._session.id, shown, options)
            answer = await asks.request_permission(question, lambda _: None)
            return isinstance(answer, Selected) and answer.option_id == IMPLEMENT
        return False
