"""The steps that one scripted model response is made of, as plain data.

Owns the vocabulary of a script; knows nothing of HTTP, of server-sent events or of the
app-server. A response is a sequence of steps and ends with an implicit ``response.completed``
unless its last step is a different end (:class:`Disconnect`, :class:`Incomplete`,
:class:`Failed`) or it is a :class:`Fail`, an HTTP error in place of a stream.

Source: the OpenAI Responses API, "Streaming events", and what Codex reads of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """One assistant message, streamed as ``deltas``; ``pause`` is the seconds between two."""

    deltas: tuple[str, ...]
    pause: float

    def __init__(self, *deltas: str, pause: float = 0.0) -> None:
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "pause", pause)


@dataclass(frozen=True, slots=True, init=False)
class Reasoning:
    """A reasoning item whose summary is streamed as ``deltas``; Codex shows it as reasoning."""

    deltas: tuple[str, ...]
    pause: float

    def __init__(self, *deltas: str, pause: float = 0.0) -> None:
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "pause", pause)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call. MCP tools have the ``namespace`` ``mcp__<server>``.

    Without ``call_id`` the server makes one that is unique to the response and the step.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    namespace: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CustomToolCall:
    """A call of a freeform tool, whose ``input`` is text and not JSON (``apply_patch``)."""

    name: str
    input: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts that the response reports at its end; the total is their sum."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Send what came before, then nothing for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gate:
    """Send what came before, then nothing until ``ScriptedModel.open(name)`` is called."""

    name: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer the request with an HTTP error instead of a stream; the only step of its response.

    A mapping as ``body`` is sent as JSON. Codex shows the body of status 400 as it is, that of
    500 not at all.
    """

    status: int = 500
    body: str | Mapping[str, object] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Cut the connection here, with no end event; the last step of its response."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """End with ``response.incomplete``; the last step of its response."""

    reason: str = "max_output_tokens"


@dataclass(frozen=True, slots=True)
class Failed:
    """End with ``response.failed``; the last step of its response.

    Codex gives ``context_length_exceeded``, ``insufficient_quota``, ``usage_not_included``,
    ``rate_limit_exceeded``, ``invalid_prompt`` and ``server_is_overloaded`` a meaning of their own.
    """

    code: str = "server_error"
    message: str = "The scripted model failed."


Step: TypeAlias = (
    Text
    | Reasoning
    | ToolCall
    | CustomToolCall
    | Usage
    | Delay
    | Gate
    | Fail
    | Disconnect
    | Incomplete
    | Failed
)
"""One part of an answer of the scripted model."""


def words(count: int, *, pause: float = 0.0) -> Text:
    """A message of ``count`` deltas of three words each, every one different; for benchmarks."""
    return Text(*(f"word {index} flows " for index in range(count)), pause=pause)
