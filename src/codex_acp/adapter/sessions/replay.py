"""Replay a thread's history for ``session/load``, and show the thread's background commands.

The history is shown before any live event. Codex is asked for it page by page; each page is sent to
the client and dropped before the next page is read, so that a long history costs no more memory
than a short one. The mapping makes events of the items. Source: schema definitions
ThreadItemsListParams, ThreadTurnsListParams, ThreadReadParams.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.sessions.opening_errors import deleted_meanwhile, may_exist
from codex_acp.codex._generated import models
from codex_acp.codex._generated.methods import MODELS
from codex_acp.errors import CodexAcpError, ErrorReply, InvalidPayload, PeerError
from codex_acp.mapping.events import SessionEvent, SubAgentChanged, TitleChanged, UserMessage
from codex_acp.mapping.items import show_history_item
from codex_acp.mapping.messages import make_notice
from codex_acp.mapping.running_calls import show_running
from codex_acp.mapping.session import title_of
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import (
    MAX_SHOWN,
    MORE_THAN_SHOWN,
    SubAgentNotes,
    agents_named_by,
    as_event_of_sub_agent,
)
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue

logger = logging.getLogger(__name__)

ITEMS_PER_PAGE: Final = 50
"""Items of one page: an item can have a megabyte of output, and a message has a size limit."""

TURNS_PER_PAGE: Final = 5
"""Turns of one page: a turn can have hundreds of items."""

MAX_REASON: Final = 500
"""Characters of Codex's error message that are shown."""


_Entry: TypeAlias = "tuple[str, JsonValue]"
"""The id of a turn, and one of its items as raw JSON."""


class _Page(NamedTuple):
    """Items in the order in which they happened, and the cursor of the next page."""

    entries: list[_Entry]
    cursor: str | None


async def replay_history(
    codex: AppServerConnection,
    session_id: str,
    client: SessionClient,
    result: JsonValue,
    running_turn_id: str | None,
    has_turn: Callable[[str], bool] | None = None,
) -> SessionState:
    """Send all items of the thread and its title; return the mapping's state of the running turn
    (``running_turn_id`` None: no turn runs), or a new one. Each turn has a state of its own.

    ``result`` is the result of ``thread/resume``. ``has_turn`` is given if the session is already
    open over the network. It returns whether the session's journal has the events of a turn. Of a
    turn in the journal, only the user messages are sent. Raises TransportError if Codex or the
    client is gone, RpcError -32002 if the thread was deleted meanwhile.
    """
    outflow, features = client.outflow, client.features
    shown_turn_id, state = "", SessionState(features)
    sub_agents = SubAgentHistories(client, session_id)

    def send(event: SessionEvent) -> None:
        outflow.send(session_id, event)
        sub_agents.note_event(event)

    def show(item: models.ThreadItem, turn_id: str) -> None:
        nonlocal shown_turn_id, state
        if turn_id != shown_turn_id:
            shown_turn_id, state = turn_id, SessionState(features)
        in_journal = has_turn is not None and has_turn(turn_id)
        # Without the feature, a sub-agent's history is shown as lines of the sub-agent's tool call,
        # and the tool calls of a turn in the journal are not sent here.
        if features.subagents or not in_journal:
            sub_agents.learn(session_id, item)
        for event in show_history_item(state, item, turn_running=turn_id == running_turn_id):
            if isinstance(event, UserMessage) or not in_journal:
                send(event)

    newest = text_at(result, "itemsBackwardsCursor")
    missing = await read_history(codex, session_id, show, outflow.wait_drained, newest)
    await sub_agents.show(codex)
    if missing is not None:
        # With `has_turn`, the session is already open, and stays open without its history.
        if has_turn is None and not await may_exist(codex, session_id):
            raise deleted_meanwhile(session_id)
        send(make_notice(missing))
    title = title_of(value_at(result, "thread"))
    if title is not None:
        send(TitleChanged(title))
    outflow.flush()
    if running_turn_id is None or running_turn_id != shown_turn_id:
        state = SessionState(features)
    state.sub_agents = sub_agents.agents
    state.has_title = title is not None
    return state


async def add_background_commands(
    codex: AppServerConnection,
    session_id: str,
    state: SessionState | None,
    client: SessionClient,
    *,
    with_history: bool,
) -> SessionState | None:
    """Return the mapping's state with the commands that run while the session is opened again.

    The history has no commands that run, so Codex is asked for a list. Sends the commands to the
    client if ``with_history``, or if the client shows the agent's terminals."""
    shown = with_history or client.features.agent_terminals
    try:
        terminals = await TurnCalls(codex, session_id).background_terminals()
    except CodexAcpError as error:
        logger.warning("session %s: what runs in the background is unknown: %s", session_id, error)
        return state
    for terminal in terminals:
        state = state or SessionState(client.features)
        item = models.CommandExecutionThreadItem(
            id=terminal.item_id, command=terminal.command, cwd=terminal.cwd,
            process_id=terminal.process_id, command_actions=[], status="inProgress",
            source="unifiedExecStartup",  # as of every command that Codex leaves in the background
        )  # fmt: skip
        events = show_running(state, item)
        if shown:
            for event in events:
                client.outflow.send(session_id, event)
    return state


