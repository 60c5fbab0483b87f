"""Map the updates of a running tool call: output, input, progress, diffs that grow.

Clients that show no terminal get the end of an output again and again, since content can only be
replaced: how often and how long, `output` bounds. Time is ``state.now``; what has to wait is
sent by `flush_due` when `due` says so, or with the end of the tool call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at
from codex_acp._record import replace
from codex_acp.codex._generated import models
from codex_acp.mapping.call import (
    UNFINISHED,
    UPDATE_COST,
    WHOLE_LIMIT,
    Call,
    OpenCall,
    ToolItem,
    as_tool_call,
    as_update,
    size_of_text,
    whole_text,
)
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    CallStatus,
    SessionEvent,
    SessionEvents,
    TerminalOutput,
    TerminalState,
    ToolCallAnnounced,
    ToolCallChanged,
    tool_call_id,
)
from codex_acp.mapping.item_calls import (
    arguments_content,
    call_of,
    changes_update,
    command_content,
    ended_in_background,
    file_change_call,
    id_of,
    last_phase,
    looks_kept,
    looks_of,
    runs_on,
    terminal_state,
)
from codex_acp.mapping.messages import say
from codex_acp.mapping.prompt import output_block, size_of
from codex_acp.routing.display import shortened, visible
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.mapping.state import SessionState

_REPEATED: Final = 1_000
"""Characters of a command or of arguments that are repeated above each end of the output."""
_PROGRESS_LINE: Final = 1_000
"""Characters of one line of progress."""


def output_delta(
    state: SessionState, params: models.CommandExecutionOutputDeltaNotification
) -> SessionEvents:
    """``item/commandExecution/outputDelta``: more output of a command."""
    return more_output(state, params.item_id, params.delta)


def terminal_interaction(
    state: SessionState, params: models.TerminalInteractionNotification
) -> SessionEvents:
    """``item/commandExecution/terminalInteraction``: what was typed; nothing for a mere look."""
    if not params.stdin:
        return ()
    typed = params.stdin.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    text = f"\n[typed] {visible(typed, multiline=True)}\n"
    return more_output(state, params.item_id, text, typed=True)


def mcp_progress(
    state: SessionState, params: models.McpToolCallProgressNotification
) -> SessionEvents:
    """``item/mcpToolCall/progress``: a line in the server's words."""
    call_id = tool_call_id(params.item_id)
    open_call = _running(state, call_id)
    if open_call is None or not isinstance(open_call.item, models.McpToolCallThreadItem):
        return ()
    open_call.output.add(f"{shortened(visible(params.message), _PROGRESS_LINE)}\n")
    return _send_if_due(state, call_id, open_call)


def patch_updated(
    state: SessionState, params: models.FileChangePatchUpdatedNotification
) -> SessionEvents:
    """``item/fileChange/patchUpdated``: the changes as far as they are written."""
    call_id = tool_call_id(params.item_id)
    open_call = _running(state, call_id)
    if open_call is None or not isinstance(open_call.item, models.FileChangeThreadItem):
        return ()
    item = open_call.item.model_copy(update={"changes": params.changes})
    open_call.item = item
    open_call.looks = {**looks_kept(item, state.looks), **open_call.looks}
    open_call.content = file_change_call(item, "running", looks_of(state, call_id)).content
    open_call.changes.earn(sum(len(change.diff) for change in item.changes) + UPDATE_COST)
    open_call.changes_cost = UPDATE_COST + size_of(open_call.content)
    return _send_if_due(state, call_id, open_call)


def due(state: SessionState) -> float | None:
    """Return when (as ``state.now``) `flush_due` has something to send; None: nothing waits."""
    times = [_due_at(state, open_call) for open_call in state.open_calls.values()]
    return min((at for at in times if at is not None), default=None)


def flush_due(state: SessionState) -> SessionEvents:
    """Return the updates that were due by ``state.now``."""
    return [
        update
        for call_id, open_call in state.open_calls.items()
        for update in _send_if_due(state, call_id, open_call)
    ]


