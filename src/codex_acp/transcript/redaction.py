"""PURE: remove secrets and typed values from events (contract 5.2), and make events of wire lines.

Typed values (which a person types into forms) are removed unless content is recorded. Tokens and
keys are always removed, from every text but the ids in ``ref``, which must stay comparable.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from codex_acp._json import object_at, text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp._urls import bare_url
from codex_acp.transcript import secrets
from codex_acp.transcript.events import (
    ElicitationAnswered,
    ElicitationRequested,
    SessionRef,
    TranscriptEvent,
    WireDirection,
    WireKind,
    WireMessage,
    WirePeer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from codex_acp.jsonrpc import JsonValue, RequestId

_T = TypeVar("_T")
_LONG_ANSWER: Final = 4
"""Least characters of an answer that is also removed inside words; a shorter one must be a word."""


def redacted(event: TranscriptEvent, *, content: bool = False) -> TranscriptEvent:
    """Return ``event`` without secrets; ``content`` keeps the values typed into forms."""
    if isinstance(event, ElicitationAnswered):
        event = _without_answer(event, keep=content)
    elif isinstance(event, ElicitationRequested) and event.url is not None:
        event = replace(event, url=bare_url(event.url))
    elif isinstance(event, WireMessage) and event.message is not None:
        event = replace(event, message=secrets.scrub_fields(event.message))
    return _scrub_object(event)


def _without_answer(event: ElicitationAnswered, *, keep: bool) -> ElicitationAnswered:
    if event.content is None:
        return event
    if keep:
        return replace(event, content=secrets.scrub_fields(event.content))
    problem = event.problem
    if problem is not None:
        # A problem should quote no values. Remove the values in any case.
        quoted = {text for value in event.content.values() for text in _quoted_forms(value)}
        for text in sorted(quoted, key=len, reverse=True):
            edge = "" if len(text) >= _LONG_ANSWER else r"\b"
            problem = re.sub(edge + re.escape(text) + edge, lambda _: secrets.REDACTED, problem)
    return replace(event, content=None, problem=problem)


def _quoted_forms(value: JsonValue) -> Iterator[str]:
    """Yield the texts that may quote a value, or a value inside of the value."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _quoted_forms(key)
            yield from _quoted_forms(member)
    elif isinstance(value, list):
        for item in value:
            yield from _quoted_forms(item)
    elif value is not None and value != "" and not isinstance(value, bool):
        yield from (str(value), repr(value), json.dumps(value))


def _scrub_object(value: _T) -> _T:
    """Copy a dataclass; scrub the texts of all its fields, so that no field can be forgotten."""
    make: Callable[..., _T] = type(value)
    assert is_dataclass(value)
    names = [member.name for member in fields(value)]
    return make(**{name: _scrub_member(getattr(value, name)) for name in names})


def _scrub_member(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | SessionRef):
        return value
    if isinstance(value, str):
        return secrets.scrub(value)
    if isinstance(value, tuple):
        return tuple(_scrub_member(item) for item in value)
    if isinstance(value, Mapping):
        return value
    return _scrub_object(value)


# Texts that arrive in pieces: the part of a secret in each piece is removed.

REMEMBERED: Final = 1024
"""Characters of the end of a text that are remembered, to find secrets that span pieces."""
BEGINNING: Final = 128
"""Characters around the start of a secret longer than `REMEMBERED` that are remembered."""
_STANDARD: Final = str.maketrans("-_", "+/")
"""Turns the URL-safe alphabet of base64 into the standard one."""
MAX_TEXTS: Final = 200
"""Texts whose ends are remembered at once; the oldest is forgotten."""
_PIECES: Final = (
    (("content", "text"), ("messageId",)),
    (("_meta", "terminal_output", "data"), ("_meta", "terminal_output", "terminal_id")),
    (("data",), ("terminalId",)),
    (("output", "data"), ("terminalId",)),
)
"""Path of a piece in an update, and path of the text's id. ACP v2 sends terminals in base64."""


