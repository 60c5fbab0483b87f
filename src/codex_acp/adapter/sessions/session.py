"""One ACP session: a Codex thread, its prompts, and the updates that its notifications cause.

Owns the mapping's memory of the session. How prompts run and end is `SessionDriver`'.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.adapter.command_results import Says, StartsTurn
from codex_acp.adapter.prompts.plan_review import MESSAGE, PlanMode, PlanQuestion
from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.prompts.turn_events import item_of, turn_event, turn_of
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.driver import (
    LocalReply,
    NotTaken,
    PromptResult,
    SessionDriver,
    TurnWork,
)
from codex_acp.adapter.sessions.activity import stop_command
from codex_acp.adapter.sessions.opening_errors import not_open
from codex_acp.adapter.sessions.prompt_message import prompt_message
from codex_acp.adapter.sessions.shown_thread import ShownThread
from codex_acp.adapter.sub_agents import SubAgents
from codex_acp.codex.connection.notification_router import is_unloaded
from codex_acp.errors import RpcError, TransportError
from codex_acp.jsonrpc.message import AGENT_LOST, INTERNAL_ERROR, JsonValue
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    PromptEnd,
    PromptFailure,
    PromptStop,
    PromptTaken,
    StateChanged,
    TextChunk,
    TitleChanged,
    tool_call_id,
)
from codex_acp.mapping.messages import notice_of
from codex_acp.mapping.running_calls import announce, approval_settled, call_ended
from codex_acp.mapping.session import end_of_turn, prompt_title, turn_usage
from codex_acp.mapping.state import SessionState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.server.held_notifications import HeldNotifications
    from codex_acp.adapter.session_client import Outgoing
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.adapter.slash_commands import SessionCommands
    from codex_acp.codex._generated.models import TokenUsageBreakdown, Turn, UserInput
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping import events
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.events import Activity
    from codex_acp.routing.changes import Looks


class Session:
    """A thread on one app-server, whose notifications it hears once it is told to `follow`.

    ``spawn`` starts a task that may outlive a request. ``settle`` withdraws what is asked of the
    person for a turn, or for all of them with what sub-agents do. ``roots`` are its directories,
    ``may_be_below`` and ``earlier`` are for its `SubAgents`.
    ``state`` is what the mapping remembers of a replay, which goes on here. All methods run on the
    event loop's thread.
    """

    def __init__(
        self,
        session_id: str,
        codex: AppServerConnection,
        outflow: Outgoing,
        spawn: Spawn,
        features: ClientFeatures | None = None,
        settle: Callable[[str | None], None] | None = None,
        *,
        state: SessionState | None = None,
        roots: Sequence[str] = (),
        may_be_below: Callable[[str], bool],
        earlier: Callable[[str], list[tuple[str, JsonValue]]] = lambda _: [],
    ) -> None:
        self.id = session_id
        self.commands: SessionCommands | None = None
        """Commands that a prompt may be instead of a message; None: every prompt is a message."""
        self.ensure_git_consent: Callable[[], Awaitable[None]] | None = None
        """Asks before a turn whether git may run what the directory names. Raises RpcError."""
        self.lost: str | None = None
        """Why nothing can be asked of Codex any more; None: it can."""
        self.on_unloaded: Callable[[], None] = lambda: None
        """Called when Codex says that it has the thread loaded no more."""
        self._stopping = False
        self._codex = codex
        self._settle = settle
        self._outflow = outflow
        self._state = state or SessionState(features or ClientFeatures())
        self._state.roots = tuple(roots)
        self.thread: ShownThread = ShownThread(codex, session_id, self._state, self)
        """Shows its notifications."""
        self.sub_agents: SubAgents = SubAgents(
            session_id, codex, outflow, self._state, say=self.say,
            may_note=lambda: self.prompts.running,
            may_be_below=may_be_below, earlier=earlier,
        )  # fmt: skip
        self._used_before: TokenUsageBreakdown | None = None
        self._calls = TurnCalls(codex, session_id)
        self.prompts: SessionDriver = SessionDriver(self._calls, self, spawn)
        self.plan_mode: PlanMode | None = None
        """Known when the client knows the session."""
        self._plan: PlanQuestion | None = None
        """Asked last."""
        self._stale, self._answered = self.prompts.stale, self.prompts.answered_turns
        self.after_read: Callable[[], None] = self.prompts.note_activity
        """Called after each read that had something for this thread."""

    # What the client asks for.

    def begin(self, early: EarlyTurn) -> None:
        """The turn of its first prompt was asked for before; `prompt` waits for its end."""
        self.prompts.begin(early, lambda message_id: self._show(message_id, early.message))

    async def prompt(
        self,
        prompt: Sequence[Block],
        on_accepted: Callable[[str], None] | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> PromptResult:
        """Run one prompt and return how it ended; all of its updates are sent before.

        ``on_accepted`` is called with the message's id when Codex has taken it. ``early`` is what
        has begun it.

        While another one runs it is steered into that one's turn, where Codex allows it, and ends
        with it; else it waits, unless it ``joins`` (NothingRuns).

        Raises RpcError: -32602 for content that cannot be sent, -32002 while the session is being
        closed, -32600 when too many wait, -32603 when the turn failed or Codex is gone; NotTaken if
        that was so before it had read anything of the prompt.
        """
        begun = self.prompts.has_begun(early)
        if self._stopping and not begun:
            raise not_open(self.id)
        if self.lost is not None and not begun:
            raise NotTaken(INTERNAL_ERROR, self.lost, {"reason": AGENT_LOST})
        end, usage, unread = await self.prompts.run(
            lambda: self._work(prompt),
            lambda message_id: self._show(message_id, prompt),
            on_accepted,
            joins=joins,
            early=early,
        )
        self._outflow.flush()
        if isinstance(end, PromptFailure):
            raise (NotTaken if unread else RpcError)(end.code, end.message, end.data)
        return PromptResult(end, usage)

    def cancel(self, *, closing: bool = False) -> None:
        """End the running prompt and those that wait: interrupt the turn, and wait only so long."""
        self.prompts.handle(ev.Cancelled(closing))

    async def stop_command(self, call_id: str) -> bool:
        """Stop a command that runs in the background."""
        return await stop_command(self._state, self._calls, call_id)

    @property
    def busy(self) -> bool:
        """Whether a prompt is not answered yet."""
        return self.prompts.busy

    @property
    def turn(self) -> object | None:
        """Return what runs, as `SessionDriver.turn` does."""
        return self.prompts.turn

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return Codex's remarks about the machine."""
        return tuple(self._state.remarks)

    def shown_to(self, features: ClientFeatures) -> None:
        """From now on it is shown to a client that can do this."""
        self._state.client = features
        self.sub_agents.shown_to_another()

    async def stop(self) -> None:
        """As `cancel`, and wait until every prompt is answered, and no sub-agent works.

        It takes no prompt any more, unless this is given up.
        """
        self._stopping = True
        try:
            self.cancel(closing=True)
            await self.prompts.wait_idle()
            await self.sub_agents.settled()
        except BaseException:
            self._stopping = False
            self.prompts.handle(ev.Reopened())
            raise

    def detach(self) -> None:
        """Hear and send nothing more of the thread."""
        self.thread.drop()
        self.sub_agents.detach()

    def follow(self, held: HeldNotifications | None) -> None:
        """Hear what was held of the thread, then what comes from now on, and the end of all."""
        self.thread.follow(held)

    def move(
        self, codex: AppServerConnection, settle: Callable[[str | None], None] | None = None
    ) -> None:
        """Go on with the same thread on another app-server, on which it has been resumed.

        It hears nothing of it until it is told to `follow`.
        """
        self.thread.leave()
        self._codex = self._calls.codex = self.thread.codex = codex
        self.sub_agents.move(codex)
        self._settle = settle
        self.lost = None
        self.prompts.handle(ev.Moved())

    async def _work(self, prompt: Sequence[Block]) -> TurnWork | LocalReply:
        """Return the work that a prompt asks for. Raises RpcError; nothing has happened then."""
        command = None if self.commands is None else await self.commands.find(prompt)
        message: list[UserInput] | None
        match command:
            case Says():
                if command.starts_turns:
                    await self._git_consent()
                return LocalReply(lambda: self._speak(command))
            case StartsTurn():
                await self._git_consent()
                message = command.message
                if command.first is not None:
                    await command.first()
                if command.params is not None:
                    own = command.params
                    return TurnWork(command.method, lambda _: own, None)
                assert message is not None, "a command without params is a message"
            case None:
                await self._git_consent()
                message = await prompt_message(self._codex, self.id, prompt)
            case _:
                assert_never(command)
        content = message
        return TurnWork("turn/start", lambda mid: self._calls.start_params(content, mid), content)

    async def _git_consent(self) -> None:
        if self.ensure_git_consent is not None:
            await self.ensure_git_consent()

    def _show(self, message_id: str, prompt: Sequence[Block]) -> None:
        self._outflow.send(self.id, PromptTaken(message_id, prompt))
        title = None if self._state.titled else prompt_title(prompt)
        if title is not None:
            self._state.titled = True
            self._outflow.send(self.id, TitleChanged(title))

    async def _speak(self, command: Says) -> None:
        text = await command.run()
        if text:
            self._outflow.send(self.id, TextChunk(uuid4().hex, text))

    # What its prompts need: see `PromptHost`.

    @property
    def client_gone(self) -> bool:
        return self._outflow.client_gone

    def note_message_id(self, message_id: str) -> None:
        """Note a message that the client knows: Codex's echo of it is not shown."""
        self._state.own_messages[message_id] = None

    def settle_questions(self, turn_id: str | None) -> None:
        """Withdraw the person's questions of a turn; None: all, and those of sub-agents."""
        if self._settle is not None:
            self._settle(turn_id)

    def prepare_turn(self) -> None:
        """Note that Codex is about to be asked for a turn."""
        self._used_before = self._state.total_usage
        self._state.proposed_plan = None

    @property
    def has_plan(self) -> bool:
        """Whether the turn that ends now proposed a plan that the person should confirm."""
        mode = self.plan_mode
        return self._state.proposed_plan is not None and mode is not None and mode.is_on()

    def show_plan_question(self) -> None:
        mode, plan = self.plan_mode, self._state.proposed_plan
        assert mode is not None, "a plan was proposed in it"
        assert plan is not None, "it was proposed"
        self._plan = PlanQuestion(self.id, plan, mode)
        self.tell([self._plan.announced])

    async def ask_about_plan(self) -> bool:
        assert self._plan is not None, "it was shown"
        return await self._plan.approved()

    def end_plan_question(self, approved: bool | None) -> None:
        """Show how the question about the plan ended; None: withdraw the question."""
        assert self._plan is not None, "it was asked about"
        self.tell([self._plan.ended(approved)])

    async def leave_plan_mode(self) -> TurnWork:
        """Leave plan mode; return the turn that carries the plan out. Raises CodexAcpError."""
        assert self.plan_mode is not None, "a plan was proposed in it"
        await self.plan_mode.leave()
        work = await self._work([TextBlock(MESSAGE)])
        assert isinstance(work, TurnWork), "it is no command"
        return work

    def show_plan_prompt(self, message_id: str) -> None:
        self._show(message_id, [TextBlock(MESSAGE)])

    @property
    def state(self) -> StateChanged:
        """Return its activity."""
        return StateChanged(self.prompts.machine.activity, background=list(self._state.background))

    def tell_state(self) -> None:
        """Say what it is doing, whatever was said before."""
        self._outflow.send(self.id, self.state)

    def show_activity(
        self, now: Activity, end: PromptEnd | None, usage: dict[str, JsonValue] | None
    ) -> None:
        """Send the activity of the session; ``end``: why nothing runs any more."""
        background = list(self._state.background)
        self._outflow.send(self.id, StateChanged(now, end, usage=usage, background=background))
        if now == "idle":
            self._outflow.flush()

    def end_turn(self, turn: ev.EndTurn) -> dict[str, JsonValue] | None:
        """Leave nothing open, tell the person why it has ended, and return the tokens it used."""
        end = turn.end
        self.thread.close_open()
        if isinstance(end, PromptStop) and end.message:
            self._outflow.send(self.id, TextChunk(f"{turn.turn}-end", end.message))
        usage = turn_usage(self._used_before, self._state.total_usage)
        self._outflow.flush()
        return usage

    # What the routing of server requests asks and shows: see `SessionProtocol`.

    def may_ask(self, thread_id: str, turn_id: str | None) -> bool:
        return turn_id is None or self.prompts.machine.may_ask(turn_id, below=thread_id != self.id)

    async def wait_shown(self) -> None:
        await self.thread.wait_shown()

    @property
    def roots(self) -> Sequence[str]:
        return self._state.roots

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        return await self.thread.look(wanted)

    def announce_tool_call(self, call: events.ToolCallAnnounced) -> None:
        """The tool call comes before the question that refers to it."""
        self._state.now = monotonic()
        self.tell(announce(self._state, call))
        self._outflow.flush()

    def approval_settled(self, tool_call_id: str, *, accepted: bool) -> None:
        how = {"accepted": accepted, "cancelled": self.prompts.machine.cancelled}
        self.thread.put(lambda: self.tell(approval_settled(self._state, tool_call_id, **how)))

    def tool_call_ended(self, tool_call_id: str, *, ended_well: bool) -> None:
        self.thread.put(
            lambda: self.tell(call_ended(self._state, tool_call_id, ended_well=ended_well))
        )

    @contextmanager
    def waiting_for_person(self, thread_id: str, turn_id: str | None) -> Iterator[None]:
        with self.prompts.asking(turn_id or ""), self.sub_agents.waiting(thread_id):
            yield

    def say(self, text: str) -> None:
        self.thread.put(lambda: self._outflow.send(self.id, notice_of(text)))

    # What Codex reports: see `ThreadOwner`.

    def on_arrival(self, method: str, params: JsonValue) -> None:
        """Follow a sub-agent at once."""
        self.sub_agents.hear(self.id, method, params)

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        event = turn_event(method, params, self.prompts.running_turn)
        if event is not None:
            self.prompts.handle(event)
        if is_unloaded(method, params):
            self.on_unloaded()

    def tell(self, told: events.SessionEvents) -> None:
        for event in told:
            self._outflow.send(self.id, event)
            if self.sub_agents.outlets:
                self.sub_agents.told(event)

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Nothing of a turn whose prompt is answered or given up."""
        turn_id = turn_of(params)
        if turn_id in self._stale:
            if method == "turn/completed" and turn_id is not None:  # its end is noted
                self._state.turn_errors.pop(turn_id, None)
                self.prompts.turn_ended(turn_id, PromptStop("cancelled"))
            return False
        if not (method.startswith("item/") and self.prompts.is_answered(turn_id)):
            return True
        item_id = item_of(params) if method == "item/completed" else None
        if item_id is None or tool_call_id(item_id) not in self._state.background:
            return False
        asyncio.get_running_loop().call_soon(self.tell_state)  # behind what is being shown now
        return True

    def may_show_pieces(self, turn_id: str) -> bool:
        if turn_id in self._stale:
            return False
        return turn_id not in self._answered or not self.prompts.is_answered(turn_id)

    def thread_gone(self, error: TransportError | None) -> None:
        why = "it has ended" if error is None else str(error)
        self.lost = f"the Codex of this session is gone; start a new session ({why})"
        self.prompts.lost(error)

    def turn_ended(self, turn: Turn) -> None:
        last_error = self._state.turn_errors.pop(turn.id, None)
        self.prompts.turn_ended(turn.id, end_of_turn(turn, last_error))

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        """It is still an end, so the prompt must return."""
        turn_id = turn_of(params)
        if turn_id is not None:
            message = f"Codex ended the turn in a way that could not be read: {problem}"
            self.prompts.turn_ended(turn_id, PromptFailure(INTERNAL_ERROR, message, {}))
