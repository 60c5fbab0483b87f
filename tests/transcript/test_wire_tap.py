"""The wire in the transcript: only on demand, paired with its requests, without what was typed."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import quote

import pytest

from codex_acp.jsonrpc import JsonValue
from codex_acp.transcript import Entry, Transcript, WireMessage, from_json, to_json
from codex_acp.transcript.events import WireDirection, WirePeer
from codex_acp.transcript.redaction import MAX_BODY, NOT_RECORDED
from codex_acp.transcript.secrets import remember_secrets

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


def delta(text: str) -> JsonValue:
    about = {"threadId": "t", "turnId": "u", "itemId": "i"}
    return {"method": "item/agentMessage/delta", "params": {**about, "delta": text}}


def chunk(text: str) -> JsonValue:
    content: JsonValue = {"type": "text", "text": text}
    update: JsonValue = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m",
        "content": content,
    }
    return {"method": "session/update", "params": {"sessionId": "t", "update": update}}


def in_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def output(text: str, version: int) -> Any:
    """Output of a terminal: in ``_meta`` of version 1, in base64 in version 2."""
    update: JsonValue = {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": "c",
        "data": in_base64(text),
    }
    if version == 1:
        meta: JsonValue = {"terminal_output": {"terminal_id": "c", "data": text}}
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": meta}
    return {"method": "session/update", "params": {"sessionId": "t", "update": update}}


@pytest.mark.attack(by="model")
@pytest.mark.parametrize("version", [1, 2])
def test_5_2_a_secret_in_two_pieces_of_output_is_in_none_of_them(version: int) -> None:
    wire = Wire()
    pieces = ["start\nOPENAI_API_KEY=Zq7Hj2Lk", "9Pw4Xv8TbN3m\n", "and on \u20ac"]
    lines = [json.loads(wire.say("client", "sent", output(piece, version))) for piece in pieces]
    said = ""
    for line in lines:
        update = line["message"]["params"]["update"]
        said += (
            update["_meta"]["terminal_output"]["data"]
            if version == 1
            else b64decode(update["data"]).decode()
        )
    assert "Zq7" not in said
    assert "9Pw" not in said
    assert said.startswith("start\nOPENAI_API_KEY=[redacted]")
    assert said.endswith("\nand on \u20ac")


@pytest.mark.attack(by="model")
def test_5_2_a_secret_in_output_that_is_no_whole_text_is_not_recorded() -> None:
    wire = Wire()
    pieces = [
        b"\xff token=sk-proj-Zq7Hj2Lk9Pw4Xv8T caf\xc3",
        b"\xa9 OPENAI_API_KEY=Zq7Hj2Lk",
        b"9Pw4Xv8TbN3m\n\xed\xa0\x80 \xe2\x82",
    ]
    said = b""
    for piece in pieces:
        message = output("", 2)
        message["params"]["update"]["data"] = b64encode(piece).decode()
        line = json.loads(wire.say("client", "sent", message))
        said += b64decode(line["message"]["params"]["update"]["data"])
    assert b"\xff token=[redacted] caf\xc3\xa9 OPENAI_API_KEY=[redacted]" in said
    assert said.endswith(b"\n\xed\xa0\x80 ")  # the rest of the character has not come
    assert b"Zq7" not in said
    assert b"9Pw" not in said


def test_an_output_that_is_replaced_continues_no_piece_of_the_old_one() -> None:
    wire = Wire()
    cut = output("", 2)
    cut["params"]["update"]["data"] = b64encode(b"\xc3").decode()
    wire.say("client", "sent", cut)
    whole = output("", 2)
    whole["params"]["update"] = {
        "sessionUpdate": "terminal_update",
        "terminalId": cut["params"]["update"]["terminalId"],
        "output": {"data": b64encode(b"new output").decode()},
    }
    line = json.loads(wire.say("client", "sent", whole))
    said = line["message"]["params"]["update"]["output"]["data"]
    assert b64decode(said) == b"new output"


@pytest.mark.attack(by="model")
@pytest.mark.parametrize("at", range(1, 20))
def test_5_2_a_secret_with_an_accent_is_found_wherever_its_output_is_cut(at: int) -> None:
    remember_secrets(["clé-très-secrète"])
    wire = Wire()
    text = "clé-très-secrète €".encode()
    said = b""
    for piece in (text[:at], text[at:]):
        message = output("", 2)
        message["params"]["update"]["data"] = b64encode(piece).decode()
        line = json.loads(wire.say("client", "sent", message))
        said += b64decode(line["message"]["params"]["update"]["data"])
    assert b"secr" not in said
    assert said.endswith(" €".encode())


@pytest.mark.attack(by="model")
@pytest.mark.parametrize(
    "place",
    [
        lambda data: {"update": {"terminalId": "c", "output": {"data": data}}},
        lambda data: {"prompt": [{"type": "resource", "resource": {"blob": data}}]},
        lambda data: {
            "prompt": [{"type": "resource", "resource": {"blob": data[:9] + "\n" + data[9:]}}]
        },
        lambda data: {"uri": f"data:text/plain;base64,{data}"},
        lambda data: {"text": f"see data:text/plain;base64,{data}, it is here"},
    ],
    ids=["terminal", "blob", "lines", "url", "in-text"],
)
@pytest.mark.parametrize("secret", ["ghp_16C7e42F292c6912E7710c838347", TYPED])
@pytest.mark.parametrize(
    "spelled",
    [str, lambda data: data.rstrip("="), lambda data: data.translate(str.maketrans("+/", "-_"))],
    ids=["padded", "unpadded", "url-safe"],
)
def test_5_2_a_secret_in_base64_is_in_none_of_it(place: Any, secret: str, spelled: Any) -> None:
    wire = Wire()
    wire.say("client", "sent", {"id": 7, "method": "elicitation/create", "params": {}})
    wire.say("client", "received", {"id": 7, "result": {"content": {"city": TYPED}}})
    for text, known in ((f"\u20ac: ~~~{secret}???", False), ("\u20ac: ~~~none???", True)):
        data = spelled(in_base64(text))
        messages: list[dict[str, JsonValue]] = [{"method": "x"}, {"method": "x", "id": 1}]
        for message in messages:
            line = json.loads(wire.say("client", "sent", {**message, "params": place(data)}))
            kept = json.dumps(line["message"]["params"]).replace("\\n", "")
            assert (data in kept or in_base64(text) in kept) is known
            assert in_base64("\u20ac: ")[:4] in kept


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize(
    ("text", "secret", "begun"),
    [
        ("the key is sk-proj-Zq7Hj2Lk9Pw4Xv8T, keep it", "Zq7Hj2Lk9Pw4Xv8T", 12),
        ("Authorization: Bearer Zq7Hj2Lk9Pw4Xv8T\n and on", "Zq7Hj2Lk9Pw4Xv8T", 0),
        ("clone https://me:Zq7Hj2Lk9Pw4Xv8T@h.example/x", "Zq7Hj2Lk9Pw4Xv8T", 20),
        ("OPENAI_API_KEY=Zq7Hj2Lk9Pw4Xv8T codex", "Zq7Hj2Lk9Pw4Xv8T", 0),
        ("it was given told-as-a-secret, it says", "told-as-a-secret", 3),
    ],
)
def test_5_2_a_secret_that_comes_in_pieces_is_in_none_of_them(
    text: str, secret: str, begun: int, size: int
) -> None:
    remember_secrets(["told-as-a-secret"])
    wire = Wire()
    for number in range(0, len(text), size):
        wire.say("codex", "received", delta(text[number : number + size]))
        wire.say("client", "sent", chunk(text[number : number + size]))
    for peer in ("codex", "client"):
        told: list[Any] = [one.message for one in wire.heard if one.peer == peer]
        bodies = [
            m["params"]["update"]["content"] if peer == "client" else m["params"] for m in told
        ]
        said = "".join(body["text" if peer == "client" else "delta"] for body in bodies)
        assert secret not in said
        found = next(n for n in range(len(secret), -1, -1) if secret[:n] in said)
        assert found <= begun
        assert said.endswith(text[-2:])


def test_5_2_a_key_longer_than_what_is_remembered_is_in_no_piece() -> None:
    lines = "".join(f"line-{number}-of-the-key\n" for number in range(300))
    text = f"here:\n-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\nand on"
    wire = Wire()
    pieces = [text[n : n + 37] for n in range(0, len(text), 37)]
    said = [json.loads(wire.say("codex", "received", delta(piece))) for piece in pieces]
    told = "".join(one["message"]["params"]["delta"] for one in said)
    assert "of-the-key" not in told
    assert told.endswith("\nand on")


def test_pieces_without_a_secret_are_recorded_as_they_are() -> None:
    wire = Wire()
    pieces = ["The to", "ken co", "unt is", " 3; see", " https://h.ex", "ample/a", "."]
    for piece in pieces:
        assert json.dumps(piece) in wire.say("codex", "received", delta(piece))


def test_5_2_what_was_typed_is_in_no_piece_of_what_is_said_afterwards() -> None:
    wire = Wire()
    asked: JsonValue = {"threadId": "t", "mode": "form", "message": "?"}
    request: JsonValue = {"id": 1, "method": "mcpServer/elicitation/request", "params": asked}
    wire.say("codex", "received", request)
    wire.say("codex", "sent", {"id": 1, "result": {"action": "accept", "content": {"a": TYPED}}})
    text = f"You said {TYPED}."
    pieces = [text[n : n + 5] for n in range(0, len(text), 5)]
    said = [wire.say("codex", "received", delta(piece)) for piece in pieces]
    deltas = [json.loads(line)["message"]["params"]["delta"] for line in said]
    assert TYPED[:4] not in "".join(deltas)
    assert deltas[0] == "You s"
