"""Write a sub-agent's work as lines of the tool call that started it.

For a client that does not know sub-agents' sessions (ACP v1 without ``subagents``). Bounded: a
sub-agent may work for hours.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.session_events import TextChunk, ToolCallAnnounced, ToolCallChanged
from codex_acp.mapping.items import whole_item
from codex_acp.mapping.session.sub_agents import session_label
from codex_acp.mapping.state import SessionState
from codex_acp.routing.content import text_content
from codex_acp.routing.display import inline

if TYPE_CHECKING:
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.mapping.events.content import CallContent
    from codex_acp.mapping.events.session_events import SessionEvent
    from codex_acp.mapping.session.sub_agents import SubAgent

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
            line = _line(event)
            if line is not None:
                self.say(agent, line)
                added = True
        return added

    def say(self, agent: SubAgent, line: str) -> None:
        """One line about a sub-agent."""
        self._lines.append(f"- {inline(session_label(agent))}: {line}")
        self._count += 1

    def shown(self) -> ToolCallChanged:
        """The tool call with all lines that are kept."""
        earlier = self._count - len(self._lines)
        first = [f"({earlier:,} earlier lines are not shown)"] if earlier else []
        text = "\n".join(["What the sub-agent did:", *first, *self._lines])
        return ToolCallChanged(id=self._call_id, content=[*self._before, text_content(text)])


def _line(event: SessionEvent) -> str | None:
    if isinstance(event, ToolCallAnnounced):
        end = _ENDS.get(event.status)
        return event.title if end is None else f"{event.title} ({end})"
    if isinstance(event, TextChunk) and event.text.strip():
        return f"said {inline(event.text, WORDS_LIMIT)}"
    return None
