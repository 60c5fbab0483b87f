"""Map Codex's work with its sub-agents to tool calls in a person's words.

Source: Codex schema ``CollabAgentToolCallThreadItem``, ``SubAgentActivityThreadItem``. What a
sub-agent does itself belongs to a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.call import Call, Phase, ending, structured
from codex_acp.mapping.events.session_events import tool_call_id
from codex_acp.routing.content import code_content, text_content
from codex_acp.routing.display import inline
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.mapping.events.content import CallContent

_TOOLS: Final = {
    "spawnAgent": "Start a sub-agent",
    "sendInput": "Give input to",
    "sendMessage": "Send a message to",
    "resumeAgent": "Resume",
    "wait": "Wait for",
    "closeAgent": "Close",
    "followupTask": "Give another task to",
    "interruptAgent": "Interrupt",
    "listAgents": "List the sub-agents",
}
"""Tool of the schema → what it does; those in `_ALONE` name no sub-agent."""

_ALONE: Final = frozenset({"spawnAgent", "listAgents"})

_STATES: Final = {
    "pendingInit": "starting",
    "running": "running",
    "interrupted": "interrupted",
    "completed": "done",
    "errored": "failed",
    "shutdown": "closed",
    "notFound": "not found",
}

_ACTIVITIES: Final = {
    "started": "started",
    "interacted": "was written to",
    "interrupted": "was interrupted",
    "completed": "is done",
}


def agent_call(
    item: models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem, phase: Phase
) -> Call:
    """The tool call of an item that is about sub-agents."""
    if isinstance(item, models.SubAgentActivityThreadItem):
        return _activity(item, phase)
    return _collab(item, phase)


def _collab(item: models.CollabAgentToolCallThreadItem, phase: Phase) -> Call:
    """A sub-agent is started, written to, waited for: the prompt, and how all of them are."""
    end = ending(item.status, phase)
    content: list[CallContent] = []
    if item.prompt:
        content.append(code_content(item.prompt))
    states = [
        f"- {inline(thread)}: {_STATES.get(state.status) or inline(state.status)}"
        + (f" ({inline(state.message)})" if state.message else "")
        for thread, state in item.agents_states.items()
    ]
    if states:
        content.append(text_content("\n".join(["Sub-agents:", *states])))
    return Call(
        id=tool_call_id(item.id),
        title=_title(item),
        kind="other",
        status=end.status,
        content=[*content, *end.content],
        raw_input=structured(
            tool=item.tool,
            receiverThreadIds=item.receiver_thread_ids,
            prompt=item.prompt,
            model=item.model,
            reasoningEffort=item.reasoning_effort,
        ),
        raw_output={"agentsStates": plain(item.agents_states)} if item.agents_states else None,
        name=str(item.tool),
    )


def _activity(item: models.SubAgentActivityThreadItem, phase: Phase) -> Call:
    """Something happened to a sub-agent."""
    activity = _ACTIVITIES.get(item.kind) or inline(item.kind)
    end = ending(None, phase)
    return Call(
        id=tool_call_id(item.id),
        title=f"Sub-agent {inline(item.agent_path)} {activity}",
        kind="other",
        status=end.status,
        content=end.content,
        raw_input=structured(
            kind=item.kind,
            agentPath=item.agent_path,
            agentThreadId=item.agent_thread_id,
            model=item.model,
            reasoningEffort=item.reasoning_effort,
        ),
    )


def _title(item: models.CollabAgentToolCallThreadItem) -> str:
    words = _TOOLS.get(item.tool)
    if words is None:
        return f"Sub-agents: {inline(item.tool)}"
    if item.tool in _ALONE:
        return words
    count = len(item.receiver_thread_ids)
    return f"{words} a sub-agent" if count == 1 else f"{words} {count or 'the'} sub-agents"