def flush_changes(state: SessionState, call_id: str, open_call: OpenCall) -> SessionEvents:
    """Send the diffs of a file change that wait, whatever the time."""
    item = open_call.item
    if not open_call.changes_cost or not isinstance(item, models.FileChangeThreadItem):
        return ()
    open_call.changes.spend(open_call.changes_cost, state.now)
    open_call.changes_cost = 0
    return (changes_update(call_id, item, open_call.content, looks_of(state, call_id)),)


def _begin_item(state: SessionState, item: ToolItem) -> Call:
    """Note that an item runs; return its tool call. A cut of it is repeated while it runs."""
    open_call = state.open_calls.setdefault(id_of(item), OpenCall())
    open_call.looks = {**looks_kept(item, state.looks), **open_call.looks}
    call = call_of(state, item, "running")
    open_call.item, open_call.content = item, call.content
    if isinstance(item, models.CommandExecutionThreadItem):
        open_call.above = command_content(item, limit=_REPEATED)
    elif isinstance(item, models.McpToolCallThreadItem):
        open_call.above = arguments_content(item.arguments, _REPEATED)
    open_call.above_size = size_of(open_call.above)
    return call


def more_output(
    state: SessionState, item_id: str, text: str, *, typed: bool = False
) -> SessionEvents:
    """Show ``text`` that a running command has written, or that was ``typed`` into it."""
    call_id = tool_call_id(item_id)
    open_call = _running(state, call_id)
    item = None if open_call is None else open_call.item
    if not text or open_call is None or not isinstance(item, models.CommandExecutionThreadItem):
        return ()
    in_terminal = _in_terminal(state, open_call)
    if not (typed and in_terminal):  # a terminal's output is compared with Codex's own at the end
        open_call.output.add(text)
    if not in_terminal:
        return _send_if_due(state, call_id, open_call)
    output = open_call.output
    before, output.waiting = (output.size - size_of_text(text)) // WHOLE_LIMIT, False
    # So much came that the client is given a new beginning: what it holds is bounded, too.
    too_much = not typed and output.size // WHOLE_LIMIT > before
    return (TerminalOutput(call_id, text, output.last() if too_much else None),)


def _running(state: SessionState, call_id: str) -> OpenCall | None:
    """Return what is remembered of a call; None if another item has taken the id of it."""
    return None if call_id in state.shadowed else state.open_calls.get(call_id)


def _in_terminal(state: SessionState, open_call: OpenCall) -> bool:
    return state.client.shows_terminals and isinstance(
        open_call.item, models.CommandExecutionThreadItem
    )


def _due_at(state: SessionState, open_call: OpenCall) -> float | None:
    if open_call.changes_cost:
        return open_call.changes.due_at(open_call.changes_cost, state.now)
    return open_call.output.due_at(state.now, open_call.above_size)


def _send_if_due(state: SessionState, call_id: str, open_call: OpenCall) -> SessionEvents:
    at = _due_at(state, open_call)
    if at is None or at > state.now:
        return ()
    if open_call.changes_cost:
        return flush_changes(state, call_id, open_call)
    tail = open_call.output.take(state.now, open_call.above_size)
    shown = output_block(tail)
    open_call.output.budget.credit -= max(0, size_of([shown]) - 2 * len(tail) - UPDATE_COST)
    content = [*open_call.above, shown]
    return (ToolCallChanged(id=call_id, content=content),)


# Tool calls from their announcement to their end (contract 4).

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
    call = _begin_item(state, item)
    announced = call.id in state.announced
    state.announced[call.id] = None
    terminal, stoppable = _terminal(state, item, begins=True), _stoppable(state, item, runs=True)
    if announced:
        return (as_update(call, terminal, with_status=not is_open, stoppable=stoppable),)
    return (as_tool_call(call, terminal, stoppable=stoppable),)


