"""One session over the network, whose clients come and go, and its journal of events.

`NetworkSession` is the `SessionClient` of its session: it sends updates and questions to the
connection that shows the session now. A session that is *kept* has no connection: its updates go to
the journal and its questions wait, until a connection shows the session again and gets both. A
question takes one answer, from the connection that was asked last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio

from codex_acp.adapter.session.driver import PromptResult
from codex_acp.errors import ConnectionClosed, RpcError, TransportError
from codex_acp.mapping import events
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.client import Client
    from codex_acp.adapter.session_client import Asks
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.jsonrpc.message import RequestId
    from codex_acp.routing.ledger import OutcomeCancelled, Selected


logger = logging.getLogger(__name__)

T = TypeVar("T")

_STATES: Final = (events.CommandsChanged, events.StateChanged, events.UsageChanged)
"""Events of which only the last matters; the answer to a load does not contain them."""

TAKEN_OVER: Final = events.Notice("info", "This session is now shown on another connection.")


class Mark(NamedTuple):
    """A moment of a session: the turn that runs, and the journal's end."""

    turn: object | None
    end: int


class NetworkSession:
    """A session of ``owner`` on ``agent``, shown to ``client``, which it outlives if ``kept``."""

    def __init__(self, owner: str, agent: CodexAgent, client: Client, *, kept: bool) -> None:
        self.owner = owner
        self.agent = agent
        self.kept = kept
        self.session_id = ""
        """Set once Codex has answered."""
        self.client: Client | None = client
        """The client that shows the session, if any."""
        self.questions: int = 0
        """Number of questions that wait for an answer."""
        self.journaled_turns: set[str | None] = set()
        """Ids of the turns whose events the journal has since the last `mark`."""
        self._last_client = client
        self._displaced: list[Client] = []
        """Earlier clients that have not been told yet that the turn of their time has ended."""
        self._questions_held = False
        """Whether questions wait although a client shows the session."""
        self._ended = False
        self._client_changed = asyncio.Event()
        self._waiting_questions: dict[anyio.CancelScope, tuple[Asks, int | None]] = {}
        """The open questions, each with its client's `Asks` and the request's id there."""
        self._prompts: set[asyncio.Task[PromptResult]] = set()
        self._journal = Journal()
        self._states: dict[type, events.SessionEvent] = {}

    # SessionClient

    @property
    def features(self) -> ClientFeatures:
        """Features of the client that shows the session, or showed it last."""
        return self._last_client.features

    @property
    def outflow(self) -> NetworkSession:
        """Return this object, which also queues the updates."""
        return self

    @property
    def asks(self) -> NetworkSession:
        """Return this object, which also asks the questions."""
        return self

    # Outgoing

    @property
    def client_gone(self) -> bool:
        """Whether no client will show the session again."""
        return self._ended or (self.client is None and not self.kept)

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """Never call back: a slow client must not pause Codex, which others use, too."""

    def send(self, session_id: str, event: events.SessionEvent) -> None:
        client = self.client
        if client is None:
            self._note_turns()
        if not self.has_sub_agent(session_id):  # Codex has a sub-agent's history
            turn = self._turn
            if isinstance(event, _STATES):
                self._states[type(event)] = event
            elif client is None or turn is not None:
                self._journal.add(event, turn, sent=client is not None)
        if client is not None:
            client.outflow.send(session_id, event)
        idle = isinstance(event, events.StateChanged) and event.state == "idle"
        if idle and session_id == self.session_id:
            # Earlier clients are told, too: in ACP v2 that ends their prompt.
            displaced, self._displaced = self._displaced, []
            for client in displaced:
                if client is not self.client and not client.gone:
                    client.outflow.send(session_id, event)
                    client.outflow.flush()

    def flush(self) -> None:
        """Write all queued updates, and forget the events of a finished turn."""
        if self.client is not None:
            self.client.outflow.flush()
            if self._turn is None:
                self._journal.clear()

    async def drained(self) -> None:
        if self.client is not None:
            await self.client.outflow.drained()

    # Asks

    @property
    def next_request_id(self) -> int | None:
        return None if self.client is None else self.client.asks.next_request_id

    async def request_permission(
        self, question: events.PermissionQuestion, on_request_id: Callable[[int | None], None]
    ) -> Selected | OutcomeCancelled:
        """Ask for a permission, again on each connection that shows the session next."""
        return await self._ask(
            lambda asks: asks.request_permission(question, on_request_id), on_request_id
        )

    async def elicitation_create(
        self, params: dict[str, Any], on_request_id: Callable[[int | None], None] | None = None
    ) -> dict[str, Any]:
        """Ask for input; a client that cannot show the question declines it unasked."""
        mode = "elicitation_url" if params["mode"] == "url" else "elicitation_form"
        return await self._ask(lambda asks: asks.elicitation_create(params), on_request_id, mode)

    def withdraw(self, request_id: RequestId | None) -> None:
        for asks, asked in self._waiting_questions.values():
            if asked == request_id:
                asks.withdraw(request_id)

    def elicitation_complete(self, elicitation_id: str) -> None:
        if self.client is not None:
            self.client.asks.elicitation_complete(elicitation_id)

    async def _ask(
        self,
        ask: Callable[[Asks], Awaitable[T]],
        on_request_id: Callable[[int | None], None] | None,
        needed: str | None = None,
    ) -> T:
        """Ask each client that shows the session; return the answer of the last."""
        self.questions += 1
        try:
            while True:
                client = self.client
                if client is None or client.gone or self._questions_held:
                    if self._ended or not self.kept:
                        raise ConnectionClosed("nobody shows this session any more")
                    await self._client_changed.wait()
                    continue
                if needed is not None and not getattr(client.features, needed):
                    msg = "the client that shows the session now cannot show this question"
                    raise ConnectionClosed(msg)
                with anyio.CancelScope() as scope:
                    request_id = client.asks.next_request_id
                    self._waiting_questions[scope] = (client.asks, request_id)
                    if on_request_id is not None:
                        on_request_id(request_id)
                    try:
                        return await ask(client.asks)
                    except TransportError:
                        if not self.kept or not client.gone:
                            raise
                    finally:
                        del self._waiting_questions[scope]
                logger.info("a question of session %s has to be asked again", self.session_id)
        finally:
            self.questions -= 1

    def _wake(self) -> None:
        changed, self._client_changed = self._client_changed, asyncio.Event()
        changed.set()

    def _cancel_questions(self) -> None:
        """Cancel the open requests to the client: a late answer settles nothing."""
        for scope in tuple(self._waiting_questions):
            scope.cancel()

    # Its connections

    async def prompt(
        self, client: Client, run: Callable[[], Awaitable[PromptResult]]
    ) -> PromptResult:
        """Run a prompt for ``client``. It goes on if the connection ends, and is cancelled if the
        client gives the request up.
        """
        preconditions, session_id = self.agent.preconditions, self.session_id
        scope = preconditions.waits(session_id)  # a cancel may be right behind it

        async def begin() -> PromptResult:
            return (
                PromptResult(events.PromptStop("cancelled")) if scope.cancel_called else await run()
            )

        task = asyncio.ensure_future(begin())
        task.add_done_callback(lambda _: preconditions.goes_on(session_id, scope))
        self._prompts.add(task)
        task.add_done_callback(self._prompts.discard)
        task.add_done_callback(partial(self._prompt_ended, client))
        try:
            return await shielded(task)
        except asyncio.CancelledError:
            if not client.gone:
                task.cancel()
                await asyncio.wait({task})
                _ = task.cancelled() or task.exception()
            raise

    def _prompt_ended(self, client: Client, task: asyncio.Task[PromptResult]) -> None:
        """Tell the client that shows the session now of a prompt that an earlier client sent."""
        elsewhere = client.gone or self.client not in (client, None)
        if task.cancelled() or self._ended or not elsewhere:
            return
        error = task.exception()
        if error is None:
            how = f"has ended: {task.result().stop.reason}"
        else:
            how = f"has failed: {error.message if isinstance(error, RpcError) else error}"
        severity: events.Severity = "info" if error is None else "error"
        self.send(
            self.session_id, events.Notice(severity, f"The prompt of an earlier connection {how}")
        )
        self.flush()

    @property
    def busy(self) -> bool:
        """Whether a turn or question is open, so that the session cannot be opened anew."""
        session = self._session
        return self.questions > 0 or (
            session is not None and (session.busy or session.turn is not None)
        )

    def mark(self) -> Mark:
        """Return the turn that runs now and the journal's end, for a client that will be attached.

        From now on the journal has all events of the turns in ``journaled_turns``.
        """
        self.journaled_turns = set()
        self._note_turns()
        return Mark(self._turn, self._journal.end)

    def _note_turns(self) -> None:
        session = self._session
        if session is not None:
            self.journaled_turns |= session.prompts.turn_ids

    def detach_for(self, client: Client) -> Client | None:
        """Detach the present client, and tell it so, since ``client`` will show the session.

        Return the detached client.
        """
        before, self.client = self.client, None
        if before is not None and before is not client:
            before.outflow.send(self.session_id, TAKEN_OVER)
            before.outflow.flush()
            if self.busy and before not in self._displaced:
                self._displaced.append(before)
        self._cancel_questions()
        return before

    def attach(self, client: Client, history: Mark | None) -> None:
        """Show the session to ``client``, and send the events that the client does not know yet.

        A client that has the ``history`` until a mark gets all events of the turn that ran then,
        and all later ones; without history, it gets those that no client has had. Questions wait
        for `resume_questions`.
        """
        turn = self._turn
        if history is None:
            kept = self._journal.unheard(turn)
        else:
            kept = self._journal.since(history.end, history.turn)
        self.client = self._last_client = client
        self._questions_held = True
        if self._session is not None:
            self._session.shown_to(client.features)
        for event in (*self._dropped_notice(), *self._states.values(), *kept):
            client.outflow.send(self.session_id, event)
        client.outflow.flush()
        self._journal.heard(turn)

    def resume_questions(self) -> None:
        """Ask the attached client the questions that wait."""
        self._questions_held = False
        self._wake()

    def reopen_for(self, client: Client, *, whole: bool) -> list[events.SessionEvent]:
        """Attach ``client``, for which the session is opened anew.

        Return the kept events to send behind the answer; if ``whole``, only those that the history
        does not contain.
        """
        kept = self._journal.unheard_notices() if whole else self._journal.unheard(None)
        kept = [*self._dropped_notice(), *kept]
        self.client = self._last_client = client
        self._questions_held = False
        self._journal.clear()
        self._wake()
        return kept

    def detach(self, client: Client) -> bool:
        """Detach ``client``; return whether it showed the session."""
        if self.client is not client:
            return False
        self.client = None
        self._cancel_questions()
        return True

    def end(self) -> None:
        """End the session: questions that wait fail."""
        self._ended = True
        self._wake()

    def has_sub_agent(self, session_id: str) -> bool:
        """Return whether an id is that of a sub-agent of this session."""
        session = self._session
        return session is not None and session_id in session.sub_agents

    def has_started(self, session_id: str) -> bool:
        """Return whether Codex says that this session started a sub-agent."""
        session = self._session
        return session is not None and session.sub_agents.has_started(session_id)

    def _dropped_notice(self) -> Sequence[events.SessionEvent]:
        count = self._journal.dropped
        if not count:
            return ()
        title = f"{count} earlier updates were too much to be kept while nobody listened."
        return (events.Notice("warning", title),)

    @property
    def _session(self) -> Session | None:
        opened = self.agent.parts[0].open_session(self.session_id)
        return None if opened is None else opened.session

    @property
    def _turn(self) -> object | None:
        session = self._session
        return None if session is None else session.turn


