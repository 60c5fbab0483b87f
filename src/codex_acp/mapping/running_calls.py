"""Map a tool call from its announcement to its end: output, input, progress and growing diffs.

An update replaces all content of a tool call, so a client that shows no terminals gets the end of
the output again and again; `RollingOutput` limits how often, and how much. Time is ``state.now``.
`flush_due` sends the updates that had to wait, at the time that `due` returns; the end of the tool
call sends the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at
from codex_acp._record import names_of
from codex_acp.codex._generated import models
from codex_acp.mapping import events
from codex_acp.mapping.call import (
    OVERHEAD_BYTES,
    TAIL_LIMIT,
    UNFINISHED,
    WHOLE_LIMIT,
    OpenCall,
    ToolItem,
    end_of_output,
    size_of_text,
)
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import SessionEvent, SessionEvents, ToolCallChanged, tool_call_id
from codex_acp.mapping.item_calls import (
    arguments_content,
    call_of,
    command_content,
    file_change_call,
    file_changes,
    id_of,
    looks_for_call,
    looks_to_keep,
    over_or_cut_off,
    script_of,
)
from codex_acp.mapping.messages import notice_events
from codex_acp.mapping.prompt import output_block, size_of
from codex_acp.routing.display import inline, shortened, visible
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.mapping.state import SessionState

_ABOVE_LIMIT: Final = 1_000
"""Characters of a command or of arguments that each update repeats above the output."""
_PROGRESS_LINE: Final = 1_000
"""Characters of one line of progress."""


def output_delta(
    state: SessionState, params: models.CommandExecutionOutputDeltaNotification
) -> SessionEvents:
    """Map ``item/commandExecution/outputDelta``: more output of a command."""
    return more_output(state, params.item_id, params.delta)


def terminal_interaction(
    state: SessionState, params: models.TerminalInteractionNotification
) -> SessionEvents:
    """Map ``item/commandExecution/terminalInteraction``: text that the model typed, if any."""
    if not params.stdin:
        return ()
    typed = params.stdin.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    text = f"\n[typed] {visible(typed, multiline=True)}\n"
    return more_output(state, params.item_id, text, typed=True)


def mcp_progress(
    state: SessionState, params: models.McpToolCallProgressNotification
) -> SessionEvents:
    """Map ``item/mcpToolCall/progress``: a line of the MCP server."""
    call_id = tool_call_id(params.item_id)
    open_call = _find_open_call(state, call_id)
    if open_call is None or not isinstance(open_call.item, models.McpToolCallThreadItem):
        return ()
    open_call.output.add(f"{shortened(visible(params.message), _PROGRESS_LINE)}\n")
    return _send_if_due(state, call_id, open_call)


def patch_updated(
    state: SessionState, params: models.FileChangePatchUpdatedNotification
) -> SessionEvents:
    """Map ``item/fileChange/patchUpdated``: the changes that the model has written so far."""
    call_id = tool_call_id(params.item_id)
    open_call = _find_open_call(state, call_id)
    if open_call is None or not isinstance(open_call.item, models.FileChangeThreadItem):
        return ()
    item = open_call.item.model_copy(update={"changes": params.changes})
    open_call.item = item
    open_call.looks = {**looks_to_keep(item, state.looks), **open_call.looks}
    call = file_change_call(item, "running", looks_for_call(state, call_id))
    open_call.content = call.content or ()
    # Each character that the model writes allows some bytes of updates (`EARNED_PER_BYTE`).
    open_call.diff_budget.earn(sum(len(change.diff) for change in item.changes) + OVERHEAD_BYTES)
    open_call.unsent_diff_bytes = OVERHEAD_BYTES + size_of(open_call.content)
    return _send_if_due(state, call_id, open_call)


def due(state: SessionState) -> float | None:
    """Return the time (as ``state.now``) of the next `flush_due`; None: no update waits."""
    times = [_due_at(state, open_call) for open_call in state.open_calls.values()]
    return min((at for at in times if at is not None), default=None)


def flush_due(state: SessionState) -> SessionEvents:
    """Return the updates that are due at ``state.now``."""
    return [
        update
        for call_id, open_call in state.open_calls.items()
        for update in _send_if_due(state, call_id, open_call)
    ]


def flush_changes(state: SessionState, call_id: str, open_call: OpenCall) -> SessionEvents:
    """Return the unsent diffs of a file change, due or not."""
    item = open_call.item
    if not open_call.unsent_diff_bytes or not isinstance(item, models.FileChangeThreadItem):
        return ()
    open_call.diff_budget.spend(open_call.unsent_diff_bytes, state.now)
    open_call.unsent_diff_bytes = 0
    changes = file_changes(item, looks_for_call(state, call_id))
    places = [place for change in changes for place in change.locations()]
    return (ToolCallChanged(id=call_id, content=list(open_call.content), locations=places),)


def more_output(
    state: SessionState, item_id: str, text: str, *, typed: bool = False
) -> SessionEvents:
    """Show ``text`` that a running command wrote, or that the model ``typed`` into it."""
    call_id = tool_call_id(item_id)
    open_call = _find_open_call(state, call_id)
    item = None if open_call is None else open_call.item
    if not text or open_call is None or not isinstance(item, models.CommandExecutionThreadItem):
        return ()
    output, in_terminal = open_call.output, _in_terminal(state, open_call)
    # `_unsent_output` compares a terminal's output with Codex's, which lacks the typed text.
    if not (typed and in_terminal):
        output.add(text)
    if not in_terminal:
        return _send_if_due(state, call_id, open_call)
    output.has_unsent = False
    if typed:
        return (events.TerminalOutput(call_id, text),)
    # After each `WHOLE_LIMIT` bytes of output, replace all that the client has kept.
    size_before = output.size - size_of_text(text)
    passes_limit = output.size // WHOLE_LIMIT > size_before // WHOLE_LIMIT
    replacement = output.tail(TAIL_LIMIT) if passes_limit else None
    return (events.TerminalOutput(call_id, text, replacement),)


def _find_open_call(state: SessionState, call_id: str) -> OpenCall | None:
    """Return the open tool call; None if no item or more than one item has the id."""
    return None if call_id in state.shadowed else state.open_calls.get(call_id)


def _in_terminal(state: SessionState, open_call: OpenCall) -> bool:
    return state.features.shows_terminals and isinstance(
        open_call.item, models.CommandExecutionThreadItem
    )


def _due_at(state: SessionState, open_call: OpenCall) -> float | None:
    if open_call.unsent_diff_bytes:
        return open_call.diff_budget.due_at(open_call.unsent_diff_bytes, state.now)
    return open_call.output.due_at(state.now, size_of(open_call.above))


def _send_if_due(state: SessionState, call_id: str, open_call: OpenCall) -> SessionEvents:
    at = _due_at(state, open_call)
    if at is None or at > state.now:
        return ()
    if open_call.unsent_diff_bytes:
        return flush_changes(state, call_id, open_call)
    tail = open_call.output.take(state.now, size_of(open_call.above))
    block = output_block(tail)
    # `take` has charged the tail. If escaping more than doubles the block, charge the excess.
    uncharged = size_of([block]) - 2 * len(tail) - OVERHEAD_BYTES
    open_call.output.budget.credit -= max(0, uncharged)
    content = [*open_call.above, block]
    return (ToolCallChanged(id=call_id, content=content),)


# The announcement and the end of a tool call.

_WHOLE_AGAIN: Final = "\n[Some of this was not streamed. The whole output:]\n"


def announce(state: SessionState, call: events.ToolCallAnnounced) -> SessionEvents:
    """Announce a tool call before a question about it; set an announced tool call to pending. Sends
    the unsent diffs of a file change first: the question refers to them."""
    call_id = call.id
    new = OpenCall(content=call.content or (), announced_input=call.raw_input)
    open_call = state.open_calls.setdefault(call_id, new)
    was_pending = open_call.pending
    open_call.pending = True
    open_call.was_asked = True
    if call_id not in state.announced:
        state.announced[call_id] = None
        return (call,)
    changes = flush_changes(state, call_id, open_call)
    return changes if was_pending else [*changes, _status_change(call_id, "pending")]


def call_started(state: SessionState, item: ToolItem) -> SessionEvents:
    """Show that an item started. The status stays if an approval has announced the tool call."""
    if _shadow_if_other_action(state, item):
        return ()
    has_approval = id_of(item) in state.open_calls  # nothing else opens a call before its item
    open_call = state.open_calls.setdefault(id_of(item), OpenCall())
    open_call.looks = {**looks_to_keep(item, state.looks), **open_call.looks}
    call = call_of(state, item, "running")
    open_call.item, open_call.content = item, call.content or ()
    if isinstance(item, models.CommandExecutionThreadItem):
        open_call.above = command_content(item, limit=_ABOVE_LIMIT)
    elif isinstance(item, models.McpToolCallThreadItem):
        open_call.above = arguments_content(item.arguments, _ABOVE_LIMIT)
    call.terminal = _terminal_change(state, item, begins=True)
    call.stoppable = _stoppable(state, item, runs=True)
    was_announced = call.id in state.announced
    state.announced[call.id] = None
    if not was_announced:
        return (call,)
    update = _as_update(call)
    if has_approval:
        update.status = None
    return (update,)


def show_again(state: SessionState) -> dict[str, SessionEvents]:
    """Announce the open commands for another client, which may show output in another form; also
    the commands in the background if the client shows the agent's terminals. Return the events of
    each tool call."""
    again: dict[str, SessionEvents] = {}
    if state.features.agent_terminals:
        for call_id, background_item in state.background.items():
            state.announced.pop(call_id, None)
            again[call_id] = show_running(state, background_item)
    for call_id, open_call in state.open_calls.items():
        item = open_call.item
        if isinstance(item, models.CommandExecutionThreadItem):
            output = _streamed(open_call)
            open_call.content = call_of(state, item, "running").content or ()
            open_call.output.was_shown = output is not None
            call = call_of(state, item, "running", output)
            call.status = "pending" if open_call.pending else call.status
            call.terminal = _terminal_change(state, item, begins=True, output="")
            call.stoppable = _stoppable(state, item, runs=True)
            # A client of Zed's convention reads output from updates only.
            terminal = _terminal_change(state, item, output=output)
            more = () if terminal is None else (ToolCallChanged(id=call_id, terminal=terminal),)
            again[call_id] = (call, *more)
    return again


def call_completed(state: SessionState, item: ToolItem) -> SessionEvents:
    """Show that an item completed: its whole tool call, without diffs that the client has."""
    call_id = id_of(item)
    if isinstance(item, models.CommandExecutionThreadItem) and call_id in state.background:
        return _background_completed(state, item)
    if _shadow_if_other_action(state, item):
        return ()
    open_call = state.open_calls.get(call_id)
    call = call_of(state, item, over_or_cut_off(item), _streamed(open_call))
    state.open_calls.pop(call_id, None)
    if call.id in state.cancelled_calls and call.status == "failed":
        call.status = "cancelled"  # the cancel made it fail
    if call.id not in state.announced:
        return _announce_ended(state, item, call, open_call)
    update = _as_update(call)
    unsent = _unsent_output(item, open_call)
    update.terminal = _terminal_change(state, item, output=unsent, ended=True)
    update.stoppable = _stoppable(state, item, runs=False)
    if _client_has_diffs(open_call, call):
        update.content = None
    return (update,)


def _as_update(call: events.ToolCallAnnounced) -> ToolCallChanged:
    """Return a change with all fields of a tool call: a permission request may have changed any."""
    return ToolCallChanged(**{name: getattr(call, name) for name in names_of(ToolCallChanged)})


def _client_has_diffs(open_call: OpenCall | None, call: events.ToolCallAnnounced) -> bool:
    """Return whether the client has all diffs of a file change, which may be megabytes."""
    return (
        open_call is not None
        and isinstance(open_call.item, models.FileChangeThreadItem)
        and not open_call.was_asked
        and not open_call.unsent_diff_bytes
        and list(open_call.content) == list(call.content or ())
    )


def _background_completed(
    state: SessionState, item: models.CommandExecutionThreadItem
) -> SessionEvents:
    """Show that a command ended after its turn, in its terminal or as a notice."""
    call_id = id_of(item)
    del state.background[call_id]
    if not state.features.agent_terminals:
        how = "" if item.exit_code is None else f" with exit code {item.exit_code}"
        title = f"A command in the background has ended{how}"
        return notice_events(title, "info", script_of(item.command))
    terminal = _terminal_change(state, item, ended=True)
    ended = ToolCallChanged(id=call_id, terminal=terminal, stoppable=False)
    if item.aggregated_output is None:
        return (ended,)
    # All output again: Codex did not stream the part after the turn's end.
    return (events.TerminalOutput(call_id, "", end_of_output(item.aggregated_output)), ended)


def show_history_call(state: SessionState, item: ToolItem) -> SessionEvents:
    """Show an item of the history, in its last state, with one announcement. A client of Zed's
    convention, which reads output from updates only, gets an update, too."""
    return _announce_ended(state, item, call_of(state, item, over_or_cut_off(item)), None)


def approval_settled(
    state: SessionState, tool_call_id: str, *, accepted: bool, cancelled: bool = False
) -> SessionEvents:
    """Show an accepted action as in progress; any other as failed, or as ``cancelled``. Send the
    terminal or output again, which the permission request may have replaced."""
    open_call = state.open_calls.get(tool_call_id)
    if open_call is None:
        return ()
    if not accepted:
        del state.open_calls[tool_call_id]
        if cancelled:
            state.cancelled_calls.add(tool_call_id)
        return (_status_change(tool_call_id, "cancelled" if cancelled else "failed"),)
    open_call.pending = False
    update = _status_change(tool_call_id, "in_progress")
    if _in_terminal(state, open_call):
        update.content = list(open_call.content)
    elif open_call.output.was_shown and isinstance(
        open_call.item, models.CommandExecutionThreadItem
    ):
        tail = open_call.output.tail(TAIL_LIMIT)
        update.content = [*open_call.above, *([output_block(tail)] if tail else [])]
    return (update,)


def call_ended(state: SessionState, tool_call_id: str, *, ended_well: bool) -> SessionEvents:
    """End a tool call that is no item; return no event if it ended before."""
    if state.open_calls.pop(tool_call_id, None) is None:
        return ()
    return (_status_change(tool_call_id, "completed" if ended_well else "failed"),)


def close_open_calls(state: SessionState, *, turn_completed: bool = False) -> SessionEvents:
    """End all open tool calls, because the turn ended. ``turn_completed``: nobody stopped the turn,
    so a command that still runs goes to the background."""
    state.shadowed.clear()
    calls = state.open_calls.items()
    changes = [
        _move_to_background(state, open_call)
        if turn_completed and open_call.item is not None and _is_process(open_call.item)
        else _cut_off_call(state, tool_call_id, open_call)
        for tool_call_id, open_call in calls
    ]
    # Show a later failure of an item as cancelled: the end of the turn has made it fail.
    state.cancelled_calls = {call_id for call_id, open_call in calls if open_call.item is not None}
    state.open_calls.clear()
    return changes


def show_running(state: SessionState, item: models.CommandExecutionThreadItem) -> SessionEvents:
    """Show a background command of an earlier turn to a client that opens the session."""
    started = call_started(state, item)
    return [*started, _move_to_background(state, state.open_calls.pop(id_of(item)))]


def _shadow_if_other_action(state: SessionState, item: ToolItem) -> bool:
    """Shadow the id of an item if a tool call with this id has an open question about another
    action; return whether the id is shadowed. No item with a shadowed id is shown until the turn
    ends. The model chooses the ids. `codex.approvals.actions` fails the question closed."""
    call_id = id_of(item)
    open_call = state.open_calls.get(call_id)
    if open_call is not None and open_call.pending:
        asked_about = open_call.item
        if asked_about is None:
            command = getattr(item, "command", None)
            announced = text_at(open_call.announced_input, "command")
            same = command is not None and announced == command
        else:
            same = type(asked_about) is type(item) and _subject(asked_about) == _subject(item)
        if not same:
            state.shadowed.add(call_id)
    return call_id in state.shadowed


def _subject(item: ToolItem) -> tuple[object, ...]:
    """Return the action of an item: the fields that stay the same from its start to its end."""
    if isinstance(item, models.CommandExecutionThreadItem):
        return item.command, item.cwd
    if isinstance(item, models.FileChangeThreadItem):
        return (plain(item.changes),)
    if isinstance(item, models.McpToolCallThreadItem):
        return item.server, item.environment_id, item.tool, plain(item.arguments)
    return (type(item),)


def _move_to_background(state: SessionState, open_call: OpenCall) -> SessionEvent:
    """Complete the tool call of a command that runs on after its turn. A client that shows no
    terminals of the agent gets a line that says how to end the command."""
    item = open_call.item
    assert isinstance(item, models.CommandExecutionThreadItem), "no other item outlives its turn"
    state.background[id_of(item)] = item
    if state.features.agent_terminals:
        return ToolCallChanged(id=id_of(item), status="completed", stoppable=False)
    update = _as_update(call_of(state, item, "running", _streamed(open_call)))
    process = inline(item.process_id or "")
    line = f"Runs on in the background. `/ps` lists what does, `/stop {process}` ends it."
    update.status, update.content = "completed", [*(update.content or ()), TextBlock(line)]
    update.terminal = _terminal_change(state, item, ended=True)
    return update


def _cut_off_call(state: SessionState, tool_call_id: str, open_call: OpenCall) -> SessionEvent:
    item = open_call.item
    if item is None:
        return _status_change(tool_call_id, "failed")
    update = _as_update(call_of(state, item, "cut_off", _streamed(open_call)))
    update.stoppable = _stoppable(state, item, runs=False)
    # A terminal in which the client could stop the command outlives the turn.
    update.terminal = _terminal_change(state, item, ended=update.stoppable is None)
    if isinstance(item, models.FileChangeThreadItem):
        # The content as last shown: files are not read at the end of a turn.
        update.content = [*open_call.content, TextBlock(UNFINISHED)]
    return update


def _streamed(open_call: OpenCall | None) -> str | None:
    """Return the output that was streamed, if there was any."""
    if open_call is None or not open_call.output.size:
        return None
    return open_call.output.tail(WHOLE_LIMIT)


def _announce_ended(
    state: SessionState, item: ToolItem, call: events.ToolCallAnnounced, open_call: OpenCall | None
) -> SessionEvents:
    """Announce a tool call that has ended; then end its terminal, with all output."""
    state.announced[call.id] = None
    call.terminal = _terminal_change(state, item, begins=True, output="")
    terminal = _terminal_change(state, item, output=_unsent_output(item, open_call), ended=True)
    return (call,) if terminal is None else (call, ToolCallChanged(id=call.id, terminal=terminal))


def _unsent_output(item: ToolItem, open_call: OpenCall | None) -> str | None:
    """Return the output that the client's terminal lacks; None if nothing is missing. Codex may not
    stream the first output of a command: then the whole output follows, below a line about it."""
    if not isinstance(item, models.CommandExecutionThreadItem) or item.aggregated_output is None:
        return None
    whole = item.aggregated_output
    if open_call is None or not open_call.output.size:
        return end_of_output(whole)
    if open_call.output.size > WHOLE_LIMIT:  # the start of the sent output is not kept to compare
        return None
    sent = open_call.output.tail(WHOLE_LIMIT)
    if whole.startswith(sent):
        return whole[len(sent) :]
    return f"{_WHOLE_AGAIN}{end_of_output(whole)}"


def _terminal_change(
    state: SessionState,
    item: ToolItem,
    *,
    begins: bool = False,
    output: str | None = None,
    ended: bool = False,
) -> events.TerminalState | None:
    """Return the change of the terminal that shows a command; None: no change, or no terminal. If
    the terminal ``begins``, any output, even an empty one, replaces what the client has kept."""
    if not state.features.shows_terminals or not (begins or output or ended):
        return None
    if not isinstance(item, models.CommandExecutionThreadItem):
        return None
    return events.TerminalState(
        tool_call_id(item.id),
        cwd=item.cwd if begins else None,
        command=visible(item.command, multiline=True) if begins else None,
        output=output if begins else output or None,
        ended=ended,
        exit_code=item.exit_code if ended else None,
    )


def _stoppable(state: SessionState, item: ToolItem, *, runs: bool) -> bool | None:
    """Return ``runs`` for a command that the client can stop; None for all other items."""
    return runs if _is_process(item) and state.features.agent_terminals else None


def _is_process(item: ToolItem) -> bool:
    """Return whether an item is a command that can run on after its turn."""
    return isinstance(item, models.CommandExecutionThreadItem) and item.process_id is not None


def _status_change(tool_call_id: str, status: events.CallStatus) -> ToolCallChanged:
    return ToolCallChanged(id=tool_call_id, status=status)
