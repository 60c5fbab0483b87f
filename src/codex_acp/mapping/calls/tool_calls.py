"""Tool calls from their announcement to their end (contract 4).

Owns what is open. What a tool call shows, `item_calls` knows; what comes while it runs,
`running_calls` adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at
from codex_acp._record import replace
from codex_acp.codex._generated.models import (
    CommandExecutionThreadItem,
    FileChangeThreadItem,
    McpToolCallThreadItem,
)
from codex_acp.mapping.calls.call import UNFINISHED, Call, as_tool_call, as_update
from codex_acp.mapping.calls.command_calls import ended_in_background, runs_on, terminal_state
from codex_acp.mapping.calls.item_calls import call_of, id_of, last_phase
from codex_acp.mapping.calls.open_calls import OpenCall, ToolItem
from codex_acp.mapping.calls.output import WHOLE_LIMIT, whole_text
from codex_acp.mapping.calls.running_calls import begin_item, content_now, flush_changes
from codex_acp.mapping.events.session_events import (
    CallStatus,
    SessionEvent,
    SessionEvents,
    TerminalOutput,
    TerminalState,
    ToolCallAnnounced,
    ToolCallChanged,
)
from codex_acp.mapping.messages.lines import say
from codex_acp.routing.content import text_content
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.mapping.state import SessionState

_WHOLE_AGAIN: Final = "\n[Some of this was not streamed. The whole output:]\n"


def announce(state: SessionState, call: ToolCallAnnounced) -> SessionEvents:
    """A tool call before a question refers to it. One that was announced is only set to pending.

    Of a file change that is being written, the latest diffs go out: the question shows no others.
    """
    call_id = call.id
    announced = OpenCall(content=call.content or (), about=call.raw_input)
    open_call = state.open_calls.setdefault(call_id, announced)
    was_pending, open_call.pending = open_call.pending, True
    open_call.asked = True
    if call_id not in state.announced:
        state.announced[call_id] = None
        return (call,)
    changes = flush_changes(state, call_id, open_call)
    return changes if was_pending else [*changes, _status(call_id, "pending")]


def call_started(state: SessionState, item: ToolItem) -> SessionEvents:
    """An item started. If an approval has announced it, the status is the approval's."""
    if _is_another(state, item):
        return ()
    is_open = id_of(item) in state.open_calls
    call = begin_item(state, item)
    announced = call.id in state.announced
    state.announced[call.id] = None
    terminal, stoppable = _terminal(state, item, begins=True), _stoppable(state, item, runs=True)
    if announced:
        return (as_update(call, terminal, with_status=not is_open, stoppable=stoppable),)
    return (as_tool_call(call, terminal, stoppable=stoppable),)


def call_completed(state: SessionState, item: ToolItem) -> SessionEvents:
    """An item completed: all of its tool call, but for diffs that the client has already."""
    call_id = id_of(item)
    if isinstance(item, CommandExecutionThreadItem) and call_id in state.background:
        del state.background[call_id]
        return _background_ended(state, item)
    if _is_another(state, item):
        return ()
    open_call = state.open_calls.get(call_id)
    streamed = open_call.output.whole() if open_call is not None and open_call.output.size else None
    call = call_of(state, item, last_phase(item), streamed)
    state.open_calls.pop(call_id, None)
    if call.id in state.cancelled_calls and call.status == "failed":
        call = replace(call, status="cancelled")  # it failed of that
    terminal = _terminal(state, item, output=_unsent(item, open_call), ended=True)
    if call.id in state.announced:
        news = open_call is None or not _has_diffs(open_call, call)
        stoppable = _stoppable(state, item, runs=False)
        return (as_update(call, terminal, with_content=news, stoppable=stoppable),)
    state.announced[call.id] = None
    return _announced_whole(state, item, call, terminal)


def whole_call(state: SessionState, item: ToolItem) -> SessionEvents:
    """An item of the past, as it ended: one ``tool_call``.

    A client of Zed's convention reads output from updates only, so it gets a second one.
    """
    call = call_of(state, item, last_phase(item))
    state.announced[call.id] = None
    terminal = _terminal(state, item, output=_unsent(item, None), ended=True)
    return _announced_whole(state, item, call, terminal)


