"""One ACP session: a Codex thread, its prompts, and the updates that its notifications cause.

Owns the session's `SessionState`. `SessionDriver` runs and ends the prompts.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

from codex_acp._record import replace
from codex_acp.adapter.command_results import MessageCommand, TextCommand, TurnCommand
from codex_acp.adapter.prompts.plan_review import CARRY_OUT_PLAN, PlanMode, PlanQuestion
from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.driver import (
    LocalReply,
    PromptResult,
    PromptUnread,
    SessionDriver,
    TurnWork,
)
from codex_acp.adapter.sessions.opening_errors import not_open
from codex_acp.adapter.sessions.prompt_message import prompt_message
from codex_acp.adapter.sessions.shown_thread import ShownThread, item_of, turn_event, turn_of
from codex_acp.adapter.sub_agents import SubAgents
from codex_acp.codex.connection.notification_router import is_unloaded
from codex_acp.errors import RpcError, TransportError
from codex_acp.jsonrpc import AGENT_LOST, INTERNAL_ERROR, JsonValue
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    PromptEnd,
    PromptFailure,
    PromptStop,
    PromptTaken,
    StateChanged,
    TextChunk,
    TitleChanged,
    question_ended,
    tool_call_id,
)
from codex_acp.mapping.messages import make_notice
from codex_acp.mapping.running_calls import announce, approval_settled, call_ended, show_again
from codex_acp.mapping.session import end_of_shown_turn, failure, prompt_title, turn_usage
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.session_client import SessionOutflow
    from codex_acp.adapter.slash_commands import SessionCommands
    from codex_acp.adapter.sub_agents import OnSubAgent
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex._generated.models import ErrorNotification, TokenUsageBreakdown, Turn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.events import Activity, SessionEvents, ToolCallAnnounced
    from codex_acp.mapping.state import SessionState


class Session:
    """An open session on one app-server. ``thread.follow`` subscribes to the notifications.

    ``spawn`` starts a task that may outlive a request. ``settle`` withdraws the person's questions
    of a turn; called with None, it withdraws all questions and interrupts the sub-agents.
    ``ensure_git_consent`` asks the person, before a turn, whether git may run the programs that
    git's configuration names; it raises RpcError if the turn may not begin.
    ``on_unloaded`` is called when Codex reports that it unloaded the thread. ``may_be_below``
    returns whether a thread may be a sub-agent of the session. ``earlier`` returns the
    notifications of a sub-agent's thread that came before the session follows the thread.
    """

    def __init__(
        self,
        session_id: str,
        codex: AppServerConnection,
        outflow: SessionOutflow,
        spawn: Spawn,
        state: SessionState,
        *,
        settle: Callable[[str | None], None],
        ensure_git_consent: Callable[[], Awaitable[None]],
        on_unloaded: Callable[[], None],
        may_be_below: Callable[[str], bool],
        on_sub_agent: OnSubAgent,
        earlier: Callable[[str], list[tuple[str, JsonValue]]],
    ) -> None:
        self.id = session_id
        self.commands: SessionCommands
        """The slash commands; set by `session_services.SessionServices.add`."""
        self.loss: str | None = None
        """How the session lost its Codex; None while the session has a Codex."""
        self._codex = codex
        self._settle = settle
        self._ensure_git_consent = ensure_git_consent
        self._on_unloaded = on_unloaded
        self._outflow = outflow
        self._state = state
        self.thread: ShownThread = ShownThread(codex, session_id, self._state, self)
        """Makes events of the thread's notifications."""
        self.sub_agents: SubAgents = SubAgents(
            session_id, codex, outflow, self._state, say=self.say,
            may_change_call=lambda: self.driver.running,  # `driver` is set below
            may_be_below=may_be_below, on_found=on_sub_agent, take_held=earlier,
        )  # fmt: skip
        self._used_before: TokenUsageBreakdown | None = None
        """Token usage of the thread before the running turn."""
        self._turn_calls = TurnCalls(codex, session_id)
        self.driver: SessionDriver = SessionDriver(self._turn_calls, self, spawn)
        self.sub_agents.on_activity = self._send_sub_agents
        self.plan_mode: PlanMode
        """Set together with `commands`."""
        self._plan: PlanQuestion
        """The last question about a plan; set by `show_plan_question`."""
        self.after_read: Callable[[], None] = self.driver.note_activity
        """Called by `ShownThread` after each read from Codex with notifications of the thread."""

    # Requests of the client.

    def begin(self, early: EarlyTurn) -> None:
        """Queue the first prompt, whose ``turn/start`` was sent early; `prompt` awaits its end."""
        self.driver.begin(early, lambda message_id: self._show(message_id, early.message))

    async def prompt(
        self,
        prompt: Sequence[Block],
        on_accepted: Callable[[str], None] | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> PromptResult:
        """Run one prompt; return its end after all of its updates were sent.

        ``on_accepted`` is called with the message's id when Codex has taken the message. ``early``:
        the turn of this prompt, if its ``turn/start`` was sent before this session was made.

        While another prompt runs, this prompt is steered into the running turn if Codex allows it,
        and ends with the turn. Else it waits, or with ``joins`` fails with `NothingRuns`.

        Raises RpcError: -32602 for content that cannot be sent, -32002 while the session is being
        closed, -32600 when too many prompts wait, -32603 when the turn failed or Codex is gone
        (PromptUnread if Codex had read nothing of the prompt).
        """
        begun = self.driver.has_begun(early)  # then the driver ends the prompt in every case
        if self.driver.machine.closing and not begun:
            raise not_open(self.id)
        if self.loss is not None and not begun:
            raise PromptUnread(INTERNAL_ERROR, self.loss, {"reason": AGENT_LOST})
        end, usage, unread = await self.driver.run(
            lambda: self._work_for(prompt),
            lambda message_id: self._show(message_id, prompt),
            on_accepted,
            joins=joins,
            early=early,
        )
        self._outflow.flush()
        if isinstance(end, PromptFailure):
            raise (PromptUnread if unread else RpcError)(end.code, end.message, end.data)
        return PromptResult(end, usage)

    def cancel(self) -> None:
        """Cancel all prompts of the session, and interrupt the turn."""
        self.driver.handle(ev.Cancelled())

    def rights_changed(self) -> bool:
        """Have later messages wait for the end of the turn that runs, because the session has other
        rights now. Return whether a turn of the session or of a sub-agent runs."""
        self.driver.handle(ev.RightsChanged())
        return self.driver.machine.run is not None or self.sub_agents.busy

    async def stop_command(self, call_id: str) -> bool:
        """End the command of a tool call; return whether it ran and Codex ended it."""
        state = self._state
        open_call = state.open_calls.get(call_id)
        item = state.background.get(call_id) if open_call is None else open_call.item
        process_id = getattr(item, "process_id", None)
        if process_id is None:
            return False
        state.cancelled_calls.add(call_id)  # before Codex reports the command's end
        stopped = False
        try:
            stopped = await self._turn_calls.terminate(process_id)
        finally:
            if not stopped:
                state.cancelled_calls.discard(call_id)
        return stopped

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return Codex's warnings about this computer, for ``/status``."""
        return tuple(self._state.remarks)

    def change_client(self, features: ClientFeatures) -> dict[str, SessionEvents]:
        """Show the session from now on to a client with these capabilities. Return the events that
        show the open commands to this client, by tool call."""
        self._state.features = features
        self.sub_agents.announce_again()
        return show_again(self._state)

    async def stop(self) -> None:
        """Cancel everything; wait until every prompt is answered and no sub-agent works. The
        session then refuses prompts, unless this call is cancelled."""
        try:
            self.driver.handle(ev.Cancelled(closing=True))
            await self.driver.wait_idle()
            await self.sub_agents.wait_idle()
        except BaseException:
            self.driver.handle(ev.Reopened())
            raise

    def detach(self) -> None:
        """Unsubscribe from the threads of the session and its sub-agents, and send nothing more."""
        self.thread.stop_showing()
        self.sub_agents.detach()

    def move(self, codex: AppServerConnection) -> None:
        """Move to another app-server, on which the thread was resumed. The caller subscribes to the
        thread's notifications, by ``thread.follow``."""
        self.thread.unsubscribe()
        self._codex = self._turn_calls.codex = self.thread.codex = codex
        self.sub_agents.move(codex)
        self.loss = None
        self.driver.handle(ev.Moved())

    async def _work_for(self, prompt: Sequence[Block]) -> TurnWork | LocalReply:
        """Return the work that a prompt asks for. Raises RpcError if the prompt cannot run."""
        command = await self.commands.find(prompt)
        match command:
            case TextCommand():
                if command.starts_turns:  # ``/goal``: Codex begins turns without a prompt
                    await self._ensure_git_consent()
                return LocalReply(command.run, self._show_text)
            case TurnCommand(method, params):
                await self._ensure_git_consent()
                return TurnWork(method, lambda _: params, None)
            case MessageCommand(message, before_message):
                await self._ensure_git_consent()
                if before_message is not None:
                    await before_message()
            case None:
                await self._ensure_git_consent()
                message = await prompt_message(self._codex, self.id, prompt)
            case _:
                assert_never(command)
        params_of = lambda message_id: self._turn_calls.start_params(message, message_id)  # noqa: E731
        return TurnWork("turn/start", params_of, message)

    def _show(self, message_id: str, prompt: Sequence[Block]) -> None:
        self._outflow.send(self.id, PromptTaken(message_id, prompt))
        title = None if self._state.has_title else prompt_title(prompt)
        if title is not None:
            self._state.has_title = True
            self._outflow.send(self.id, TitleChanged(title))

    def _show_text(self, text: str) -> None:
        self._outflow.send(self.id, TextChunk(uuid4().hex, text))

    # Methods of `PromptHost`, for `SessionDriver`

    @property
    def client_gone(self) -> bool:
        return self._outflow.client_gone

    def note_message_id(self, message_id: str) -> None:
        """Note the id of a prompt's message, so that Codex's echo of the message is not shown."""
        self._state.own_messages[message_id] = None

    def settle_questions(self, turn_id: str | None) -> None:
        """Withdraw the person's questions of a turn; None: of all turns, also of sub-agents."""
        self._settle(turn_id)

    def prepare_turn(self) -> None:
        """Note the token usage before the next turn, and forget the last plan."""
        self._used_before = self._state.total_usage
        self._state.proposed_plan = None

    @property
    def has_plan(self) -> bool:
        """Return whether the ending turn proposed a plan, and plan mode is on."""
        return self._state.proposed_plan is not None and self.plan_mode.is_on()

    def show_plan_question(self) -> None:
        plan = self._state.proposed_plan
        assert plan is not None, "`has_plan` was true"
        self._plan = PlanQuestion(self.id, plan, self.plan_mode)
        self.send_events([self._plan.announced])

    async def ask_about_plan(self) -> bool:
        return await self._plan.approved()

    def end_plan_question(self, approved: bool | None) -> None:
        """Record how the question about the plan ended; None: withdraw the question."""
        self._plan.settle(approved)
        if not approved:
            self.end_plan(approved)

    def end_plan(self, begun: bool | None) -> None:
        """End the tool call of the plan."""
        self.send_events([question_ended(self._plan.announced.id, begun)])

    async def plan_work(self) -> TurnWork:
        """Return the turn that leaves plan mode and carries the plan out. Raises CodexAcpError."""
        await self.plan_mode.ensure_live()
        work = await self._work_for([TextBlock(CARRY_OUT_PLAN)])
        assert isinstance(work, TurnWork), "the message is no command"
        params_of, leaving = work.params, self.plan_mode.leaving
        return work._replace(params=lambda message: {**plain(params_of(message)), **leaving()})

    def show_plan_prompt(self, message_id: str) -> None:
        self._show(message_id, [TextBlock(CARRY_OUT_PLAN)])

    @property
    def state_event(self) -> StateChanged:
        """Return an event with the session's activity, background commands and sub-agents."""
        return StateChanged(
            self.driver.machine.activity,
            background=list(self._state.background),
            sub_agents=self.sub_agents.working,
        )

    def send_state(self) -> None:
        """Send `state_event`, even if nothing changed."""
        self._outflow.send(self.id, self.state_event)

    def show_activity(
        self, now: Activity, end: PromptEnd | None, usage: dict[str, JsonValue] | None
    ) -> None:
        """Send the activity of the session; ``end``: how the work ended, if it is idle."""
        self._outflow.send(self.id, replace(self.state_event, state=now, end=end, usage=usage))
        if now == "idle":
            self._outflow.flush()

    def _send_sub_agents(self) -> None:
        """Send which sub-agents work; while a turn runs, the turn's own state updates say it."""
        if self.driver.machine.activity == "idle":
            self.send_state()

    def end_turn(self, effect: ev.EndTurn) -> dict[str, JsonValue] | None:
        """End the turn's tool calls, send the message of its end, and return the tokens it used."""
        end = effect.end
        self.thread.end_open_calls()
        if isinstance(end, PromptStop) and end.message:
            self._outflow.send(self.id, TextChunk(f"{effect.turn}-end", end.message))
        usage = turn_usage(self._used_before, self._state.total_usage)
        self._outflow.flush()
        return usage

    # Methods for `ServerRequestRunner`

    def may_ask(self, thread_id: str, turn_id: str | None) -> bool:
        return turn_id is None or self.driver.machine.may_ask(turn_id, below=thread_id != self.id)

    def announce_tool_call(self, call: ToolCallAnnounced) -> None:
        """Send a tool call now, before the question that refers to it."""
        self._state.now = monotonic()
        self.send_events(announce(self._state, call))
        self._outflow.flush()

    def show_settled(self, tool_call_id: str, *, accepted: bool) -> None:
        cancelled = self.driver.machine.cancelled
        self.thread.call_in_order(
            lambda: self.send_events(
                approval_settled(self._state, tool_call_id, accepted=accepted, cancelled=cancelled)
            )
        )

    def tool_call_ended(self, tool_call_id: str, *, ended_well: bool) -> None:
        self.thread.call_in_order(
            lambda: self.send_events(call_ended(self._state, tool_call_id, ended_well=ended_well))
        )

    @contextmanager
    def waiting_for_person(self, thread_id: str, turn_id: str | None) -> Iterator[None]:
        question_turn = turn_id or ""  # "": a turn of unknown id; for `asking`, None is no turn
        with self.driver.asking(question_turn), self.sub_agents.waiting(thread_id):
            yield

    def say(self, text: str) -> None:
        self.thread.call_in_order(lambda: self._outflow.send(self.id, make_notice(text)))

    # Methods of `ThreadHost`, for `ShownThread`

    def on_arrival(self, method: str, params: JsonValue) -> None:
        """Follow the sub-agents that a notification names."""
        self.sub_agents.follow_named(self.id, method, params)

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        run = self.driver.machine.run
        event = turn_event(method, params, None if run is None else run.turn)
        if event is not None:
            self.driver.handle(event)
        if is_unloaded(method, params):
            self._on_unloaded()

    def send_events(self, events: SessionEvents) -> None:
        for event in events:
            self._outflow.send(self.id, event)
            self.sub_agents.note_event(event)

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Return False for notifications of an answered or stale turn."""
        turn_id = turn_of(params)
        if turn_id is not None and turn_id in self.driver.machine.stale:
            if method == "turn/completed":
                self._state.turn_errors.pop(turn_id, None)
                self.driver.turn_ended(turn_id, PromptStop("cancelled"))
            return False
        if not (method.startswith("item/") and self.driver.machine.is_answered(turn_id)):
            return True
        # A background command may end after its turn was answered: its end is still shown.
        item_id = item_of(params) if method == "item/completed" else None
        if item_id is None or tool_call_id(item_id) not in self._state.background:
            return False
        asyncio.get_running_loop().call_soon(self.send_state)  # after this notification is shown
        return True

    def may_show_pieces(self, turn_id: str) -> bool:
        machine = self.driver.machine
        return not (turn_id in machine.stale or machine.is_answered(turn_id))

    def thread_gone(self, error: TransportError | None) -> None:
        why = "it has ended" if error is None else str(error)
        self.loss = f"the Codex of this session is gone; start a new session ({why})"
        self.driver.note_lost(error)

    def turn_ended(self, turn: Turn) -> None:
        self.driver.turn_ended(turn.id, end_of_shown_turn(self._state, turn))

    def final_error(self, params: ErrorNotification) -> None:
        run, turn_id = self.driver.machine.run, params.turn_id
        if run is None or run.turn not in (None, turn_id):
            return
        if not run.has_begun(turn_id):
            self.driver.turn_ended(turn_id, failure(params.error))

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        """Fail the turn, because its prompt must return."""
        turn_id = turn_of(params)
        if turn_id is not None:
            message = f"Codex ended the turn in a way that could not be read: {problem}"
            self.driver.turn_ended(turn_id, PromptFailure(INTERNAL_ERROR, message, {}))