class Pieces:
    """Redacts texts of one connection that arrive in pieces. ``typed``: values to remove, too."""

    def __init__(self, typed: Collection[str]) -> None:
        self._typed = typed
        self._ends: LastOnes[str, str] = LastOnes(MAX_TEXTS)
        self._decoders: LastOnes[str, IncrementalDecoder] = LastOnes(MAX_TEXTS)
        """A decoder keeps the part of a character that a piece ends with for the next piece."""

    def without_secrets(self, method: str | None, params: JsonValue) -> JsonValue:
        """Return the params of a notification without the secrets in the piece of text."""
        if not isinstance(params, dict):
            return params
        delta = params.get("delta")
        if isinstance(delta, str):  # a notification of Codex; else one of ACP
            text_id = f"{method} {params.get('threadId')} {params.get('itemId')}"
            return {**params, "delta": self._redact(text_id, delta)}
        update = object_at(params, "update")
        for path, id_path in _PIECES:
            text = piece = text_at(update, *path)
            if piece is None:
                continue
            # The pieces of a terminal's text may arrive in updates of several kinds.
            kind = update.get("sessionUpdate") if path[0] == "content" else "terminal"
            text_id = f"{kind} {params.get('sessionId')} {value_at(update, *id_path)}"
            if in_base64 := id_path == ("terminalId",):
                if path[0] == "output":  # this piece replaces the output, and continues no piece
                    self._decoders.pop(text_id, None)
                    self._ends.pop(text_id, None)
                text = self._decode(text_id, piece)
            if text is not None:
                text = self._redact(text_id, text)
                if in_base64:
                    text = _to_base64(text, "surrogateescape")
                return {**params, "update": _with_text(update, path, text)}
        return params

    def _decode(self, text_id: str, piece: str) -> str | None:
        """Return a piece in base64 as text; None if it is no base64."""
        decoder = self._decoders.get(text_id) or getincrementaldecoder("utf-8")("surrogateescape")
        self._decoders[text_id] = decoder
        try:
            return decoder.decode(_bytes_of(piece))
        except ValueError:
            return None

    def _redact(self, text_id: str, piece: str) -> str:
        """Return the piece of a text without the parts of secrets in it."""
        before = self._ends.get(text_id, "")
        text = before + piece
        spans = list(secrets.secret_spans(text, self._typed))
        unfinished = min((start for start, end in spans if end == len(text)), default=None)
        self._ends[text_id] = _part_to_remember(text, unfinished)
        return secrets.without(text, spans, len(before))


def _with_text(value: JsonValue, path: tuple[str, ...], text: str) -> JsonValue:
    """Return ``value`` with ``text`` at ``path``; all members of ``path`` must exist."""
    if not path:
        return text
    assert isinstance(value, dict)
    return {**value, path[0]: _with_text(value[path[0]], path[1:], text)}


