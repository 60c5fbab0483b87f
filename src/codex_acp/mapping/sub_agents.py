"""The sub-agents that an item of a thread names, read from its plain JSON.

Source: Codex schema ``CollabAgentToolCallThreadItem``, ``SubAgentActivityThreadItem``. Read before
an item is decoded or shown: whoever wants to hear a sub-agent must do so at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    SessionMessage,
    TextChunk,
    ToolCallAnnounced,
    ToolCallChanged,
    UserMessage,
    tool_call_id,
)
from codex_acp.mapping.items import whole_item
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.routing.display import inline, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.events import SessionEvent

NAMING: Final = frozenset({"item/started", "item/completed"})
"""The notifications whose items may name one."""
MAX_SHOWN: Final = 64
"""Sub-agents shown of one session: Codex runs few at a time, a hostile model starts hundreds."""
MORE_THAN_SHOWN: Final = f"What more than {MAX_SHOWN} sub-agents of this session do is not shown"
DESCRIPTION_LIMIT: Final = 500
"""Characters of a task that describe a sub-agent; the whole of it is its first message."""
TITLE_LIMIT: Final = 80
"""Characters of the name that the model has given it."""
_ROOT: Final = "root"
"""The first name of a path, that of the thread which no agent started."""


def named_by(thread_id: str, item: JsonValue) -> Iterator[SubAgent]:
    """Yield the sub-agents that an item of this thread names, as far as it describes them."""
    if not isinstance(item, dict):
        return
    call_id, kind = tool_call_id(_text(item.get("id")) or ""), item.get("type")
    if kind == "collabAgentToolCall":
        receivers = item.get("receiverThreadIds")
        started = item.get("tool") == "spawnAgent"
        prompt = _text(item.get("prompt")) if started else None
        description = prompt and shortened(visible(prompt, multiline=True), DESCRIPTION_LIMIT)
        for receiver in receivers if isinstance(receivers, list) else ():
            if isinstance(receiver, str) and receiver:
                yield SubAgent(
                    receiver, thread_id, call_id, description=description, started=started
                )
    elif kind == "subAgentActivity":
        child, path = _text(item.get("agentThreadId")), _text(item.get("agentPath")) or ""
        names = [name for name in path.split("/") if name]
        if child and names != [_ROOT]:
            title = shortened(visible(names[-1]), TITLE_LIMIT) if names else None
            yield SubAgent(child, thread_id, call_id, title=title, started=True)


def told_in_child(event: SessionEvent, agent: SubAgent) -> SessionEvent:
    """An event of a sub-agent's thread as its session tells it: its task is no person's message."""
    if isinstance(event, UserMessage):
        return SessionMessage(event.message_id, event.content, agent.parent_id, agent.thread_id)
    if isinstance(event, ToolCallAnnounced | ToolCallChanged):
        event.stoppable = None  # of a sub-agent's session all that can be stopped is its turn
    return event


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


# Write a sub-agent's work as lines of the tool call that started it.

MAX_LINES: Final = 40
"""The newest lines of one sub-agent that are kept; how many went before is said."""
WORDS_LIMIT: Final = 400
"""Characters of one message of a sub-agent."""
_ENDS: Final = {"failed": "failed", "cancelled": "cancelled", "in_progress": "running"}


class SubAgentNotes:
    """Of one tool call, and of the sub-agents below the one that it started."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._before: list[CallContent] = []
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._count = 0

    def begun_with(self, event: SessionEvent) -> None:
        """The tool call itself is told: what it shows stays above the lines."""
        if isinstance(event, ToolCallAnnounced | ToolCallChanged) and event.id == self._call_id:
            self._before = list(event.content or self._before)

    def add(self, agent: SubAgent, item: ThreadItem, client: ClientFeatures) -> bool:
        """An item of a sub-agent is over; whether that is worth a line."""
        added = False
        for event in whole_item(SessionState(client), item, turn_running=False):
            if isinstance(event, ToolCallAnnounced):
                end = _ENDS.get(event.status)
                self.say(agent, event.title if end is None else f"{event.title} ({end})")
                added = True
            elif isinstance(event, TextChunk) and event.text.strip():
                self.say(agent, f"said {inline(event.text, WORDS_LIMIT)}")
                added = True
        return added

    def say(self, agent: SubAgent, line: str) -> None:
        """One line about a sub-agent."""
        self._lines.append(f"- {inline(agent.title or agent.thread_id)}: {line}")
        self._count += 1

    def shown(self) -> ToolCallChanged:
        """The tool call with all lines that are kept."""
        earlier = self._count - len(self._lines)
        first = [f"({earlier:,} earlier lines are not shown)"] if earlier else []
        text = "\n".join(["What the sub-agent did:", *first, *self._lines])
        return ToolCallChanged(id=self._call_id, content=[*self._before, TextBlock(text)])
