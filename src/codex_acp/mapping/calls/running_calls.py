"""Map the updates of a running tool call: output, input, progress, diffs that grow.

Clients that show no terminal get the end of an output again and again, since content can only be
replaced: how often and how long, `output` bounds. Time is ``state.now``; what has to wait is
sent by `flush_due` when `due` says so, or with the end of the tool call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.command_calls import command_content
from codex_acp.mapping.calls.file_changes import changes_update, file_change_call
from codex_acp.mapping.calls.item_calls import call_of, id_of, looks_kept, looks_of
from codex_acp.mapping.calls.mcp_calls import arguments_content
from codex_acp.mapping.calls.open_calls import OpenCall
from codex_acp.mapping.calls.output import UPDATE_COST, WHOLE_LIMIT, size_of_text
from codex_acp.mapping.events.session_events import (
    SessionEvents,
    TerminalOutput,
    ToolCallChanged,
    tool_call_id,
)
from codex_acp.mapping.prompt.content_blocks import output_block, size_of
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from codex_acp.mapping.calls.call import Call
    from codex_acp.mapping.calls.open_calls import ToolItem
    from codex_acp.mapping.events.content import CallContent
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
    """When (as ``state.now``) something that waits is to be sent by `flush_due`; None: nothing."""
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
    """The diffs of a file change that wait, whatever the time."""
    item = open_call.item
    if not open_call.changes_cost or not isinstance(item, models.FileChangeThreadItem):
        return ()
    open_call.changes.spend(open_call.changes_cost, state.now)
    open_call.changes_cost = 0
    return (changes_update(call_id, item, open_call.content, looks_of(state, call_id)),)


def begin_item(state: SessionState, item: ToolItem) -> Call:
    """An item runs; return its tool call. What repeats it while it runs is a cut of it."""
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


def content_now(state: SessionState, open_call: OpenCall) -> list[CallContent]:
    """The content of a running command or MCP call, with the end of what came so far."""
    if _in_terminal(state, open_call):
        return list(open_call.content)
    tail = open_call.output.last() if open_call.output.shown else ""
    return [*open_call.above, *([output_block(tail)] if tail else [])]


def more_output(
    state: SessionState, item_id: str, text: str, *, typed: bool = False
) -> SessionEvents:
    """A running command has said ``text``, or it was ``typed`` into it."""
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
