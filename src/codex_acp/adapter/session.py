"""One ACP session: a Codex thread, its prompts, and the updates that its notifications cause."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.adapter.prompt_run import PromptRun
from codex_acp.codex._generated.models import TurnInterruptParams, TurnStartParams
from codex_acp.codex._generated.notifications import UnknownNotification
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    ProcessExited,
    RpcError,
    TransportError,
)
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_REQUEST
from codex_acp.mapping.messages import message_chunk
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS
from codex_acp.mapping.prompt import user_input
from codex_acp.mapping.said import said
from codex_acp.mapping.state import SessionState
from codex_acp.mapping.step import Ignored
from codex_acp.mapping.stop_reasons import PromptFailure, PromptStop, end_of_turn
from codex_acp.mapping.tool_calls import announce, approval_settled, call_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from codex_acp.acp._generated.v1.models import PromptRequest, ToolCallSessionUpdate
    from codex_acp.adapter.outflow import Outflow
    from codex_acp.codex._generated.models import Turn
    from codex_acp.codex.client import CodexClient
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.step import Updates
    from codex_acp.mapping.stop_reasons import PromptEnd

    Spawn = Callable[[Callable[[], Coroutine[None, None, None]]], object]
    _Row = Callable[[SessionState, Any], Updates]

__all__ = ["Session"]

logger = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 10.0
"""How long after a cancel Codex may take to end the turn; then the prompt ends without it."""

INTERRUPT_ATTEMPTS: Final = 3
"""An interrupt is refused between the answer of ``turn/start`` and ``turn/started``."""


class Session:
    """A thread on one app-server, as a sink of its notifications.

    ``spawn`` starts a task that may outlive a request. All methods run on the event loop's thread.
    """

    def __init__(
        self,
        session_id: str,
        codex: CodexClient,
        outflow: Outflow,
        spawn: Spawn,
        features: ClientFeatures | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        self.id = session_id
        self._codex = codex
        self._features = features or ClientFeatures()
        self._on_cancel = on_cancel
        self._outflow = outflow
        self._spawn = spawn
        self._state = SessionState()
        self._run: PromptRun | None = None
        self._unwanted: set[str] = set()
        self._lost: str | None = None
        codex.subscribe(session_id, self)

    # What the client asks for.

    async def prompt(self, request: PromptRequest) -> PromptResponse:
        """Run one turn and return how it ended; all of its updates are sent before.

        Raises RpcError: -32602 for content that was not advertised, -32600 while another prompt
        runs, -32603 when the turn failed or Codex is gone.
        """
        if self._run is not None:
            message = "a prompt is running in this session; wait for its end, or cancel it"
            raise RpcError(INVALID_REQUEST, message)
        if self._lost is not None:
            raise RpcError(INTERNAL_ERROR, self._lost)
        params = TurnStartParams(thread_id=self.id, input=user_input(request.prompt))
        run = self._run = PromptRun()
        try:
            end = await self._run_turn(run, params)
        finally:
            self._run = None
        self._show_why(run, end)
        self._outflow.flush()
        if isinstance(end, PromptFailure):
            raise RpcError(end.code, end.message, end.data)
        return PromptResponse(stop_reason=end.reason)

    def cancel(self) -> None:
        """End the running prompt, if there is one: interrupt its turn, and wait only so long."""
        run = self._run
        if run is None or run.cancelled or run.ended:
            return
        run.cancelled = True
        if self._on_cancel is not None:
            self._on_cancel()
        self._spawn(lambda: self._interrupt(run))

    # What the routing of server requests asks and shows.

    @property
    def cancelling(self) -> bool:
        """See `SessionView`."""
        return self._run is not None and self._run.cancelled

    def announce_tool_call(self, call: ToolCallSessionUpdate) -> None:
        """See `SessionView`: the tool call comes before the question that refers to it."""
        self._send(announce(self._state, call))
        self._outflow.flush()

    def approval_settled(self, tool_call_id: str, *, accepted: bool) -> None:
        """See `SessionView`."""
        self._send(approval_settled(self._state, tool_call_id, accepted=accepted))

    def tool_call_ended(self, tool_call_id: str, *, ended_well: bool) -> None:
        """See `SessionView`."""
        self._send(call_ended(self._state, tool_call_id, ended_well=ended_well))

    def say(self, text: str) -> None:
        """See `SessionView`."""
        self._outflow.send(self.id, said(text, self._features))

    def _send(self, updates: Updates) -> None:
        for update in updates:
            self._outflow.send(self.id, update)

    # What Codex reports.

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`: show what the table says, and note the turn's start and end."""
        if method == "turn/started":
            self._turn_started(_turn_id(params))
        row = cast("Mapping[str, Ignored | _Row]", NOTIFICATION_HANDLERS).get(method)
        if isinstance(row, Ignored):
            return
        event = self._codex.decode_notification(method, params)
        if isinstance(event, UnknownNotification):
            if method == "turn/completed":
                self._turn_end_unreadable(params, event.problem)
            return
        if row is None:  # a method that the schema does not have is never decoded
            return
        self._send(row(self._state, event.params))
        if event.method == "turn/completed":
            self._turn_ended(event.params.turn)

    def on_batch_end(self) -> None:
        """See `NotificationSink`: updates were sent as they came."""

    def on_closed(self, error: TransportError | None) -> None:
        """See `NotificationSink`: the thread is gone with its app-server."""
        why = "it has ended" if error is None else str(error)
        self._lost = f"the Codex of this session is gone; start a new session ({why})"
        if self._run is not None:
            self._run.finish(_codex_gone(error))

    # The turn.

    async def _run_turn(self, run: PromptRun, params: TurnStartParams) -> PromptEnd:
        """Start the turn and wait for the end of the prompt, whichever comes first."""
        # A task of its own: if the client gives the prompt up, the turn must still become known.
        self._spawn(lambda: self._start_turn(run, params))
        try:
            return await run.wait()
        except asyncio.CancelledError:
            # When the adapter itself ends there is no client any more: no interrupt then, or Codex
            # would end the shell of a command and leave us what it started as orphans.
            if not self._outflow.client_gone:
                self.cancel()
                # The client's `$/cancel_request`: its answer follows the end of the turn, too.
                with anyio.CancelScope(shield=True):
                    await run.wait()
                self._outflow.flush()
            raise

    async def _start_turn(self, run: PromptRun, params: TurnStartParams) -> None:
        try:
            started = await self._codex.turn_start(params)
        except TransportError as error:
            run.finish(_codex_gone(error))
        except ErrorReply as error:
            data = {"message": error.message, "code": error.code, "data": error.data}
            message = f"Codex refused the turn: {error.message}"
            run.finish(PromptFailure(INTERNAL_ERROR, message, data))
        except CodexAcpError as error:
            run.finish(PromptFailure(INTERNAL_ERROR, f"Codex did not start the turn: {error}", {}))
        else:
            run.turn_known(started.turn.id)
            if run.ended and run.cancelled:  # the end of the wait came before the turn's beginning
                self._unwanted.add(started.turn.id)
                await self._interrupted(started.turn.id)

    async def _interrupt(self, run: PromptRun) -> None:
        """Interrupt the turn as soon as that is possible; end the prompt in any case."""
        try:
            with anyio.move_on_after(CANCEL_SECONDS):
                async with anyio.create_task_group() as tasks:
                    # Codex never answers an interrupt of a turn that has just ended.
                    tasks.start_soon(self._try_to_interrupt, run)
                    await run.wait()
                    tasks.cancel_scope.cancel()
            if not run.ended:
                logger.warning("session %s: Codex did not end the turn after a cancel", self.id)
        finally:  # also when this is cancelled: the prompt waits for it
            run.finish(PromptStop("cancelled"))

    async def _try_to_interrupt(self, run: PromptRun) -> None:
        for _ in range(INTERRUPT_ATTEMPTS):
            if run.turn_id is not None and await self._interrupted(run.turn_id):
                return
            await run.turn_started.wait()

    async def _interrupted(self, turn_id: str) -> bool:
        """Whether Codex took the interrupt; not while it has not started the turn."""
        try:
            await self._codex.turn_interrupt(
                TurnInterruptParams(thread_id=self.id, turn_id=turn_id)
            )
        except CodexAcpError as error:
            logger.info("session %s: the interrupt was refused: %s", self.id, error)
            return False
        return True

    def _turn_started(self, turn_id: str | None) -> None:
        if turn_id is None:
            return
        if turn_id in self._unwanted:
            self._unwanted.discard(turn_id)
            self._spawn(lambda: self._end_unwanted(turn_id))
        elif self._run is not None:
            self._run.turn_began(turn_id)

    async def _end_unwanted(self, turn_id: str) -> None:
        await self._interrupted(turn_id)

    def _turn_ended(self, turn: Turn) -> None:
        last_error = self._state.turn_errors.pop(turn.id, None)
        self._unwanted.discard(turn.id)
        if self._run is not None:
            self._run.turn_ended(turn.id, end_of_turn(turn, last_error))

    def _turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        """An end that does not fit the schema is still an end: the prompt must return."""
        turn_id = _turn_id(params)
        if self._run is not None and turn_id is not None:
            message = f"Codex ended the turn in a way that could not be read: {problem}"
            self._run.turn_ended(turn_id, PromptFailure(INTERNAL_ERROR, message, {}))

    def _show_why(self, run: PromptRun, end: PromptEnd) -> None:
        """A stop reason alone does not say why: Codex's message does."""
        if isinstance(end, PromptStop) and end.message:
            chunk = message_chunk(end.message, f"{run.turn_id}-end")
            self._outflow.send(self.id, chunk)


def _turn_id(params: JsonValue) -> str | None:
    """The turn that ``turn/started`` and ``turn/completed`` are about, however ill they fit."""
    turn = params.get("turn") if isinstance(params, dict) else None
    turn_id = turn.get("id") if isinstance(turn, dict) else None
    return turn_id if isinstance(turn_id, str) else None


def _codex_gone(error: TransportError | None) -> PromptFailure:
    data: dict[str, object] = {}
    if isinstance(error, ProcessExited):
        data = {"exitCode": error.returncode, "stderr": error.stderr_tail}
    message = "Codex ended while the prompt ran" if error is None else str(error)
    return PromptFailure(INTERNAL_ERROR, message, data)