def approval_settled(
    state: SessionState, tool_call_id: str, *, accepted: bool, cancelled: bool = False
) -> SessionEvents:
    """An accepted action is in progress from now on; any other has failed, or is ``cancelled``
    with its prompt.

    What the permission request showed in place of a terminal or of output makes way for it again.
    """
    open_call = state.open_calls.get(tool_call_id)
    if open_call is None:
        return ()
    if not accepted:
        del state.open_calls[tool_call_id]
        if cancelled:
            state.cancelled_calls.add(tool_call_id)
        return (_status(tool_call_id, "cancelled" if cancelled else "failed"),)
    open_call.pending = False
    update = _status(tool_call_id, "in_progress")
    if isinstance(open_call.item, CommandExecutionThreadItem) and (
        open_call.output.shown or state.client.shows_terminals
    ):
        update.content = content_now(state, open_call)
    return (update,)


def call_ended(state: SessionState, tool_call_id: str, *, ended_well: bool) -> SessionEvents:
    """End a tool call that is no item; no update if it has ended before."""
    if state.open_calls.pop(tool_call_id, None) is None:
        return ()
    return (_status(tool_call_id, "completed" if ended_well else "failed"),)


def close_open_calls(state: SessionState, *, goes_on: bool = False) -> SessionEvents:
    """The turn ended: no tool call of it is left pending or in progress.

    ``goes_on``: nobody has stopped it, so that a command which still runs does so from now on in
    the background.
    """
    state.shadowed.clear()
    left = state.open_calls.items()
    told = [
        _in_background(state, open_call)
        if goes_on and open_call.item is not None and _is_process(open_call.item)
        else _cut_off(state, tool_call_id, open_call)
        for tool_call_id, open_call in left
    ]
    state.cancelled_calls = {call_id for call_id, open_call in left if open_call.item is not None}
    state.open_calls.clear()
    return told


def still_runs(state: SessionState, item: CommandExecutionThreadItem) -> SessionEvents:
    """A command of an earlier turn that runs in the background, for a client that opens anew."""
    return [*call_started(state, item), _in_background(state, state.open_calls.pop(id_of(item)))]


def _is_another(state: SessionState, item: ToolItem) -> bool:
    """Whether an item has the id of a tool call that a question shows, and is not what it shows.

    A model chooses its ids. Nothing of that item is shown: the question fails closed, and so does
    whatever bears its id until the turn is over.
    """
    call_id = id_of(item)
    open_call = state.open_calls.get(call_id)
    if open_call is not None and open_call.pending:
        shown = open_call.item
        if shown is None:
            command = getattr(item, "command", None)
            same = command is not None and text_at(open_call.about, "command") == command
        else:
            same = type(shown) is type(item) and _subject(shown) == _subject(item)
        if not same:
            state.shadowed.add(call_id)
    return call_id in state.shadowed


def _subject(item: ToolItem) -> tuple[object, ...]:
    """Return what an item that can be asked about does: the same from its start to its end."""
    if isinstance(item, CommandExecutionThreadItem):
        return item.command, item.cwd
    if isinstance(item, FileChangeThreadItem):
        return (plain(item.changes),)
    if isinstance(item, McpToolCallThreadItem):
        return item.server, item.tool, plain(item.arguments)
    return (type(item),)


def _in_background(state: SessionState, open_call: OpenCall) -> SessionEvent:
    """The tool call has returned to the model; the terminal goes on.

    A client that knows no terminals of the agent is told in words, and how to end it.
    """
    item = open_call.item
    assert isinstance(item, CommandExecutionThreadItem), "nothing else lives on"
    state.background[id_of(item)] = item
    if state.client.agent_terminals:
        return ToolCallChanged(id=id_of(item), status="completed", stoppable=False)
    streamed = open_call.output.whole() if open_call.output.size else None
    call = call_of(state, item, "running", streamed)
    line = text_content(runs_on(item))
    call = replace(call, status="completed", content=[*call.content, line])
    return as_update(call, _terminal(state, item, ended=True))