MAX_SIZE: Final = 2 * 1024 * 1024
"""Characters of one session: some hundred pages of text, or the outputs of many commands."""

_CHUNKS: Final = (events.TextChunk, events.ThoughtChunk)


class _Entry:
    """A kept event; pieces of the same text are joined to it."""

    __slots__ = ("event", "pieces", "sent", "size", "turn")

    def __init__(self, event: events.SessionEvent, turn: object | None, *, sent: bool) -> None:
        self.event = event
        self.turn = turn
        self.sent = sent
        self.pieces: list[str] = []
        self.size = len(event.text) if isinstance(event, _CHUNKS) else len(repr(event))

    @property
    def joined(self) -> events.SessionEvent:
        """Return the event with all of its text."""
        return events.with_pieces(self.event, self.pieces)


class Journal:
    """The events of the turn that runs, and of the time without a client, at most ``max_size``.

    They are kept as session events, so that each client gets them in its own version of ACP. Pieces
    of one text are joined; of a tool call's unseen states only the last is kept. Beyond the size
    the oldest events are dropped and counted. ``turn`` is one object as long as a turn runs.
    """

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._calls: dict[str, int] = {}
        """Number of the newest change of each tool call."""
        self._number = 0
        self._size = 0
        self.dropped: int = 0
        """Number of events that did not fit."""

    def add(self, event: events.SessionEvent, turn: object | None, *, sent: bool) -> None:
        """Keep an event; ``sent`` says whether a client has had it."""
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
        """Forget all events: no turn runs, and a client has had them."""
        self._entries.clear()
        self._calls.clear()
        self._size = self.dropped = 0

    @property
    def end(self) -> int:
        """The number of the next event, for `since`."""
        return self._number

    def since(self, end: int, turn: object | None) -> list[events.SessionEvent]:
        """Return all events of a turn, and those behind an earlier `end`."""
        return [
            entry.joined
            for number, entry in self._entries.items()
            if number >= end or (turn is not None and entry.turn == turn)
        ]

    def unheard_notices(self) -> list[events.SessionEvent]:
        """Return the notices that no client has had, which no history contains."""
        return [
            entry.joined
            for entry in self._entries.values()
            if not entry.sent and isinstance(entry.event, events.Notice)
        ]

    def unheard(self, turn: object | None) -> list[events.SessionEvent]:
        """Return the events that no client has had, and the tool calls of the turn that runs."""
        calls = (events.ToolCallAnnounced, events.ToolCallChanged)
        return [
            entry.joined
            for entry in self._entries.values()
            if not entry.sent
            or (turn is not None and entry.turn == turn and isinstance(entry.event, calls))
        ]

    def heard(self, turn: object | None) -> None:
        """Note that a client has had all events; keep only those of the turn that runs."""
        for number, entry in list(self._entries.items()):
            entry.sent = True
            if turn is None or entry.turn != turn:
                self._remove(number)
        self.dropped = 0

    def _append(self, entry: _Entry) -> None:
        event = entry.event
        if isinstance(event, events.ToolCallChanged):
            older = self._calls.get(event.id)
            if older is not None:
                found = self._entries[older]
                alike = (found.turn, found.sent) == (entry.turn, entry.sent)
                if alike and events.replaces(event, found.event):
                    self._remove(older)
            self._calls[event.id] = self._number
        self._entries[self._number] = entry
        self._number += 1
        self._size += entry.size

    def _remove(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.size
        if (
            isinstance(entry.event, events.ToolCallChanged)
            and self._calls.get(entry.event.id) == number
        ):
            del self._calls[entry.event.id]
