"""What concerns a session as a whole, as ACP v2's ``session/update``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.mapping.events.session_events import (
    CommandsChanged,
    CompactionChanged,
    Notice,
    OptionsChanged,
    PlanChanged,
    StateChanged,
    TitleChanged,
    UsageChanged,
)
from codex_acp.mapping.session.rate_limits import usage_update
from codex_acp.mapping.session.stop_reasons import PromptFailure, PromptStop
from codex_acp.mapping.v2.offers import command, option

if TYPE_CHECKING:
    from codex_acp.acp._generated.v2.models import SessionUpdate
    from codex_acp.mapping.session.stop_reasons import PromptEnd

__all__ = ["session_update"]

OfSession: TypeAlias = (
    PlanChanged
    | UsageChanged
    | TitleChanged
    | CommandsChanged
    | OptionsChanged
    | CompactionChanged
    | Notice
    | StateChanged
)
"""The events that are about no message and no tool call; they come rarely."""


def session_update(event: OfSession) -> SessionUpdate:
    """Written as JSON and read as its model, which is loaded when there is one."""
    update: SessionUpdate = MODELS.decode("SessionUpdate", _written(event), "an update")
    return update


def _written(event: OfSession) -> dict[str, Any]:
    match event:
        case PlanChanged():
            # Codex has no priorities, ACP requires one.
            entries = [
                {"content": step.content, "priority": "medium", "status": step.status}
                for step in event.steps
            ]
            plan = {"type": "items", "planId": event.plan_id, "entries": entries}
            return {"sessionUpdate": "plan_update", "plan": plan}
        case UsageChanged():
            return usage_update(event)
        case TitleChanged():
            return {"sessionUpdate": "session_info_update", "title": event.title}
        case CommandsChanged():
            commands = [command(each) for each in event.commands]
            return {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        case OptionsChanged():
            options = [option(each) for each in event.options]
            return {"sessionUpdate": "config_option_update", "configOptions": options}
        case CompactionChanged():
            compaction = {"compactionId": event.compaction_id, "status": event.status}
            return {"sessionUpdate": "compaction_update", **compaction}
        case Notice():
            notice = {"severity": event.severity, "title": event.title}
            if event.details:
                notice["description"] = event.details
            return {"sessionUpdate": "notice", **notice}
        case StateChanged():
            return {"sessionUpdate": "state_update", **_state(event)}
        case _:
            assert_never(event)


def _state(event: StateChanged) -> dict[str, Any]:
    state: dict[str, Any] = {"state": event.state}
    if event.end is not None:
        state |= _stop(event.end)
    if event.background is not None:
        state["background"] = [{"type": "terminal", "terminalId": t} for t in event.background]
    return state


def _stop(end: PromptEnd) -> dict[str, Any]:
    match end:
        case PromptStop():
            return {"stopReason": end.reason}
        case PromptFailure():
            error: dict[str, Any] = {"code": end.code, "message": end.message}
            if end.data:
                error["data"] = end.data
            return {"stopReason": "error", "error": error}
        case _:
            assert_never(end)
