"""PURE: collect the result of a prompt from its updates: messages, tool calls and plan.

Owns patching a tool call, and joining pieces to messages. Must not know how updates arrive.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from codex_acp._json import text_at, value_at
from codex_acp.acp import types
from codex_acp.acp.dialects import is_unstable
from codex_acp.acp.types import SessionUpdate, UnknownVariant
from codex_acp.runtime.errors import AnswerTooLarge

if TYPE_CHECKING:
    from codex_acp.jsonrpc import Notification

    # `ToolCall.patched` repeats this union, because the API reference shows the signature.
    _ToolCallUpdate: TypeAlias = (
        types.ToolCallSessionUpdate | types.ToolCallUpdateSessionUpdate | types.ToolCallUpdate
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call with all its updates applied. Source: the protocol's page on tool calls."""

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
        """Return the call with the fields that the update sets; null changes nothing."""
        changes: dict[str, Any] = {}
        for name in update.model_fields_set & _PATCHED:
            value = getattr(update, name)
            if value is not None:
                changes[name] = tuple(value) if name in ("content", "locations") else value
        return replace(self, **changes)


_PATCHED = frozenset(ToolCall.__dataclass_fields__) - {"tool_call_id"}


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The result of a prompt."""

    stop_reason: types.StopReason
    messages: tuple[str, ...]
    """The agent's complete messages; the last one usually is the answer."""
    thoughts: str
    tool_calls: tuple[ToolCall, ...]
    """Tool calls in the order in which they began, with all their updates."""
    plan: tuple[types.PlanEntry, ...]
    response: types.PromptResponse
    """The agent's answer to ``session/prompt``, with unknown fields in ``model_extra``."""

    @property
    def text(self) -> str:
        """All messages, separated by empty lines."""
        return "\n\n".join(self.messages)


ANSWER_LIMIT: Final = 256 * 1024 * 1024
"""Bytes in memory of one prompt's messages, thoughts and tool calls, or of a session's history. A
prompt of hours has fewer; an agent that never stops would fill the memory of this process."""


@dataclass(slots=True)
class Record:
    """Collects the updates of one prompt."""

    tool_calls: dict[str, ToolCall] = field(default_factory=dict)
    plan: tuple[types.PlanEntry, ...] = ()
    size: int = 0
    """Estimated bytes in memory, without the plan, which each update of a plan replaces."""
    _sizes: dict[tuple[str, str], int] = field(default_factory=dict)
    """Id of a tool call and name of its field → the bytes of its latest value."""
    _messages: list[tuple[str | None, list[str]]] = field(default_factory=list)
    """Id and pieces of each message; None if the agent gives no ids."""
    _thoughts: list[str] = field(default_factory=list)
    _in_message: bool = False
    """Whether no tool call has followed the last piece of a message."""

    def take(self, update: Update) -> None:
        if isinstance(update, types.AgentMessageChunkSessionUpdate):
            text, message_id = text_of(update.content), update.message_id
            self.size += _size_of(text)
            same_id = message_id == (self._messages[-1][0] if self._messages else None)
            # Without message ids, text after a tool call is another message.
            continues = same_id and (message_id is not None or self._in_message)
            if continues:
                self._messages[-1][1].append(text)
            else:
                self._messages.append((message_id, [text]))
                self.size += _size_of((message_id, ()))  # the entry in the list, and its pieces
            self._in_message = True
        elif isinstance(update, types.ToolCallSessionUpdate | types.ToolCallUpdateSessionUpdate):
            self.take_tool_call(update)
            self._in_message = False
        elif isinstance(update, types.AgentThoughtChunkSessionUpdate):
            self._thoughts.append(text_of(update.content))
            self.size += _size_of(self._thoughts[-1])
        elif isinstance(update, types.PlanSessionUpdate):
            self.plan = tuple(update.entries)

    def take_tool_call(self, update: _ToolCallUpdate) -> ToolCall:
        """Apply an update to a tool call, which may be new; return the call."""
        call_id = update.tool_call_id
        call = (self.tool_calls.get(call_id) or ToolCall(call_id)).patched(update)
        if self.too_large is None:  # keep no more, also of questions between prompts
            self.tool_calls[call_id] = call
            for name in update.model_fields_set & ToolCall.__dataclass_fields__.keys():
                if (value := getattr(update, name)) is not None:
                    key = call_id, name
                    size = _size_of((key, value))
                    self.size += size - self._sizes.get(key, 0)
                    self._sizes[key] = size
        return call

    @property
    def too_large(self) -> AnswerTooLarge | None:
        """The error if the prompt has more bytes than `ANSWER_LIMIT`, or None."""
        return AnswerTooLarge(ANSWER_LIMIT) if self.size > ANSWER_LIMIT else None

    def result(self, response: types.PromptResponse) -> PromptResult:
        """Return the result, with the agent's answer."""
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
        return tuple("".join(parts) for _, parts in self._messages)


class History:
    """The newest `ANSWER_LIMIT` bytes of the updates that an agent replays for a session."""

    def __init__(self) -> None:
        self.updates: deque[Update] = deque()
        self.left_out = 0
        """Number of older updates that are not kept."""
        self._size = 0

    def take(self, update: Update) -> None:
        self.updates.append(update)
        self._size += _size_of(update)
        while self._size > ANSWER_LIMIT:
            self._size -= _size_of(self.updates.popleft())
            self.left_out += 1


_VALUE_SIZE: Final = 64
"""Bytes of a small value, and of the place where it is kept."""


def _size_of(value: object) -> int:
    """Estimate the bytes that a value takes in memory."""
    if isinstance(value, types.WireModel):
        value = dict(value)
    if isinstance(value, dict):
        return _VALUE_SIZE + sum(_size_of(key) + _size_of(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return _VALUE_SIZE + sum(map(_size_of, value))
    return max(_VALUE_SIZE, getsizeof(value))


# Updates as a program gets them, unknown kinds included.

Update: TypeAlias = SessionUpdate | UnknownVariant
"""An update by its class in `codex_acp.acp.types`. UnknownVariant: an update of a kind that this
schema lacks, with all its fields in ``model_extra``."""


def unknown_update(notification: Notification) -> tuple[str, UnknownVariant] | None:
    """Return the session id and the update of an unknown kind; None for any other notification."""
    params = notification.params
    session_id, kind = text_at(params, "sessionId"), text_at(params, "update", "sessionUpdate")
    if notification.method != "session/update" or session_id is None:
        return None
    if kind is None or kind in _known_kinds():
        return None
    return session_id, UnknownVariant.model_validate(value_at(params, "update"))


@cache
def _known_kinds() -> frozenset[str]:
    """Return the kinds of the stable schema, which the connection decodes."""
    classes = get_args(get_args(SessionUpdate)[0])  # of Annotated[Union[...], ...]
    stable = (each for each in classes if not is_unstable(each))
    return frozenset(each.model_fields["session_update"].default for each in stable)


def kind_of(update: Update) -> str:
    """Return the update's kind on the wire, like ``agent_message_chunk``; also an unknown kind."""
    if isinstance(update, UnknownVariant):
        return str(update.wire().get("sessionUpdate"))
    return update.session_update


def text_of(content: types.ContentBlock) -> str:
    """Return the text of a text block; empty for other blocks."""
    return content.text if isinstance(content, types.TextContentBlock) else ""