def _bytes_of(data: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding; line breaks are ignored. Raises
    ValueError."""
    return b64decode(data.translate(_STANDARD) + "==")


def _from_base64(data: str) -> str | None:
    """Return the text in ``data``; None if ``data`` is no text in base64."""
    try:
        return _bytes_of(data).decode("utf-8", "surrogatepass")
    except ValueError:
        return None


def _to_base64(text: str, errors: str = "surrogatepass") -> str:
    return b64encode(text.encode("utf-8", errors)).decode("ascii")


def _part_to_remember(text: str, unfinished: int | None) -> str:
    """Return the end of ``text``, and the surroundings of the position ``unfinished``, at which an
    unfinished secret starts."""
    if unfinished is None or unfinished >= len(text) - REMEMBERED:
        return text[-REMEMBERED:]
    start = text[max(0, unfinished - BEGINNING) : unfinished + BEGINNING]
    return start + text[2 * BEGINNING - REMEMBERED :]


# The wire.


MAX_BODY: Final = 256 * 1024
"""Most bytes of a message that is recorded whole; else only its method and size are recorded."""
MAX_OPEN: Final = 10_000
"""Requests remembered until their answer; an answer to a forgotten request has no method."""
MAX_TYPED: Final = 500
"""Spellings of typed values that are remembered, to remove them from later messages."""
MIN_TYPED: Final = 6
"""Least characters of a remembered typed value; a shorter one would occur in any text."""
NOT_RECORDED: Final = "[not recorded]"
"""Written in place of a value that is left out."""
_BLANK: Final[JsonValue] = NOT_RECORDED  # the same text as JSON, for mypy
_TYPED: Final = {
    "elicitation/create": "content",
    "mcpServer/elicitation/request": "content",
    "item/tool/requestUserInput": "answers",
}
"""Request → member of its answer with the values that a person typed, by field."""
_SETTINGS: Final = re.compile(r"(?i)env|headers|(env_)?http_?headers|env_?vars|query_?params")
"""Members with settings: all their values may be secrets."""
_BASE64: Final = tuple(
    re.compile(rf"[A-Za-z0-9\r\n{others}]{{8,}}={{0,2}}") for others in ("+/", "_-")
)
"""Base64 of both alphabets at the start of a member, or after ``;base64,`` of a data URL."""
_METHOD: Final = re.compile(rb'"method"\s*:\s*"([^"\\]{1,100})"')
_HEAD: Final = 2048
"""Bytes at the start of a large message that are searched for its method."""
_IDS: Final = (
    ("session", ("sessionId",)),
    ("thread", ("threadId",)),
    ("thread", ("thread", "id")),
    ("turn", ("turnId",)),
    ("turn", ("turn", "id")),
)
"""Id → path in the params or the result of a message; the first existing path counts."""
_Key: TypeAlias = "tuple[WireDirection, RequestId]"


class _Header(NamedTuple):
    """Kind, id and method of a message."""

    kind: WireKind
    id: RequestId | None = None
    method: str | None = None


class WireTaps:
    """Makes the taps of one transcript, one for each connection; all remove the same typed values.
    ``record`` is called with each event. ``keep_typed``: typed values are recorded."""

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
        """Return the number of the current connection to Codex."""
        return self._connections["codex"]


class WireTap:
    """Makes an event of each line of one connection."""

    def __init__(self, taps: WireTaps, peer: WirePeer, connection: int) -> None:
        self._taps = taps
        self._peer = peer
        self._connection = connection
        self._open_requests: LastOnes[_Key, str] = LastOnes(MAX_OPEN)
        """Direction and id of an open request → its method."""
        self._pieces = Pieces(taps.typed)

    def __call__(self, direction: WireDirection, line: bytes) -> None:
        """Record one line."""
        self._taps.record(self._make_event(direction, line.rstrip(b"\r\n")))

    def _make_event(self, direction: WireDirection, line: bytes) -> WireMessage:
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
            header = self._classify(direction, message)
        else:
            match = _METHOD.search(line[:_HEAD])
            header = _Header("unread", method=match[1].decode(errors="replace") if match else None)
        ids: dict[str, str] = {}
        for body in ("params", "result"):
            for name, path in _IDS:
                if (value := text_at(message, body, *path)) is not None:
                    ids.setdefault(name, value)
        ref = SessionRef(
            session_id=ids.get("session"),
            thread_id=ids.get("thread"),
            turn_id=ids.get("turn"),
            generation=self._connection if self._peer == "codex" else self._taps.generation,
            acp_request_id=header.id if self._peer == "client" else None,
        )
        return WireMessage(
            ref=ref,
            peer=self._peer,
            direction=direction,
            connection=self._connection,
            kind=header.kind,
            id=header.id,
            method=header.method,
            size=len(line),
            message=self._redact_message(message, header) if isinstance(message, dict) else None,
            left_out=left_out,
        )

    def _classify(self, direction: WireDirection, message: dict[str, JsonValue]) -> _Header:
        method, raw_id = message.get("method"), message.get("id")
        request_id = raw_id if isinstance(raw_id, str | int) else None
        if isinstance(method, str):
            if request_id is None:
                return _Header("notification", None, method)
            self._open_requests[direction, request_id] = method
            return _Header("request", request_id, method)
        if request_id is None or not ("result" in message or "error" in message):
            return _Header("error" if "error" in message else "unread", request_id)
        request_direction: WireDirection = "sent" if direction == "received" else "received"
        kind: WireKind = "error" if "error" in message else "response"
        request_method = self._open_requests.pop((request_direction, request_id), None)
        return _Header(kind, request_id, request_method)

    def _redact_message(
        self, message: dict[str, JsonValue], header: _Header
    ) -> dict[str, JsonValue]:
        """Return ``message`` without typed values, settings and secrets."""
        if not self._taps.keep_typed and header.kind in ("response", "error"):
            message = self._without_typed(message, header)
        if header.kind == "notification" and "params" in message:
            params = self._pieces.without_secrets(header.method, message["params"])
            message = {**message, "params": params}
        return {key: self._walk(key, value) for key, value in message.items()}

    def _without_typed(
        self, message: dict[str, JsonValue], header: _Header
    ) -> dict[str, JsonValue]:
        """Return an answer without the values that a person typed; remember these values."""
        if header.kind == "error":
            error = message.get("error")
            if header.method in (None, *_TYPED) and isinstance(error, dict):
                kept = {k: v for k, v in error.items() if k in ("code", "message")}
                return {**message, "error": kept}
            return message
        if header.method is None:  # the request is unknown: the result may hold typed values
            return {**message, "result": NOT_RECORDED}
        member, result = _TYPED.get(header.method), message.get("result")
        if member is None or not isinstance(result, dict) or result.get(member) is None:
            return message
        typed = result[member]
        for text in _texts(typed):
            if len(text) >= MIN_TYPED:
                self._taps.typed.update(dict.fromkeys(secrets.spellings(text)))
        blank: JsonValue = dict.fromkeys(typed, _BLANK) if isinstance(typed, dict) else _BLANK
        return {**message, "result": {**result, member: blank}}

    def _walk(self, key: str, value: JsonValue) -> JsonValue:
        """Return the member ``key`` without typed values and settings."""
        if any(map(_SETTINGS.fullmatch, key.split("."))):  # a key of settings may be dotted
            return _without_values(value)
        if isinstance(value, str):
            for typed in sorted(self._taps.typed, key=len, reverse=True):
                value = value.replace(typed, NOT_RECORDED)
            return ";base64,".join(map(self._scrub_base64, value.split(";base64,")))
        if isinstance(value, dict):
            return {name: self._walk(name, member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._walk("", item) for item in value]
        return value

    def _scrub_base64(self, part: str) -> str:
        """Return ``part`` without the secrets of the text in the base64 at its start."""
        matches = (pattern.match(part) for pattern in _BASE64)
        for data in dict.fromkeys(match[0] for match in matches if match is not None):
            text = _from_base64(data)
            if text is None:
                continue
            clean = self._walk("", text)
            assert isinstance(clean, str)
            clean = secrets.scrub(clean, len(clean))
            if clean != text:
                return _to_base64(clean) + part[len(data) :]
        return part


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else value.values():
            yield from _texts(item)


def _without_values(value: JsonValue) -> JsonValue:
    """Return settings without values: only the keys of a table, or the names in a list."""
    if isinstance(value, dict):
        return dict.fromkeys(value, _BLANK)
    if isinstance(value, list):
        return [
            {k: v if k == "name" else NOT_RECORDED for k, v in item.items()}
            if isinstance(item, dict)
            else NOT_RECORDED
            for item in value
        ]
    return value if value is None else NOT_RECORDED
