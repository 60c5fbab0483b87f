"""The tool call of each item that is one: a function of the item alone.

Only looks at files, and what streamed of an output that the item lacks, come from outside. So an
item that is replayed shows what it showed when it was live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp._record import replace
from codex_acp.codex._generated import models
from codex_acp.codex.approvals.actions import created_paths, move_target
from codex_acp.mapping.calls.agent_calls import agent_call
from codex_acp.mapping.calls.command_calls import command_call
from codex_acp.mapping.calls.file_changes import file_change_call
from codex_acp.mapping.calls.mcp_calls import dynamic_call, function_output_call, mcp_call
from codex_acp.mapping.calls.other_calls import (
    image_generation_call,
    image_view_call,
    sleep_call,
    unknown_call,
    unknown_item_id,
    web_search_call,
)
from codex_acp.mapping.events.session_events import tool_call_id
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.mapping.calls.call import Call, Phase
    from codex_acp.mapping.calls.open_calls import ToolItem
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks


def call_of(state: SessionState, item: ToolItem, phase: Phase, streamed: str | None = None) -> Call:
    """The tool call of an item. Of ``state`` only the inputs are read.

    Raw output stands for an end, and is left out before: a later update could not take it back.
    """
    call = _call_of(state, item, phase, streamed)
    return call if phase == "over" else replace(call, raw_output=None)


def last_phase(item: ToolItem) -> Phase:
    """Where an item stands of which nothing more is told."""
    return "cut_off" if status_of(item) == "inProgress" else "over"


def _call_of(state: SessionState, item: ToolItem, phase: Phase, streamed: str | None) -> Call:
    match item:
        case models.CommandExecutionThreadItem():
            terminal = state.client.shows_terminals
            return command_call(
                item,
                phase,
                looks_of(state, tool_call_id(item.id)),
                terminal=terminal,
                streamed=streamed,
            )
        case models.FileChangeThreadItem():
            return file_change_call(item, phase, looks_of(state, tool_call_id(item.id)))
        case models.McpToolCallThreadItem():
            return mcp_call(item, phase)
        case models.DynamicToolCallThreadItem():
            return dynamic_call(item, phase)
        case models.FunctionCallOutputThreadItem():
            return function_output_call(item, phase)
        case models.CollabAgentToolCallThreadItem() | models.SubAgentActivityThreadItem():
            return agent_call(item, phase)
        case models.WebSearchThreadItem():
            return web_search_call(item, phase)
        case models.ImageViewThreadItem():
            return image_view_call(item, phase)
        case models.ImageGenerationThreadItem() | models.FileIdImageGenerationThreadItem():
            return image_generation_call(item, phase)
        case models.SleepThreadItem():
            return sleep_call(item, phase)
        case UnknownVariant():
            return unknown_call(item, phase)
        case _:
            assert_never(item)


def looks_of(state: SessionState, call_id: str) -> Looks:
    """Return how the disk has the paths of an item, as far as that was kept from its start."""
    open_call = state.open_calls.get(call_id)
    return state.looks if open_call is None else {**state.looks, **open_call.looks}


def looks_kept(item: ToolItem, looks: Looks) -> Looks:
    """Return the looks to be kept from an item's start: a later one may be behind what it does."""
    kept: list[str] = []
    if isinstance(item, models.FileChangeThreadItem):
        moved = [change.path for change in item.changes if move_target(change) is not None]
        kept = [*created_paths(item.changes), *moved]
    elif isinstance(item, models.CommandExecutionThreadItem):
        kept = [item.cwd]
    return {path: looks[path] for path in kept if path in looks}


def id_of(item: ToolItem) -> str:
    """The id of its tool call."""
    return tool_call_id(unknown_item_id(item) if isinstance(item, UnknownVariant) else item.id)


def status_of(item: models.ThreadItem) -> str | None:
    """How an item stands by its own word; None of one whose type has none."""
    status = item.wire().get("status") if isinstance(item, UnknownVariant) else None
    status = getattr(item, "status", status)
    return status if isinstance(status, str) else None
