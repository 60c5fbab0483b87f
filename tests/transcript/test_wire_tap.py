"""The wire in the transcript: only on demand, paired with its requests, without what was typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from codex_acp.transcript import Entry, Transcript, WireMessage, from_json, to_json
from codex_acp.transcript.wire_tap import MAX_BODY, NOT_RECORDED

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.transcript.events import WireDirection, WirePeer

TYPED = "a w\u00f6rd that was typed"


class Wire:
    """A transcript that keeps the wire, and what it got to hear of it."""

    def __init__(self, *, record_content: bool = False) -> None:
        self.transcript = Transcript(record_wire=True, record_content=record_content)
        self.heard: list[WireMessage] = []
        self.transcript.subscribe(self._take)
        self.taps = {peer: self.transcript.tap(peer) for peer in ("codex", "client")}

    def _take(self, entry: Entry) -> None:
        assert isinstance(entry.event, WireMessage)
        line = json.loads(json.dumps(to_json(entry.event, entry.time)))
        assert from_json(line).event == entry.event
        self.heard.append(entry.event)

    def say(self, peer: WirePeer, direction: WireDirection, message: JsonValue | bytes) -> str:
        """One line; what was recorded of it, as JSON."""
        tap = self.taps[peer]
        assert tap is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        before = len(self.heard)
        tap(direction, line + b"\n")
        assert len(self.heard) == before + 1
        return json.dumps(to_json(self.heard[-1], "2026-01-31T12:00:00.000Z"))


def test_the_wire_is_not_kept_unless_it_is_asked_for() -> None:
    transcript = Transcript()
    assert transcript.tap("client") is None
    assert transcript.tap("codex") is None


def test_an_answer_has_the_method_of_its_request() -> None:
    wire = Wire()
    wire.say("client", "received", {"id": 0, "method": "session/prompt", "params": {}})
    wire.say("client", "sent", {"id": 0, "method": "fs/read_text_file", "params": {}})
    wire.say("client", "received", {"id": 0, "error": {"code": -1, "message": "no"}})
    wire.say("client", "sent", {"id": "0", "result": {}})
    wire.say("client", "sent", {"id": 0, "result": {"stopReason": "end_turn"}})
    kinds = [(one.kind, one.method, one.id) for one in wire.heard[2:]]
    assert kinds == [
        ("error", "fs/read_text_file", 0),
        ("response", None, "0"),
        ("response", "session/prompt", 0),
    ]
    assert wire.heard[-1].message == {"id": 0, "result": {"stopReason": "end_turn"}}


def test_a_message_says_whose_it_is() -> None:
    wire = Wire()
    wire.taps["codex"] = wire.transcript.tap("codex")  # Codex was started again
    wire.say("codex", "received", {"method": "x", "params": {"threadId": "t", "turnId": "u"}})
    turn: JsonValue = {"turn": {"id": "v"}, "threadId": "t"}
    wire.say("codex", "received", {"method": "x", "params": turn})
    wire.say("client", "sent", {"method": "session/update", "params": {"sessionId": "s"}})
    refs = [one.ref for one in wire.heard]
    assert [(r.session_id, r.thread_id, r.turn_id, r.generation) for r in refs] == [
        (None, "t", "u", 2),
        (None, "t", "v", 2),
        ("s", None, None, 2),
    ]
    assert [one.connection for one in wire.heard] == [2, 2, 1]


@pytest.mark.attack(by="MCP server")
@pytest.mark.parametrize(
    ("peer", "method", "result"),
    [
        ("client", "elicitation/create", {"action": "accept", "content": {"city": TYPED}}),
        ("codex", "mcpServer/elicitation/request", {"action": "accept", "content": {"x": TYPED}}),
        ("codex", "item/tool/requestUserInput", {"answers": {"q": {"answers": [TYPED]}}}),
    ],
)
def test_5_2_what_is_typed_into_a_form_is_recorded_by_name_only(
    peer: WirePeer, method: str, result: JsonValue
) -> None:
    asked: WireDirection = "sent" if peer == "client" else "received"
    answered: WireDirection = "received" if peer == "client" else "sent"
    wire = Wire()
    wire.say(peer, asked, {"id": 7, "method": method, "params": {}})
    assert "that" not in (text := wire.say(peer, answered, {"id": 7, "result": result}))
    assert NOT_RECORDED in text
    # Nor where Codex tells it again.
    for told in (f"<{TYPED}>", json.dumps({"city": TYPED}), quote(TYPED)):
        text = wire.say("codex", "received", {"method": "x", "params": {"t": told}})
        assert "that" not in text
    late = wire.say(peer, answered, {"id": 7, "result": result})
    assert TYPED not in late
    refused: JsonValue = {"id": 8, "error": {"code": 1, "message": "no", "data": TYPED}}
    assert TYPED not in wire.say(peer, answered, refused)


def test_typed_content_is_kept_on_demand() -> None:
    wire = Wire(record_content=True)
    wire.say("client", "sent", {"id": 7, "method": "elicitation/create", "params": {}})
    answer: JsonValue = {"id": 7, "result": {"content": {"city": TYPED, "password": "hunter-22"}}}
    text = wire.say("client", "received", answer)
    assert json.dumps(TYPED)[1:-1] in text
    assert "hunter-22" not in text


@pytest.mark.attack(by="MCP server")
@pytest.mark.parametrize(
    "params",
    [
        {"mcpServers": [{"name": "n", "env": [{"name": "WHERE", "value": "s3cr3t-value"}]}]},
        {"mcpServers": [{"url": "u", "headers": [{"name": "X-Who", "value": "s3cr3t-value"}]}]},
        {"config": {"mcp_servers": {"n": {"env": {"WHERE": "s3cr3t-value"}}}}},
        {"config": {"mcp_servers.n.http_headers": {"X-Who": "s3cr3t-value"}}},
        {"config": {"mcp_servers.n.env.WHERE": "s3cr3t-value"}},
        {"config": {"model_providers": {"p": {"query_params": {"q": "s3cr3t-value"}}}}},
        {"apiKey": "s3cr3t-value"},
        {"text": "the api_key=s3cr3t-value of it"},
        {"text": "Authorization: Bearer s3cr3t-value"},
    ],
)
def test_secrets_are_recorded_nowhere(params: JsonValue) -> None:
    text = Wire().say("client", "received", {"id": 1, "method": "session/new", "params": params})
    assert "s3cr3t-value" not in text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"method": "x', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "no object"),
        (b"\xff\xfe", "not JSON"),
        (b'{"method":"turn/diff/updated","params":"' + b"x" * MAX_BODY + b'"}', "above"),
    ],
    ids=["torn", "deep", "list", "bytes", "large"],
)
def test_what_cannot_be_read_is_counted_and_disturbs_nothing(line: bytes, why: str) -> None:
    wire = Wire()
    wire.say("codex", "received", line)
    (heard,) = wire.heard
    assert heard.kind == "unread"
    assert heard.message is None
    assert heard.size == len(line)
    assert heard.left_out is not None
    assert heard.left_out.startswith(why)
    assert heard.method == ("turn/diff/updated" if why == "above" else None)


def test_long_texts_are_cut_and_say_so() -> None:
    text = Wire().say("codex", "received", {"method": "x", "params": {"text": "word " * 20_000}})
    assert len(text) < 10_000
    assert "more characters" in text
