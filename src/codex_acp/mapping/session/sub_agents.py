"""The sub-agents that an item of a thread names, read from its plain JSON.

Source: Codex schema ``CollabAgentToolCallThreadItem``, ``SubAgentActivityThreadItem``. Read before
an item is decoded or shown: whoever wants to hear a sub-agent must do so at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._record import record
from codex_acp.mapping.events.session_events import (
    SessionMessage,
    ToolCallAnnounced,
    ToolCallChanged,
    UserMessage,
    tool_call_id,
)
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import SessionEvent

NAMING: Final = frozenset({"item/started", "item/completed"})
"""The notifications whose items may name one."""

DESCRIPTION_LIMIT: Final = 500
"""Characters of a task that describe a sub-agent; the whole of it is its first message."""

TITLE_LIMIT: Final = 80
"""Characters of the name that the model has given it."""

_ROOT: Final = "root"
"""The first name of a path, that of the thread which no agent started."""


@record
class SubAgent:
    """A thread that another one has started, and what is known of it."""

    thread_id: str
    parent_id: str
    call_id: str
    """The item that started it, or was first to name it."""
    title: str | None = None
    description: str | None = None
    turn_id: str | None = None
    """Turn that runs in the sub-agent's thread."""
    last_turn: str | None = None
    """Turn that ended last."""
    started: bool = False
    """Whether Codex says that it was started there; else a model may have named any thread."""
    replayed: frozenset[str] = frozenset()
    """The items of its history that were shown already."""

    def began(self, turn_id: str | None) -> bool:
        """Note that a turn runs; False for one that has ended: it comes behind its own end."""
        if turn_id is not None and turn_id == self.last_turn:
            return False
        self.turn_id = turn_id
        return True

    def ended(self, turn_id: str | None) -> None:
        """Note that nothing runs."""
        self.turn_id, self.last_turn = None, turn_id


def named_by(thread_id: str, item: JsonValue) -> Iterator[SubAgent]:
    """Those that an item of this thread names, as far as it knows of them."""
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


def session_label(agent: SubAgent) -> str:
    """Return a sub-agent's name for a line to a person."""
    return agent.title or agent.thread_id


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None