class SubAgentHistories:
    """Shows the histories of the sub-agents below ``session_id`` to ``client``."""

    def __init__(self, client: SessionClient, session_id: str) -> None:
        self._outflow = client.outflow
        self._features = client.features
        self._session_id = session_id
        self.agents: dict[str, SubAgent] = {}
        """All sub-agents that the histories name, in order."""
        self._notes: dict[str, SubAgentNotes] = {}
        self._more = False
        """True if the histories name more sub-agents than are shown."""

    def learn(self, thread_id: str, item: models.ThreadItem) -> None:
        """Note the sub-agents that an item names, before it is shown."""
        if not isinstance(
            item, models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem
        ):
            return
        for agent in agents_named_by(thread_id, plain(item)):
            known = self.agents.get(agent.thread_id)
            if known is not None:
                known.title = known.title or agent.title
            elif not agent.started or agent.thread_id == self._session_id:
                continue  # without a start, the model may name any stored thread
            elif len(self.agents) == MAX_SHOWN:
                self._more = True
            else:
                self.agents[agent.thread_id] = agent
                # Deeper sub-agents add their lines to the call of the sub-agent at the top.
                if not self._features.subagents and thread_id == self._session_id:
                    self._notes[agent.call_id] = SubAgentNotes(agent.call_id)

    def note_event(self, event: SessionEvent) -> None:
        """Note an event of the session's history, which may begin the tool call of a sub-agent."""
        for notes in self._notes.values():
            notes.note_event(event)

    async def show(self, codex: AppServerConnection) -> None:
        """Show the histories, one by one. Raises TransportError if Codex or the client is gone."""
        shown = 0
        while shown < len(self.agents):  # each history may name more sub-agents
            agent = list(self.agents.values())[shown]
            shown += 1
            if agent.thread_id in codex.opened_threads:
                continue  # the client has opened it as a session of its own
            show_history = self._show_session if self._features.subagents else self._show_notes
            await show_history(codex, agent)
        if self._more:
            self._outflow.send(self._session_id, make_notice(MORE_THAN_SHOWN))

    def _note_shown(self, agent: SubAgent, item: models.ThreadItem) -> None:
        self.learn(agent.thread_id, item)
        if not isinstance(item, UnknownVariant):
            agent.replayed |= {item.id}

    async def _show_session(self, codex: AppServerConnection, agent: SubAgent) -> None:
        title, description = agent.title, agent.description
        announced = SubAgentChanged(agent.thread_id, title, description, stoppable=False)
        self._outflow.send(agent.parent_id, announced)
        last_turn_id, state = "", SessionState(self._features)

        def show(item: models.ThreadItem, turn_id: str) -> None:
            nonlocal last_turn_id, state
            self._note_shown(agent, item)
            if turn_id != last_turn_id:  # each turn has a state of its own
                last_turn_id, state = turn_id, SessionState(self._features)
            for event in show_history_item(state, item, turn_running=False):
                self._outflow.send(agent.thread_id, as_event_of_sub_agent(event, agent))

        gap_notice = await read_history(codex, agent.thread_id, show, self._outflow.wait_drained)
        if gap_notice is not None:
            self._outflow.send(agent.thread_id, make_notice(gap_notice))

    async def _show_notes(self, codex: AppServerConnection, agent: SubAgent) -> None:
        top = agent
        while top.parent_id in self.agents:
            top = self.agents[top.parent_id]
        notes = self._notes.get(top.call_id)
        if notes is None:
            return
        wrote = False

        def show(item: models.ThreadItem, turn_id: str) -> None:
            nonlocal wrote
            del turn_id
            self._note_shown(agent, item)
            wrote = notes.add_item(agent, item, self._features) or wrote

        gap_notice = await read_history(codex, agent.thread_id, show, self._outflow.wait_drained)
        if gap_notice is not None:
            notes.add_line(agent, gap_notice)
        if wrote or gap_notice is not None:
            self._outflow.send(self._session_id, notes.shown())


# Reading a history.


