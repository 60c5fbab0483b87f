"""One session over the network, whose clients come and go, and the journal of its events.

`NetworkSession` is the `SessionClient` of its session: it sends updates and questions to the
connection that shows the session now. While no connection shows it, a session is *kept*: the
journal keeps its updates and its questions wait for the next connection. A question takes one
answer, from the connection that was asked last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio

from codex_acp.adapter.session.driver import PromptResult
from codex_acp.errors import ConnectionClosed, RpcError, TransportError
from codex_acp.mapping import events
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.client import Client
    from codex_acp.adapter.session_client import OnRequestId, PromptSender, Questioner
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.jsonrpc import RequestId
    from codex_acp.routing.ledger import OutcomeCancelled, Selected


logger = logging.getLogger(__name__)

T = TypeVar("T")

_STATES: Final = (events.CommandsChanged, events.StateChanged, events.UsageChanged)
"""Types of events of which a client needs the last event alone. The answer to a load has none of
these events."""

_CALLS: Final = (events.ToolCallAnnounced, events.ToolCallChanged)

TAKEN_OVER: Final = events.Notice("info", "This session is now shown on another connection.")

MAX_SIZE: Final = 2 * 1024 * 1024
"""Characters of one journal: some hundred pages of text, or the outputs of many commands."""

_CHUNKS: Final = (events.TextChunk, events.ThoughtChunk)


class JournalPosition(NamedTuple):
    """A position in a journal: the turn that ran at that time, and the number of the next event."""

    turn: object | None
    next_number: int


class _Entry:
    """A kept event, with the later pieces of its text. ``sent``: a client has received it."""

    __slots__ = ("event", "pieces", "sent", "size", "turn")

    def __init__(self, event: events.SessionEvent, turn: object | None, *, sent: bool) -> None:
        self.event = event
        self.turn = turn
        self.sent = sent
        self.pieces: list[str] = []
        self.size = len(event.text) if isinstance(event, _CHUNKS) else len(repr(event))

    @property
    def joined(self) -> events.SessionEvent:
        """The event with its whole text."""
        return events.with_pieces(self.event, self.pieces)


class Journal:
    """The events of the turn that runs, and of the time without a client.

    The events are independent of the version of ACP, so each client gets them in its version. The
    journal joins the pieces of a text. Of the changes of a tool call that no client has received,
    the journal keeps the last change. Above ``max_size`` characters the journal drops and counts
    the oldest events. A ``turn`` is any object that stays equal as long as the turn runs."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._calls: dict[str, int] = {}
        """Tool call → the number of the entry with its newest change."""
        self.next_number: int = 0
        self._size = 0
        self.dropped: int = 0
        """Number of events that were dropped since a client last received all events."""

    def add(self, event: events.SessionEvent, turn: object | None, *, sent: bool) -> None:
        """Keep an event; ``sent``: a client has received the event."""
        last = next(reversed(self._entries.values()), None)
        text = None
        if last is not None and (last.turn, last.sent) == (turn, sent):
            text = events.continued_text(event, last.event)
        if last is not None and text is not None:
            last.pieces.append(text)
            last.size += len(text)
            self._size += len(text)
        else:
            self._append(_Entry(event, turn, sent=sent))
        while self._size > self._max_size and self._entries:
            self._remove(next(iter(self._entries)))
            self.dropped += 1

    def clear(self) -> None:
        """Forget all events: no turn runs, and a client has received the events."""
        self._entries.clear()
        self._calls.clear()
        self._size = self.dropped = 0

    def since(self, position: JournalPosition) -> list[events.SessionEvent]:
        """Return all events of the turn that ran at ``position``, and all later events."""
        first, turn = position.next_number, position.turn
        return [
            entry.joined
            for number, entry in self._entries.items()
            if number >= first or (turn is not None and entry.turn == turn)
        ]

    def unsent_notices(self) -> list[events.SessionEvent]:
        """Return the notices that no client has received: no history contains notices."""
        return [
            entry.joined
            for entry in self._entries.values()
            if not entry.sent and isinstance(entry.event, events.Notice | events.PromptEnded)
        ]

    def unsent(self, turn: object | None) -> list[events.SessionEvent]:
        """Return the events that no client has received, and the tool calls of ``turn``."""
        return [
            entry.joined
            for entry in self._entries.values()
            if not entry.sent
            or (turn is not None and entry.turn == turn and isinstance(entry.event, _CALLS))
        ]

    def mark_sent(self, turn: object | None) -> None:
        """Note that a client has received all events; forget all but the events of ``turn``."""
        for number, entry in list(self._entries.items()):
            entry.sent = True
            if turn is None or entry.turn != turn:
                self._remove(number)
        self.dropped = 0

    def _append(self, entry: _Entry) -> None:
        event = entry.event
        if isinstance(event, events.ToolCallChanged):
            number = self._calls.get(event.id)
            if number is not None:
                earlier = self._entries[number]
                alike = (earlier.turn, earlier.sent) == (entry.turn, entry.sent)
                if alike and events.replaces(event, earlier.event):
                    self._remove(number)
            self._calls[event.id] = self.next_number
        self._entries[self.next_number] = entry
        self.next_number += 1
        self._size += entry.size

    def _remove(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.size
        event = entry.event
        if isinstance(event, events.ToolCallChanged) and self._calls.get(event.id) == number:
            del self._calls[event.id]


def _call_of(event: events.SessionEvent) -> str:
    """Return the id of the tool call that an event is about; an empty text for other events."""
    if isinstance(event, events.TerminalOutput):
        return event.terminal_id
    return event.id if isinstance(event, _CALLS) else ""


class NetworkSession:
    """A session of ``owner`` on ``agent``, shown to ``client``. After the client's connection has
    ended, the session is kept for a time if ``outlives_client``, else closed."""

    def __init__(
        self, owner: str, agent: CodexAgent, client: Client, *, outlives_client: bool
    ) -> None:
        self.owner = owner
        self.agent = agent
        self.outlives_client = outlives_client
        self.session_id = ""
        """Set by `Registry.open`, once Codex has answered."""
        self.client: Client | None = client
        self.open_questions: int = 0
        """Number of questions that wait for an answer."""
        self.journaled_turns: set[str] = set()
        """Ids of the turns whose events the journal has since the last `begin_history`."""
        self._last_client = client
        self._reader: Client | None = None
        """The client that gets the history now. This client gets no other event before `attach`,
        which sends it the events that the journal has kept meanwhile."""
        self._earlier_clients: set[PromptSender] = set()
        """Earlier clients that must still get the next idle state of the session."""
        self._senders: list[PromptSender] = []
        """The sender of each prompt that has not ended."""
        self._questions_held = False
        """Whether questions wait although a client shows the session."""
        self._ended = False
        self._client_changed = asyncio.Event()
        """Set, and replaced, when a client is attached or the session ends."""
        self._sent_questions: dict[anyio.CancelScope, tuple[Questioner, int | None]] = {}
        """Scope of an open request to a client → its `Questioner`, and the request's id."""
        self._prompts: set[asyncio.Task[PromptResult]] = set()  # asyncio itself keeps no task
        self._journal = Journal()
        self._states: dict[type, events.SessionEvent] = {}
        """The last event of each type in `_STATES`."""

    # SessionClient

    @property
    def features(self) -> ClientFeatures:
        """Features of the client that shows the session, or showed it last."""
        return self._last_client.features

    @property
    def outflow(self) -> NetworkSession:
        return self

    @property
    def questioner(self) -> NetworkSession:
        return self

    # SessionOutflow

    @property
    def client_gone(self) -> bool:
        """Whether no client will show the session again."""
        return self._ended or (self.client is None and not self.outlives_client)

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """Ignore ``callback``: a slow client must not pause Codex, which others use, too."""

    def send(self, session_id: str, event: events.SessionEvent) -> None:
        client = self._listener
        keeps_all = client is None or self._reader is not None  # else only the turn that runs
        if keeps_all:
            self._note_turns()
        if not self.has_sub_agent(session_id):  # Codex stores the history of a sub-agent
            turn = self._running_turn
            if isinstance(event, _STATES):
                self._states[type(event)] = event
            elif keeps_all or turn is not None:
                self._journal.add(event, turn, sent=client is not None)
        if client is not None:
            client.outflow.send(session_id, event)
        if isinstance(event, events.StateChanged) and session_id == self.session_id:
            self._send_to_earlier(event)

    def _send_to_earlier(self, state: events.StateChanged) -> None:
        """Send the state to earlier clients: in ACP v2, the state shows the end of their prompts.
        Earlier clients have no open question, which alone requires an action."""
        if state.state == "requires_action":
            return
        for earlier in {*self._earlier_clients, *self._senders}:
            if earlier is not self.client and not earlier.gone:
                earlier.outflow.send(self.session_id, state)
                earlier.outflow.flush()
        if state.state == "idle":
            self._earlier_clients.clear()

    def flush(self) -> None:
        """Write the queued updates to the client; if no turn runs, clear the journal."""
        if self._listener is not None:
            self._listener.outflow.flush()
            if self._running_turn is None and self._reader is None:
                self._journal.clear()

    async def wait_drained(self) -> None:
        if self._listener is not None:
            await self._listener.outflow.wait_drained()

    @property
    def _listener(self) -> Client | None:
        """The client that gets the events now; None while the client reads the history first."""
        return None if self.client is self._reader else self.client

    # Questioner

    @property
    def next_request_id(self) -> int | None:
        return None if self.client is None else self.client.questioner.next_request_id

    async def request_permission(
        self, question: events.PermissionQuestion, on_request_id: OnRequestId
    ) -> Selected | OutcomeCancelled:
        """Ask for a permission, and ask again on each connection that takes the session over."""
        return await self._ask(
            lambda questioner: questioner.request_permission(question, on_request_id), on_request_id
        )

    async def elicitation_create(
        self, params: dict[str, Any], on_request_id: OnRequestId | None = None
    ) -> dict[str, Any]:
        """Ask for input. Raises ConnectionClosed if the client cannot show the question."""
        needs = "elicitation_url" if params["mode"] == "url" else "elicitation_form"
        return await self._ask(
            lambda questioner: questioner.elicitation_create(params), on_request_id, needs
        )

    def withdraw(self, request_id: RequestId | None) -> None:
        for questioner, sent_id in self._sent_questions.values():
            if sent_id == request_id:
                questioner.withdraw(request_id)

    def elicitation_complete(self, elicitation_id: str) -> None:
        if self.client is not None:
            self.client.questioner.elicitation_complete(elicitation_id)

    async def _ask(
        self,
        ask: Callable[[Questioner], Awaitable[T]],
        on_request_id: OnRequestId | None,
        feature: str | None = None,
    ) -> T:
        """Ask each client that shows the session, until one answers. ``feature`` names an attribute
        of `ClientFeatures` that the question needs."""
        self.open_questions += 1
        try:
            while True:
                client = self.client
                if client is None or client.gone or self._questions_held:
                    if self.client_gone:
                        raise ConnectionClosed("nobody shows this session any more")
                    await self._client_changed.wait()
                    continue
                if feature is not None and not getattr(client.features, feature):
                    problem = "the client that shows the session now cannot show this question"
                    raise ConnectionClosed(problem)
                with anyio.CancelScope() as scope:
                    request_id = client.questioner.next_request_id
                    self._sent_questions[scope] = (client.questioner, request_id)
                    if on_request_id is not None:
                        on_request_id(request_id)
                    try:
                        return await ask(client.questioner)
                    except TransportError:
                        if not self.outlives_client or not client.gone:
                            raise
                    finally:
                        del self._sent_questions[scope]
                logger.info("a question of session %s has to be asked again", self.session_id)
        finally:
            self.open_questions -= 1

    def _wake_questions(self) -> None:
        self._client_changed.set()
        self._client_changed = asyncio.Event()

    def _cancel_questions(self) -> None:
        """Cancel the open requests to the client, so that its late answers settle nothing."""
        for scope in tuple(self._sent_questions):
            scope.cancel()

    # The connections that show the session

    async def prompt(
        self, client: Client, run: Callable[[], Awaitable[PromptResult]]
    ) -> PromptResult:
        """Run a prompt for ``client``. Cancelling the request ends the prompt, unless the client
        has left or shows the session no more."""
        waiting_prompts, session_id = self.agent.opener.waiting_prompts, self.session_id
        # A session/cancel that comes before the task below begins cancels this scope.
        scope = waiting_prompts.open(session_id)

        async def begin() -> PromptResult:
            waiting_prompts.close(session_id, scope)
            if scope.cancel_called:
                return PromptResult(events.PromptStop("cancelled"))
            return await run()

        task = asyncio.ensure_future(begin())  # begins before it can be cancelled below
        self._prompts.add(task)
        task.add_done_callback(self._prompts.discard)
        try:
            return await shielded(task)
        except asyncio.CancelledError:
            if self.client is client and not client.gone:
                task.cancel()
                await asyncio.wait({task})
                _ = task.cancelled() or task.exception()  # else asyncio logs the exception
            raise

    async def await_prompt(
        self, prompt: Awaitable[PromptResult], sender: PromptSender | None
    ) -> PromptResult:
        assert sender is not None, "only the client that shows a session prompts it"
        self._senders.append(sender)
        end: events.PromptEnd | None = None
        try:
            result = await prompt
            end = result.stop
            return result
        except RpcError as error:
            end = events.PromptFailure(error.code, error.message, {})
            raise
        except asyncio.CancelledError:
            end = events.PromptStop("cancelled")
            raise
        finally:
            self._senders.remove(sender)
            sender_left = sender.gone or self.client not in (sender, None)
            if end is not None and sender_left and not self._ended:
                self.send(self.session_id, events.PromptEnded(end))
                self.flush()

    @property
    def busy(self) -> bool:
        """Whether a turn, a sub-agent's turn or a question is open, which forbids a reopening."""
        if self.open_questions > 0:
            return True
        session = self._session
        if session is not None and (
            session.driver.busy or session.driver.turn is not None or session.sub_agents.busy
        ):
            return True
        return self.session_id in self.agent.opener.waiting_prompts

    def begin_history(self, client: Client) -> JournalPosition:
        """Return the present end of the journal, for a client that gets the history now; pass the
        position to `attach`. From now on the journal has all events of `journaled_turns`."""
        self._reader = client
        if self.client is client:
            self._hold_questions()
        self.journaled_turns = set()
        self._note_turns()
        return JournalPosition(self._running_turn, self._journal.next_number)

    def _note_turns(self) -> None:
        """Add the ids of the turns that run to `journaled_turns`."""
        session = self._session
        if session is not None:
            self.journaled_turns |= session.driver.turn_ids

    @contextmanager
    def taken_over(self, client: Client) -> Iterator[None]:
        """Let the ``with`` block show the session to ``client``; then tell the earlier client. If
        the block fails, the earlier client shows the session as before."""
        earlier, last, journal = self.client, self._last_client, self._journal
        try:
            yield
        except BaseException:
            self._reader, self._last_client, self._journal = None, last, journal
            if self.client is not earlier or earlier is client:
                self.client = None
                if earlier is not None and not earlier.gone:
                    self.attach(earlier, history_end=None)
                self.resume_questions()
            raise
        if earlier is not None and earlier is not client:
            earlier.outflow.send(self.session_id, TAKEN_OVER)
            earlier.outflow.flush()
            if self.busy:
                self._earlier_clients.add(earlier)

    def _hold_questions(self) -> None:
        self._questions_held = True
        self._cancel_questions()

    def attach(self, client: Client, history_end: JournalPosition | None) -> None:
        """Show the session to ``client``, and send the kept events that the client lacks.

        A client that has the history up to ``history_end`` lacks the events of the turn that ran
        then, and all later events. Any other client lacks the events that no client has had.
        Questions wait for `resume_questions`."""
        turn = self._running_turn
        if history_end is None:
            kept = self._journal.unsent(turn)
        else:
            kept = self._journal.since(history_end)
        self.client = self._last_client = client
        self._reader = None
        self._hold_questions()
        commands = {} if self._session is None else self._session.change_client(client.features)
        shown = [*self._dropped_notice(), *self._states.values()]
        unplaced = dict(commands)
        for event in kept:  # a command, in its new form, takes the place of its first kept event
            call_id = _call_of(event)
            shown += unplaced.pop(call_id, ()) if call_id in commands else (event,)
        for event in (*shown, *(each for call in unplaced.values() for each in call)):
            client.outflow.send(self.session_id, event)
        client.outflow.flush()
        self._journal.mark_sent(turn)

    def resume_questions(self) -> None:
        """Ask the attached client the questions that wait."""
        self._questions_held = False
        self._wake_questions()

    def reopen_for(self, client: Client, *, history: bool) -> list[events.SessionEvent]:
        """Attach ``client``, for which the session is opened again; return the kept events to send
        after the opening. A client that gets the ``history`` needs only the kept notices."""
        kept = self._journal.unsent_notices() if history else self._journal.unsent(None)
        kept = [*self._dropped_notice(), *kept]
        self.client = self._last_client = client
        self._journal = Journal()
        return kept

    def detach(self, client: Client) -> bool:
        """Detach ``client``; return whether it showed the session."""
        if self.client is not client:
            return False
        self.client = None
        self._cancel_questions()
        return True

    def end(self) -> None:
        """End the session, so that waiting questions fail."""
        self._ended = True
        self._wake_questions()

    def has_sub_agent(self, session_id: str) -> bool:
        """Return whether an id belongs to a sub-agent of this session."""
        session = self._session
        return session is not None and session_id in session.sub_agents

    def has_started(self, session_id: str) -> bool:
        """Return whether, as Codex reports, this session started the sub-agent of this id."""
        session = self._session
        return session is not None and session.sub_agents.has_started(session_id)

    def _dropped_notice(self) -> Sequence[events.SessionEvent]:
        count = self._journal.dropped
        if not count:
            return ()
        title = f"{count} earlier updates were too much to be kept."
        return (events.Notice("warning", title),)

    @property
    def _session(self) -> Session | None:
        opened = self.agent.sessions.open_session(self.session_id)
        return None if opened is None else opened.session

    @property
    def _running_turn(self) -> object | None:
        session = self._session
        return None if session is None else session.driver.turn
