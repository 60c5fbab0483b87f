"""Server-sent events of the Responses API: a scripted response as bytes and waits.

Pure. Owns the names and shapes of the events; does not send them.

Source: the OpenAI Responses API, "Streaming events". Only the fields that Codex reads are
sent. Item ids contain a token in place of the response's number, so that the bytes are made
once and :func:`personalise` is a plain replacement.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, TypeAlias, assert_never

from codex_acp.testing.model_steps import (
    CustomToolCall,
    Delay,
    Disconnect,
    Fail,
    Failed,
    Gate,
    Incomplete,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.testing.model_steps import Step

StreamPart: TypeAlias = bytes | Delay | Gate | Disconnect
"""Bytes to write in one go, or something to do between two writes."""

_TOKEN = secrets.token_hex(8)
"""Stands for the response's number; random, so that no scripted text can contain it."""


def encode_event(event: Mapping[str, object]) -> bytes:
    """One server-sent event; its name is the ``type`` of ``event``."""
    data = json.dumps(event, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


def encode_response(steps: Sequence[Step]) -> tuple[StreamPart, ...]:
    """The whole stream, with adjacent events joined to one piece of bytes.

    ``Fail`` is not a stream and must not be among ``steps``.
    """
    parts: list[StreamPart] = []
    waiting: list[bytes] = []
    for part in _parts(steps):
        if isinstance(part, bytes):
            waiting.append(part)
            continue
        if waiting:
            parts.append(b"".join(waiting))
            waiting = []
        parts.append(part)
    if waiting:
        parts.append(b"".join(waiting))
    return tuple(parts)


def personalise(data: bytes, number: int) -> bytes:
    """``data`` with ids that belong to the response given out as the ``number``-th."""
    return data.replace(_TOKEN.encode(), str(number).encode())


def _parts(steps: Sequence[Step]) -> Iterator[StreamPart]:
    yield encode_event({"type": "response.created", "response": {"id": f"resp_{_TOKEN}"}})
    usage = Usage()
    for index, step in enumerate(steps):
        match step:
            case Text():
                yield from _text(step, f"msg_{_TOKEN}_{index}")
            case Reasoning():
                yield from _reasoning(step, f"rs_{_TOKEN}_{index}")
            case ToolCall():
                yield _item("done", _tool_call(step, f"call_{_TOKEN}_{index}"))
            case CustomToolCall():
                call_id = step.call_id or f"call_{_TOKEN}_{index}"
                call = {"call_id": call_id, "name": step.name, "input": step.input}
                yield _item("done", {"type": "custom_tool_call", **call})
            case Usage():
                usage = step
            case Delay() | Gate():
                yield step
            case Disconnect():
                yield step
                return
            case Incomplete():
                details = {"incomplete_details": {"reason": step.reason}}
                yield _end("incomplete", details, usage)
                return
            case Failed():
                error = {"error": {"code": step.code, "message": step.message}}
                yield _end("failed", error, usage)
                return
            case Fail():
                raise AssertionError("Fail is an HTTP answer, not a stream")
            case _:
                assert_never(step)
    yield _end("completed", {}, usage)


def _item(stage: str, item: Mapping[str, object]) -> bytes:
    return encode_event({"type": f"response.output_item.{stage}", "item": item})


def _deltas(kind: str, fields: str, deltas: Sequence[str], pause: float) -> Iterator[StreamPart]:
    """The delta events; ``fields`` is JSON that all of them share."""
    head = f'event: {kind}\ndata: {{"type":"{kind}",{fields},"delta":'
    for position, delta in enumerate(deltas):
        if pause > 0 and position > 0:
            yield Delay(pause)
        yield f"{head}{json.dumps(delta)}}}\n\n".encode()


def _text(step: Text, item_id: str) -> Iterator[StreamPart]:
    item: dict[str, object] = {"type": "message", "role": "assistant", "id": item_id}
    yield _item("added", {**item, "content": []})
    shared = f'"item_id":"{item_id}","output_index":0,"content_index":0'
    yield from _deltas("response.output_text.delta", shared, step.deltas, step.pause)
    text = "".join(step.deltas)
    yield _item("done", {**item, "content": [{"type": "output_text", "text": text}]})


def _reasoning(step: Reasoning, item_id: str) -> Iterator[StreamPart]:
    item: dict[str, object] = {"type": "reasoning", "id": item_id}
    yield _item("added", {**item, "summary": []})
    yield encode_event(
        {
            "type": "response.reasoning_summary_part.added",
            "item_id": item_id,
            "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        }
    )
    shared = f'"item_id":"{item_id}","output_index":0,"summary_index":0'
    yield from _deltas("response.reasoning_summary_text.delta", shared, step.deltas, step.pause)
    text = "".join(step.deltas)
    yield _item("done", {**item, "summary": [{"type": "summary_text", "text": text}]})


def _tool_call(step: ToolCall, made_id: str) -> dict[str, object]:
    call: dict[str, object] = {
        "type": "function_call",
        "call_id": step.call_id or made_id,
        "name": step.name,
        "arguments": json.dumps(step.arguments),
    }
    if step.namespace is not None:
        call["namespace"] = step.namespace
    return call


def _end(how: str, extra: Mapping[str, object], usage: Usage) -> bytes:
    counts = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    response = {"id": f"resp_{_TOKEN}", "status": how, "usage": counts, **extra}
    return encode_event({"type": f"response.{how}", "response": response})
