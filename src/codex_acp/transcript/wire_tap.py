"""PURE: make a transcript event of each line of a connection.

Matches answers with their requests. Leaves out two kinds of members, whatever their values: what a
person typed into a form, and the settings that a client gave its MCP servers. `redaction` finds
what looks like a secret elsewhere. Of the protocols this module knows only the names used below.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._last_ones import LastOnes
from codex_acp.transcript.events import (
    SessionRef,
    TranscriptEvent,
    WireDirection,
    WireKind,
    WireMessage,
    WirePeer,
)
from codex_acp.transcript.redaction import Pieces
from codex_acp.transcript.secrets import spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.jsonrpc.message import JsonValue, RequestId

_log = logging.getLogger(__name__)

MAX_BODY: Final = 256 * 1024
"""Bytes of a message that is recorded whole; of a larger one its method and size are recorded."""

MAX_OPEN: Final = 10_000
"""Requests remembered until their answer; the answer to a forgotten one has no method."""

MAX_TYPED: Final = 500
"""Spellings of values typed into forms, which are also removed from later messages."""

MIN_TYPED: Final = 6
"""Characters of a typed value that is removed later; a shorter one would occur in any text."""

NOT_RECORDED: Final = "[not recorded]"
"""Written in place of a value that is left out."""

_BLANK: Final[JsonValue] = NOT_RECORDED

_TYPED: Final = {
    "elicitation/create": "content",
    "mcpServer/elicitation/request": "content",
    "item/tool/requestUserInput": "answers",
}
"""Request → the member of its answer that holds what a person typed, by field."""

_SETTINGS: Final = re.compile(r"(?i)env|headers|(env_)?http_?headers|env_?vars|query_?params")
"""Members that hold settings: all values in them may be secrets."""

_METHOD: Final = re.compile(rb'"method"\s*:\s*"([^"\\]{1,100})"')
_HEAD: Final = 2048
"""Bytes at the start of a large message that are searched for its method."""

_Key: TypeAlias = "tuple[WireDirection, RequestId]"


class _Header(NamedTuple):
    """Kind, id and method of a message."""

    kind: WireKind
    id: RequestId | None = None
    method: str | None = None


class WireTaps:
    """Makes the taps of one transcript, which share the typed values to remove.

    ``record`` is called with each event. With ``keep_typed`` typed values are recorded.
    """

    def __init__(
        self, record: Callable[[TranscriptEvent], None], *, keep_typed: bool = False
    ) -> None:
        self.record = record
        self.keep_typed = keep_typed
        self.typed: LastOnes[str, None] = LastOnes(MAX_TYPED)
        self._connections: dict[WirePeer, int] = {"client": 0, "codex": 0}

    def new(self, peer: WirePeer) -> WireTap:
        """Return the tap of a new connection."""
        self._connections[peer] += 1
        return WireTap(self, peer, self._connections[peer])

    @property
    def generation(self) -> int:
        """Return the number of the present connection to Codex."""
        return self._connections["codex"]


class WireTap:
    """Records each line of one connection. Never raises, because the reader calls it."""

    def __init__(self, taps: WireTaps, peer: WirePeer, connection: int) -> None:
        self._taps = taps
        self._peer = peer
        self._connection = connection
        self._open: LastOnes[_Key, str] = LastOnes(MAX_OPEN)
        self._pieces = Pieces(taps.typed)

    def __call__(self, direction: WireDirection, line: bytes) -> None:
        """Record one line."""
        try:
            self._taps.record(self._event(direction, line.rstrip(b"\r\n")))
        except Exception as error:  # noqa: BLE001 - whatever a peer sends, the connection goes on
            _log.error("a message of the wire was not recorded: %s", type(error).__name__)

    def _event(self, direction: WireDirection, line: bytes) -> WireMessage:
        message: JsonValue = None
        left_out: str | None = f"above {MAX_BODY} bytes"
        if len(line) <= MAX_BODY:
            try:
                message, left_out = json.loads(line), None
            except (ValueError, RecursionError):
                left_out = "not JSON"
        if left_out is None and not isinstance(message, dict):
            left_out = "no object"
        if isinstance(message, dict):
            head = self._classify(direction, message)
        else:
            found = _METHOD.search(line[:_HEAD])
            head = _Header("unread", method=found[1].decode(errors="replace") if found else None)
        return WireMessage(
            ref=self._ref(message, head),
            peer=self._peer,
            direction=direction,
            connection=self._connection,
            kind=head.kind,
            id=head.id,
            method=head.method,
            size=len(line),
            message=self._safe(message, head) if isinstance(message, dict) else None,
            left_out=left_out,
        )

    def _classify(self, direction: WireDirection, message: dict[str, JsonValue]) -> _Header:
        method, given = message.get("method"), message.get("id")
        request_id = given if isinstance(given, str | int) else None
        if isinstance(method, str):
            if request_id is None:
                return _Header("notification", None, method)
            self._open[direction, request_id] = method
            return _Header("request", request_id, method)
        if request_id is None or not ("result" in message or "error" in message):
            return _Header("error" if "error" in message else "unread", request_id)
        asked_by: WireDirection = "sent" if direction == "received" else "received"
        kind: WireKind = "error" if "error" in message else "response"
        return _Header(kind, request_id, self._open.pop((asked_by, request_id), None))

    def _ref(self, message: JsonValue, head: _Header) -> SessionRef:
        ids = {"sessionId": None, "threadId": None, "turnId": None} | _ids(message)
        return SessionRef(
            session_id=ids["sessionId"],
            thread_id=ids["threadId"],
            turn_id=ids["turnId"],
            generation=self._connection if self._peer == "codex" else self._taps.generation,
            acp_request_id=head.id if self._peer == "client" else None,
        )

    def _safe(self, message: dict[str, JsonValue], head: _Header) -> dict[str, JsonValue]:
        """Return ``message`` without typed values, settings and secrets."""
        if not self._taps.keep_typed and head.kind in ("response", "error"):
            message = self._without_typed(message, head)
        if head.kind == "notification" and "params" in message:
            params = self._pieces.without_secrets(head.method, message["params"])
            message = {**message, "params": params}
        return {key: self._walk(key, value) for key, value in message.items()}

    def _without_typed(self, message: dict[str, JsonValue], head: _Header) -> dict[str, JsonValue]:
        if head.kind == "error":
            error = message.get("error")
            if head.method in (None, *_TYPED) and isinstance(error, dict):
                kept = {k: v for k, v in error.items() if k in ("code", "message")}
                return {**message, "error": kept}
            return message
        if head.method is None:  # the request is unknown: the result may hold typed values
            return {**message, "result": NOT_RECORDED}
        member, result = _TYPED.get(head.method), message.get("result")
        if member is None or not isinstance(result, dict) or result.get(member) is None:
            return message
        typed = result[member]
        for text in _texts(typed):
            if len(text) >= MIN_TYPED:
                self._taps.typed.update(dict.fromkeys(spellings(text)))
        names: JsonValue = NOT_RECORDED
        if isinstance(typed, dict):
            names = dict.fromkeys(typed, _BLANK)
        return {**message, "result": {**result, member: names}}

    def _walk(self, key: str, value: JsonValue) -> JsonValue:
        if any(map(_SETTINGS.fullmatch, key.split("."))):  # a key of settings may be dotted
            return _without_values(value)
        if isinstance(value, str):
            for typed in sorted(self._taps.typed, key=len, reverse=True):
                value = value.replace(typed, NOT_RECORDED)
            return value
        if isinstance(value, dict):
            return {name: self._walk(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk("", one) for one in value]
        return value


def _ids(message: JsonValue) -> dict[str, str | None]:
    """Return the ids of session, thread and turn that a message names."""
    found: dict[str, str | None] = {}
    if not isinstance(message, dict):
        return found
    for body in (message.get("params"), message.get("result")):
        if not isinstance(body, dict):
            continue
        for name in ("sessionId", "threadId", "turnId"):
            value = body.get(name)
            if isinstance(value, str):
                found.setdefault(name, value)
        for name, inner in (("threadId", body.get("thread")), ("turnId", body.get("turn"))):
            value = inner.get("id") if isinstance(inner, dict) else None
            if isinstance(value, str):
                found.setdefault(name, value)
    return found


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)


def _without_values(value: JsonValue) -> JsonValue:
    """Return a settings value without its values: the keys of a table, the names of a list."""
    if isinstance(value, dict):
        return dict.fromkeys(value, _BLANK)
    if isinstance(value, list):
        return [
            {k: v if k == "name" else NOT_RECORDED for k, v in one.items()}
            if isinstance(one, dict)
            else NOT_RECORDED
            for one in value
        ]
    return value if value is None else NOT_RECORDED