async def read_history(
    codex: AppServerConnection,
    thread_id: str,
    show: Callable[[models.ThreadItem, str], None],
    page_shown: Callable[[], Awaitable[None]],
    newest: str | None = None,
) -> str | None:
    """Call ``show`` with each item of a thread and the id of its turn; return a text for the person
    about missing parts, or None.

    ``page_shown`` waits until the client has received a page's items. ``newest`` is
    ``itemsBackwardsCursor`` of the result of ``thread/resume``, the cursor of the last item of the
    history: Codex reports later items as notifications. Raises TransportError; an error reply of
    Codex becomes part of the text.
    """
    why = "Codex gave no reason"
    # The first function that can read a page of this thread also reads the further pages.
    for read_page in (_items, _turns, _whole):
        try:
            page = await read_page(codex, thread_id, None)
            break
        except PeerError as error:
            why = _reason(error)
            logger.info("%s of thread %s: %s", read_page.__name__, thread_id, why)
    else:
        return f"The history of this session could not be read and is not shown: {why}"
    last = await _newest_item(codex, thread_id, newest) if read_page is _items else None
    unreadable, is_last = 0, False
    seen: set[str] = set()
    while True:
        for turn_id, raw in page.entries:
            try:
                item: models.ThreadItem = MODELS.decode("ThreadItem", raw, "an item of the history")
            except InvalidPayload as error:
                unreadable += 1
                logger.warning("thread %s: %s", thread_id, error)
            else:
                show(item, turn_id)
            is_last = last is not None and last == (turn_id, text_at(raw, "id"))
            if is_last:
                break
        await page_shown()
        if is_last or page.cursor is None:
            break
        if page.cursor in seen:
            return "The rest of this session's history is not shown: Codex repeats a page"
        seen.add(page.cursor)
        try:
            page = await read_page(codex, thread_id, page.cursor)
        except PeerError as error:
            return f"The rest of this session's history is not shown: {_reason(error)}"
    return (
        f"{unreadable} entries of this session's history could not be read" if unreadable else None
    )


async def _newest_item(
    codex: AppServerConnection, thread_id: str, cursor: str | None
) -> tuple[str, str | None] | None:
    """Return turn and id of the item at ``cursor``, the last item of the history, if known."""
    if cursor is None:
        return None
    try:
        page = await _items(codex, thread_id, cursor, "desc", 1)
    except PeerError as error:
        logger.warning("thread %s: its newest item: %s", thread_id, _reason(error))
        return None
    return next(((turn_id, text_at(raw, "id")) for turn_id, raw in page.entries), None)


async def running_turn(codex: AppServerConnection, thread_id: str) -> JsonValue:
    """Return a thread's running turn with its items, or None. Raises ErrorReply, TransportError."""
    params: JsonValue = {
        "threadId": thread_id, "limit": 1, "sortDirection": "desc", "itemsView": "full",
    }  # fmt: skip
    for turn in _list(await codex.call_raw("thread/turns/list", params), "data"):
        if value_at(turn, "status") == "inProgress":
            return turn
    return None


# Calls that read a page.


async def _items(
    codex: AppServerConnection,
    thread_id: str,
    cursor: str | None,
    direction: str = "asc",
    limit: int = ITEMS_PER_PAGE,
) -> _Page:
    """Read a page with ``thread/items/list``."""
    params: dict[str, JsonValue] = {
        "threadId": thread_id, "limit": limit, "sortDirection": direction,
    }  # fmt: skip
    if cursor is not None:
        params["cursor"] = cursor
    result = await codex.call_raw("thread/items/list", params)
    entries = [
        (str(entry.get("turnId")), entry.get("item"))
        for entry in _list(result, "data")
        if isinstance(entry, dict)
    ]
    return _Page(entries, text_at(result, "nextCursor") or None)


async def _turns(codex: AppServerConnection, thread_id: str, cursor: str | None) -> _Page:
    """Read a page with ``thread/turns/list``, for a thread of an older Codex."""
    params: dict[str, JsonValue] = {
        "threadId": thread_id, "limit": TURNS_PER_PAGE, "sortDirection": "asc", "itemsView": "full",
    }  # fmt: skip
    if cursor is not None:
        params["cursor"] = cursor
    result = await codex.call_raw("thread/turns/list", params)
    return _Page(_entries_of(_list(result, "data")), text_at(result, "nextCursor") or None)


async def _whole(codex: AppServerConnection, thread_id: str, cursor: str | None) -> _Page:
    """Read the whole history with ``thread/read``, from a Codex without pages."""
    del cursor
    result = await codex.call_raw("thread/read", {"threadId": thread_id, "includeTurns": True})
    return _Page(_entries_of(_list(value_at(result, "thread"), "turns")), None)


def _entries_of(turns: list[JsonValue]) -> list[_Entry]:
    return [
        (str(turn.get("id")), item)
        for turn in turns
        if isinstance(turn, dict)
        for item in _list(turn, "items")
    ]


def _list(result: JsonValue, key: str) -> list[JsonValue]:
    """Return the list at ``key`` of a result. Raises InvalidPayload if there is none."""
    found = value_at(result, key)
    if not isinstance(found, list):
        raise InvalidPayload("a page of the history", (f"{key}: is not a list",))
    return found


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, ErrorReply) else str(error)
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"