def call_completed(state: SessionState, item: ToolItem) -> SessionEvents:
    """An item completed: all of its tool call, but for diffs that the client has already."""
    call_id = id_of(item)
    if isinstance(item, models.CommandExecutionThreadItem) and call_id in state.background:
        del state.background[call_id]
        if not state.client.agent_terminals:  # its tool call belongs to an answered prompt
            return say(*ended_in_background(item))
        # The terminal is sent whole: its output behind the turn's end was not streamed.
        terminal = terminal_state(item, ended=True)
        ended = ToolCallChanged(id=call_id, terminal=terminal, stoppable=False)
        if item.aggregated_output is None:
            return (ended,)
        return (TerminalOutput(call_id, "", whole_text(item.aggregated_output)), ended)
    if _is_another(state, item):
        return ()
    open_call = state.open_calls.get(call_id)
    call = call_of(state, item, last_phase(item), _streamed(open_call))
    state.open_calls.pop(call_id, None)
    if call.id in state.cancelled_calls and call.status == "failed":
        call = replace(call, status="cancelled")  # it failed of that
    terminal = _terminal(state, item, output=_unsent(item, open_call), ended=True)
    if call.id in state.announced:
        # The diffs may be megabytes: a client that has just these is not sent them again.
        news = (
            open_call is None
            or not isinstance(open_call.item, models.FileChangeThreadItem)
            or open_call.asked
            or bool(open_call.changes_cost)
            or list(open_call.content) != list(call.content)
        )
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
    """Show an accepted action in progress; any other failed, or ``cancelled`` with its prompt.

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
    if _in_terminal(state, open_call):
        update.content = list(open_call.content)
    elif open_call.output.shown and isinstance(open_call.item, models.CommandExecutionThreadItem):
        tail = open_call.output.last()
        update.content = [*open_call.above, *([output_block(tail)] if tail else [])]
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


def still_runs(state: SessionState, item: models.CommandExecutionThreadItem) -> SessionEvents:
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
    if isinstance(item, models.CommandExecutionThreadItem):
        return item.command, item.cwd
    if isinstance(item, models.FileChangeThreadItem):
        return (plain(item.changes),)
    if isinstance(item, models.McpToolCallThreadItem):
        return item.server, item.tool, plain(item.arguments)
    return (type(item),)


def _in_background(state: SessionState, open_call: OpenCall) -> SessionEvent:
    """The tool call has returned to the model; the terminal goes on.

    A client that knows no terminals of the agent is told in words, and how to end it.
    """
    item = open_call.item
    assert isinstance(item, models.CommandExecutionThreadItem), "nothing else lives on"
    state.background[id_of(item)] = item
    if state.client.agent_terminals:
        return ToolCallChanged(id=id_of(item), status="completed", stoppable=False)
    call = call_of(state, item, "running", _streamed(open_call))
    content = [*call.content, TextBlock(runs_on(item))]
    call = replace(call, status="completed", content=content)
    return as_update(call, _terminal(state, item, ended=True))


def _cut_off(state: SessionState, tool_call_id: str, open_call: OpenCall) -> SessionEvent:
    item = open_call.item
    if item is None:
        return _status(tool_call_id, "failed")
    call = call_of(state, item, "cut_off", _streamed(open_call))
    update = as_update(
        call,
        _terminal(state, item, ended=not _lives_on(state, item)),
        stoppable=_stoppable(state, item, runs=False),
    )
    if isinstance(
        item, models.FileChangeThreadItem
    ):  # as last shown: nobody reads files for a turn's end
        update.content = [*open_call.content, TextBlock(UNFINISHED)]
    return update


def _streamed(open_call: OpenCall | None) -> str | None:
    """Return the output that was streamed, if there was any."""
    return open_call.output.whole() if open_call is not None and open_call.output.size else None


def _announced_whole(
    state: SessionState, item: ToolItem, call: Call, terminal: TerminalState | None
) -> SessionEvents:
    first = as_tool_call(call, _terminal(state, item, begins=True, output=""))
    if terminal is None:
        return (first,)
    return (first, ToolCallChanged(id=call.id, terminal=terminal))


def _unsent(item: ToolItem, open_call: OpenCall | None) -> str | None:
    """Return the output that a terminal lacks: all of it, its end, or what was not streamed.

    Codex does not stream what a command writes first; then the whole follows, marked as that.
    """
    if not isinstance(item, models.CommandExecutionThreadItem) or item.aggregated_output is None:
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
    if not state.client.shows_terminals or not isinstance(item, models.CommandExecutionThreadItem):
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
    return isinstance(item, models.CommandExecutionThreadItem) and item.process_id is not None


def _status(tool_call_id: str, status: CallStatus) -> ToolCallChanged:
    return ToolCallChanged(id=tool_call_id, status=status)
