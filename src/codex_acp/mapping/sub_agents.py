"""Find the sub-agents that an item names, and show their work in the client.

Reads plain JSON, before an item is decoded or shown: the adapter must subscribe to a sub-agent at
once to get all of its notifications.
Source: Codex schema ``CollabAgentToolCallThreadItem``, ``SubAgentActivityThreadItem``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, text_at
from codex_acp.mapping import events
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.items import show_history_item
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.routing.display import inline, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.content import CallContent

NAMING: Final = frozenset({"item/started", "item/completed"})
"""Notifications whose items may name a sub-agent."""
MAX_SHOWN: Final = 64
"""Sub-agents of one session that are shown: Codex runs few at a time, a hostile model hundreds."""
MORE_THAN_SHOWN: Final = f"Only {MAX_SHOWN} sub-agents of this session are shown"
DESCRIPTION_LIMIT: Final = 500
"""Characters of a sub-agent's task in its description; its first message has the whole task."""
TITLE_LIMIT: Final = 80
"""Characters of the name that the model has given the sub-agent."""
_ROOT: Final = "root"
"""The first name in the path of every agent: the session's own thread."""


def agents_named_by(thread_id: str, item: JsonValue) -> Iterator[SubAgent]:
    """Yield the sub-agents that an item of the thread names, with the facts that the item tells."""
    if not isinstance(item, dict):
        return
    call_id, kind = events.tool_call_id(text_at(item, "id") or ""), item.get("type")
    if kind == "collabAgentToolCall":
        started, description = item.get("tool") == "spawnAgent", None
        if started and (task := text_at(item, "prompt")):
            description = shortened(visible(task, multiline=True), DESCRIPTION_LIMIT)
        for receiver in list_at(item, "receiverThreadIds"):
            if isinstance(receiver, str) and receiver:
                yield SubAgent(
                    receiver, thread_id, call_id, description=description, started=started
                )
    elif kind == "subAgentActivity":
        child, path = text_at(item, "agentThreadId"), text_at(item, "agentPath") or ""
        names = [name for name in path.split("/") if name]
        if child and names != [_ROOT]:
            title = shortened(visible(names[-1]), TITLE_LIMIT) if names else None
            yield SubAgent(child, thread_id, call_id, title=title, started=True)


def as_event_of_sub_agent(event: events.SessionEvent, agent: SubAgent) -> events.SessionEvent:
    """Return an event of a sub-agent's thread for the sub-agent's session: there a task is a
    `SessionMessage`, because no person wrote the task."""
    if isinstance(event, events.UserMessage):
        sender, recipient = agent.parent_id, agent.thread_id
        return events.SessionMessage(event.message_id, event.content, sender, recipient)
    if isinstance(event, events.ToolCallAnnounced | events.ToolCallChanged):
        event.stoppable = None  # in a sub-agent's session only the turn can be stopped
    return event


# Show the work of a sub-agent as lines of the tool call that started it.

MAX_LINES: Final = 40
"""Lines of one tool call that are kept: the newest. Earlier lines are counted."""
WORDS_LIMIT: Final = 400
"""Characters of one message of a sub-agent."""
_ENDINGS: Final = {"failed": "failed", "cancelled": "cancelled", "in_progress": "running"}
"""Status of a tool call → word in its line; a completed call has no word."""


class SubAgentNotes:
    """The lines of one tool call, about the sub-agent that the call started and its sub-agents."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._above: list[CallContent] = []
        """Content of the tool call itself, which stays above the lines."""
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._count = 0
        """All lines, kept or not."""

    def note_event(self, event: events.SessionEvent) -> None:
        """Note the content of an event if it is about the tool call."""
        if (
            isinstance(event, events.ToolCallAnnounced | events.ToolCallChanged)
            and event.id == self._call_id
        ):
            self._above = list(event.content or self._above)

    def add_item(self, agent: SubAgent, item: ThreadItem, features: ClientFeatures) -> bool:
        """Add lines about an ended item of a sub-agent; return whether the item gave any line."""
        added = False
        for event in show_history_item(SessionState(features), item, turn_running=False):
            if isinstance(event, events.ToolCallAnnounced):
                end = _ENDINGS.get(event.status)
                self.add_line(agent, event.title if end is None else f"{event.title} ({end})")
                added = True
            elif isinstance(event, events.TextChunk) and event.text.strip():
                self.add_line(agent, f"said {inline(event.text, WORDS_LIMIT)}")
                added = True
        return added

    def add_line(self, agent: SubAgent, line: str) -> None:
        """Add one line about a sub-agent."""
        self._lines.append(f"- {inline(agent.title or agent.thread_id)}: {line}")
        self._count += 1

    def shown(self) -> events.ToolCallChanged:
        """Return the change of the tool call that shows the kept lines."""
        earlier = self._count - len(self._lines)
        first = [f"({earlier:,} earlier lines are not shown)"] if earlier else []
        text = "\n".join(["What the sub-agent did:", *first, *self._lines])
        return events.ToolCallChanged(id=self._call_id, content=[*self._above, TextBlock(text)])
