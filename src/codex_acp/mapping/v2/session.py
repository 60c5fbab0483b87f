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
    SessionMessage,
    StateChanged,
    SubAgentChanged,
    TitleChanged,
    UsageChanged,
)
from codex_acp.mapping.session.rate_limits import usage_update
from codex_acp.mapping.session.states import state_of, sub_agent_of
from codex_acp.mapping.v2.content import block_of
from codex_acp.mapping.v2.offers import command, option
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.acp._generated.v2.models import SessionUpdate

OfSession: TypeAlias = (
    PlanChanged
    | UsageChanged
    | TitleChanged
    | CommandsChanged
    | OptionsChanged
    | CompactionChanged
    | Notice
    | StateChanged
    | SubAgentChanged
    | SessionMessage
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
            return {"sessionUpdate": "state_update", **state_of(event)}
        case SubAgentChanged():
            return {"sessionUpdate": "subagent_update", **sub_agent_of(event)}
        case SessionMessage():
            return {
                "sessionUpdate": "session_message",
                "messageId": event.message_id,
                "senderSessionId": event.sender,
                "recipientSessionId": event.recipient,
                "content": [plain(block_of(part)) for part in event.content],
            }
        case _:
            assert_never(event)