def _background_ended(state: SessionState, item: CommandExecutionThreadItem) -> SessionEvents:
    """Send the terminal whole: its output behind the turn's end was not streamed.

    Who knows none gets a line: its tool call belongs to a prompt that is answered.
    """
    if not state.client.agent_terminals:
        return say(state, *ended_in_background(item))
    call_id, terminal = id_of(item), terminal_state(item, ended=True)
    ended = ToolCallChanged(id=call_id, terminal=terminal, stoppable=False)
    if item.aggregated_output is None:
        return (ended,)
    return (TerminalOutput(call_id, "", whole_text(item.aggregated_output)), ended)


def _has_diffs(open_call: OpenCall, call: Call) -> bool:
    """Whether the client has just these diffs, which may be megabytes, from when they were made."""
    was_sent = not open_call.asked and not open_call.changes_cost
    is_change = isinstance(open_call.item, FileChangeThreadItem)
    return is_change and was_sent and list(open_call.content) == list(call.content)


def _cut_off(state: SessionState, tool_call_id: str, open_call: OpenCall) -> SessionEvent:
    item = open_call.item
    if item is None:
        return _status(tool_call_id, "failed")
    streamed = open_call.output.whole() if open_call.output.size else None
    call = call_of(state, item, "cut_off", streamed)
    update = as_update(
        call,
        _terminal(state, item, ended=not _lives_on(state, item)),
        stoppable=_stoppable(state, item, runs=False),
    )
    if isinstance(item, FileChangeThreadItem):  # as last shown: nobody reads files for a turn's end
        update.content = [*open_call.content, text_content(UNFINISHED)]
    return update


def _announced_whole(
    state: SessionState, item: ToolItem, call: Call, terminal: TerminalState | None
) -> SessionEvents:
    first = as_tool_call(call, _terminal(state, item, begins=True, output=""))
    if terminal is None:
        return (first,)
    return (first, ToolCallChanged(id=call.id, terminal=terminal))


def _unsent(item: ToolItem, open_call: OpenCall | None) -> str | None:
    """Return the output that a terminal lacks: all of it, its end, or the part that was not
    streamed.

    Codex does not stream what a command writes first; then the whole follows, marked as that.
    """
    if not isinstance(item, CommandExecutionThreadItem) or item.aggregated_output is None:
        return None
    whole = item.aggregated_output
    if open_call is None or not open_call.output.size:
        return whole_text(whole)
    sent = open_call.output.whole()
    if whole.startswith(sent):
        return whole[len(sent) :]
    if open_call.output.size > WHOLE_LIMIT:  # of so much neither side has all
        return None
    return f"{_WHOLE_AGAIN}{whole_text(whole)}"


def _terminal(
    state: SessionState,
    item: ToolItem,
    *,
    begins: bool = False,
    output: str | None = None,
    ended: bool = False,
) -> TerminalState | None:
    if not state.client.shows_terminals or not isinstance(item, CommandExecutionThreadItem):
        return None
    return terminal_state(item, begins=begins, output=output, ended=ended)


def _stoppable(state: SessionState, item: ToolItem, *, runs: bool) -> bool | None:
    """Whether the command can be stopped; None of what never can, and for who has no way to."""
    return runs if _lives_on(state, item) else None


def _lives_on(state: SessionState, item: ToolItem) -> bool:
    """Whether it is a process that outlives its turn, and whose terminal the client is told of."""
    return _is_process(item) and state.client.agent_terminals


def _is_process(item: ToolItem) -> bool:
    """Whether it is a command that Codex can have run on behind its turn."""
    return isinstance(item, CommandExecutionThreadItem) and item.process_id is not None


def _status(tool_call_id: str, status: CallStatus) -> ToolCallChanged:
    return ToolCallChanged(id=tool_call_id, status=status)
