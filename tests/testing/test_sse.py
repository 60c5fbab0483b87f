"""The bytes of a scripted response."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codex_acp.testing import (
    Delay,
    Disconnect,
    Failed,
    Gate,
    Incomplete,
    Reasoning,
    Step,
    Text,
    ToolCall,
    Usage,
    apply_patch,
    words,
)
from codex_acp.testing.scripted_model import StreamPart, encode_response, with_number


def events(parts: tuple[StreamPart, ...], number: int = 7) -> list[dict[str, Any]]:
    """The events of the bytes among ``parts``, read as a client of server-sent events does."""
    text = b"".join(with_number(p, number) for p in parts if isinstance(p, bytes)).decode()
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def of_type(kind: str, *steps: Step) -> list[dict[str, Any]]:
    return [event for event in events(encode_response(steps)) if event["type"] == kind]


@given(st.lists(st.text()))
def test_deltas_of_any_text_arrive_whole(deltas: list[str]) -> None:
    sent = of_type("response.output_text.delta", Text(*deltas))
    assert [event["delta"] for event in sent] == deltas
    (done,) = of_type("response.output_item.done", Text(*deltas))
    assert done["item"]["content"] == [{"type": "output_text", "text": "".join(deltas)}]


def test_a_stream_begins_with_created_and_ends_with_the_usage() -> None:
    sent = events(encode_response([Usage(3, 4), Text("a")]))
    assert sent[0]["type"] == "response.created"
    assert sent[-1]["type"] == "response.completed"
    assert sent[-1]["response"]["usage"]["total_tokens"] == 7


def test_ids_belong_to_the_response_that_was_given_out() -> None:
    parts = encode_response([Text("a"), ToolCall("f")])
    first, second = events(parts, 1), events(parts, 2)
    calls = [e["item"]["call_id"] for e in (*first, *second) if "call_id" in e.get("item", {})]
    assert calls == ["call_1_1", "call_2_1"]
    assert first[0]["response"]["id"] != second[0]["response"]["id"]


def test_a_reasoning_is_one_summary_part() -> None:
    (done,) = of_type("response.output_item.done", Reasoning("a", "b"))
    assert done["item"]["summary"] == [{"type": "summary_text", "text": "ab"}]
    deltas = of_type("response.reasoning_summary_text.delta", Reasoning("a", "b"))
    assert [event["summary_index"] for event in deltas] == [0, 0]


def test_a_tool_call_carries_json_and_a_freeform_call_text() -> None:
    call = ToolCall("act", {"a": 1}, namespace="mcp__notes", call_id="c1")
    (done,) = of_type("response.output_item.done", call)
    assert json.loads(done["item"]["arguments"]) == {"a": 1}
    assert (done["item"]["namespace"], done["item"]["call_id"]) == ("mcp__notes", "c1")
    (done,) = of_type("response.output_item.done", apply_patch("*** Begin Patch"))
    assert (done["item"]["type"], done["item"]["input"]) == ("custom_tool_call", "*** Begin Patch")


def test_waits_split_the_bytes_and_nothing_else_does() -> None:
    parts = encode_response([Text("a"), Gate("go"), Text("b"), Delay(1.0), Text("c")])
    assert [type(part) for part in parts] == [bytes, Gate, bytes, Delay, bytes]
    assert len(encode_response([words(1000)])) == 1


def test_a_pause_stands_between_deltas_only() -> None:
    parts = encode_response([Text("a", "b", "c", pause=0.5)])
    assert [part for part in parts if isinstance(part, Delay)] == [Delay(0.5), Delay(0.5)]


def test_each_end_is_the_last_event() -> None:
    assert events(encode_response([Failed("c", "m")]))[-1]["response"]["error"] == {
        "code": "c",
        "message": "m",
    }
    incomplete = events(encode_response([Incomplete("content_filter")]))[-1]
    assert incomplete["response"]["incomplete_details"] == {"reason": "content_filter"}
    parts = encode_response([Text("a"), Disconnect()])
    assert parts[-1] == Disconnect()
    assert events(parts)[-1]["type"] == "response.output_item.done"
