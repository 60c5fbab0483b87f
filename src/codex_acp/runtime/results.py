"""Collects the result of a prompt: text, tool calls and plan, put together from its updates.

Pure. Owns how a tool call is patched and what one message is. Must not know how updates arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from codex_acp._json import text_at, value_at
from codex_acp.acp import types
from codex_acp.acp.dialects import is_unstable
from codex_acp.acp.types import SessionUpdate, TextContentBlock, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.acp.types import ContentBlock
    from codex_acp.jsonrpc.message import Notification

    _ToolCallUpdate: TypeAlias = (
        types.ToolCallSessionUpdate | types.ToolCallUpdateSessionUpdate | types.ToolCallUpdate
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as its last update left it. Source: the protocol's page on tool calls."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: types.ToolKind | None = None
    status: types.ToolCallStatus | None = None
    content: tuple[types.ToolCallContent, ...] = ()
    locations: tuple[types.ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None

    def patched(
        self,
        update: types.ToolCallSessionUpdate
        | types.ToolCallUpdateSessionUpdate
        | types.ToolCallUpdate,
    ) -> ToolCall:
        """With what the update sets; lists are replaced as a whole, null changes nothing."""
        changes: dict[str, Any] = {}
        for name in update.model_fields_set & _PATCHED:
            value = getattr(update, name)
            if value is not None:
                changes[name] = tuple(value) if name in ("content", "locations") else value
        return replace(self, **changes)


_PATCHED = frozenset(ToolCall.__dataclass_fields__) - {"tool_call_id"}


@dataclass(frozen=True, slots=True)
class PromptResult:
    """How a prompt ended, and what was said and done."""

    stop_reason: types.StopReason
    messages: tuple[str, ...]
    """The agent's messages, each whole; the last one usually is the answer."""
    thoughts: str
    tool_calls: tuple[ToolCall, ...]
    """In the order in which they began, each as it was left."""
    plan: tuple[types.PlanEntry, ...]
    response: types.PromptResponse
    """The agent's answer as it came, with fields that this schema lacks in ``model_extra``."""

    @property
    def text(self) -> str:
        """All messages, with an empty line between two."""
        return "\n\n".join(self.messages)


@dataclass(slots=True)
class Record:
    """Takes the updates of one prompt in order."""

    tool_calls: dict[str, ToolCall] = field(default_factory=dict)
    plan: tuple[types.PlanEntry, ...] = ()
    _messages: list[tuple[str | None, list[str]]] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _in_message: bool = False

    def take(self, update: Update) -> None:
        """Note what the update changes."""
        if isinstance(update, types.AgentMessageChunkSessionUpdate):
            text, message_id = text_of(update.content), update.message_id
            last = self._messages[-1] if self._messages else None
            same = last is not None and message_id == last[0]
            if last is None or not same or (message_id is None and not self._in_message):
                self._messages.append((message_id, [text]))
            else:
                last[1].append(text)
            self._in_message = True
        elif isinstance(update, types.ToolCallSessionUpdate | types.ToolCallUpdateSessionUpdate):
            self.take_tool_call(update)
            # Without message ids, what is said after a tool call is a message of its own.
            self._in_message = False
        elif isinstance(update, types.AgentThoughtChunkSessionUpdate):
            self._thoughts.append(text_of(update.content))
        elif isinstance(update, types.PlanSessionUpdate):
            self.plan = tuple(update.entries)

    def take_tool_call(self, update: _ToolCallUpdate) -> ToolCall:
        """Patch the tool call, which may be new; gives it as it is now."""
        call_id = update.tool_call_id
        call = self.tool_calls.get(call_id) or ToolCall(call_id)
        call = self.tool_calls[call_id] = call.patched(update)
        return call

    def result(self, response: types.PromptResponse) -> PromptResult:
        """All of it, with the agent's answer."""
        return PromptResult(
            stop_reason=response.stop_reason,
            messages=self.messages,
            thoughts="".join(self._thoughts),
            tool_calls=tuple(self.tool_calls.values()),
            plan=self.plan,
            response=response,
        )

    @property
    def messages(self) -> tuple[str, ...]:
        """The agent's messages so far."""
        return tuple("".join(parts) for _, parts in self._messages)


# The updates of a session as they are given to a program, those of an unknown kind included.

Update: TypeAlias = SessionUpdate | UnknownVariant
"""An update by its class in `codex_acp.acp.types`. UnknownVariant: an update of a kind that this
schema lacks, with all its fields in ``model_extra``."""


def unknown_update(notification: Notification) -> tuple[str, UnknownVariant] | None:
    """Return session and update of a newer kind; None for what is merely malformed."""
    params = notification.params
    session_id, kind = text_at(params, "sessionId"), text_at(params, "update", "sessionUpdate")
    if notification.method != "session/update" or session_id is None:
        return None
    if kind is None or kind in _known_kinds():
        return None
    return session_id, UnknownVariant.model_validate(value_at(params, "update"))


@cache
def _known_kinds() -> frozenset[str]:
    stable = (each for each in get_args(get_args(SessionUpdate)[0]) if not is_unstable(each))
    return frozenset(one.model_fields["session_update"].default for one in stable)


def kind_of(update: Update) -> str:
    """The update's kind on the wire, as ``agent_message_chunk``; also of one that is not known."""
    if isinstance(update, UnknownVariant):
        return str(update.wire().get("sessionUpdate"))
    return update.session_update


def text_of(content: ContentBlock) -> str:
    """The text of a block of text; nothing of any other."""
    return content.text if isinstance(content, TextContentBlock) else ""
