"""JSON-RPC 2.0 without IO: messages, the lines that carry them, and the ids of open requests.

Owns which messages are valid, and the error that answers a malformed one. Params and results are
passed as `EncodedJson`, which is not parsed again. With ``version``, an encoded message has the
member ``jsonrpc``. `LineFramer` cuts bytes into lines; `OutgoingCalls` keeps the open requests of
this side. Must not know any method, where lines come from, or who reads the messages.

Source: JSON-RPC 2.0, sections 4 and 5. Codex leaves out the ``jsonrpc`` member, so it is
optional here. Batches (arrays) are refused: neither ACP nor the app-server uses them.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from math import isinf
from typing import TYPE_CHECKING, Final, Generic, Literal, NewType, TypeAlias, TypeGuard, TypeVar

from codex_acp._last_ones import LastOnes
from codex_acp._record import NamedTuple, record

if TYPE_CHECKING:
    from collections.abc import Callable

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""Any decoded JSON value."""

EncodedJson = NewType("EncodedJson", bytes)
"""One JSON value, serialised as UTF-8, that goes into a message unchanged."""

RequestId: TypeAlias = int | str
"""The id of a request. Ids compare with their type: ``0`` is neither ``"0"`` nor ``False``."""

Params: TypeAlias = "list[JsonValue] | dict[str, JsonValue] | None"
"""``params`` as received; None when the member was absent or null."""

PARSE_ERROR: Final = -32700
"""The line is not JSON."""
INVALID_REQUEST: Final = -32600
"""The JSON is not a request."""
METHOD_NOT_FOUND: Final = -32601
"""The method does not exist or is not offered."""
INVALID_PARAMS: Final = -32602
"""The params do not fit the method."""
INTERNAL_ERROR: Final = -32603
"""The receiver failed."""
REQUEST_CANCELLED: Final = -32800
"""The request was cancelled by its sender (ACP, as in the Language Server Protocol)."""
AUTHENTICATION_REQUIRED: Final = -32000
"""The client must authenticate first (ACP)."""
OVERLOADED: Final = -32001
"""The server has too much to do; try again later (Codex app-server)."""
RESOURCE_NOT_FOUND: Final = -32002
"""A file or session that was named does not exist (ACP)."""

AGENT_LOST: Final = "agentLost"
"""``data.reason`` of an error: the program that does the agent's work has ended. The request was
valid, and may be sent again."""

THREAD_ACTIVE_WRITER: Final = "thread_active_writer"
"""``data.reason``: another program has the session open, and Codex lets only one write it."""

SESSION_BUSY: Final = "session_busy"
"""``data.reason``: something runs in the session, in another process of this package."""


@record
class Request:
    """A call that must be answered exactly once."""

    id: RequestId
    method: str
    params: Params


@record
class Notification:
    """A message that must not be answered."""

    method: str
    params: Params


@record
class Response:
    """The successful answer to a request."""

    id: RequestId
    result: JsonValue


@record
class ErrorObject:
    """``error`` of an error response; ``data`` is None when it was absent."""

    code: int
    message: str
    data: JsonValue = None


@record
class ErrorResponse:
    """The failed answer to a request; ``id`` is None if the peer could not read it."""

    id: RequestId | None
    error: ErrorObject


@record
class Malformed:
    """A line that is not a message, with the error to answer. ``answerable`` is False if the line
    looks like a response: an error that answers a response could settle another request of the
    peer. ``id`` is the id in the line, if that is valid."""

    id: RequestId | None
    code: int
    reason: str
    answerable: bool = True


Message: TypeAlias = Request | Notification | Response | ErrorResponse
"""Every well-formed message."""

_ABSENT: Final = object()

_NEVER_NOTIFIED: Final = frozenset({"id", "jsonrpc", "result", "error"})
"""Members that a notification of Codex does not have."""

_REPLACED: Final = "\ufffd"
"""Character with which a decoder may replace an unpaired surrogate."""


def decode(line: bytes, loads: Callable[[bytes], object] = json.loads) -> Message | Malformed:
    """Decode one line with ``loads``. Never raises: returns `Malformed` instead."""
    try:
        value = loads(line)
    except Exception as error:  # noqa: BLE001 - any failure of the caller's decoder is a parse error
        return Malformed(None, PARSE_ERROR, f"not valid JSON: {_fault(line, error)}")
    if type(value) is not dict:
        return Malformed(None, INVALID_REQUEST, "a message must be a JSON object")
    method = value.get("method", _ABSENT)
    params = value.get("params")
    if type(method) is str and type(params) is dict and value.keys().isdisjoint(_NEVER_NOTIFIED):
        return Notification(method, params)  # the fast way for thousands of Codex's notifications
    message_id = value.get("id")
    if type(message_id) is str and _REPLACED in message_id:
        value["id"] = _id_as_written(line, message_id)
    if value.get("jsonrpc", "2.0") != "2.0":
        return _malformed(value, 'the member "jsonrpc" must be "2.0"')
    if method is _ABSENT:
        return _decode_response(value)
    if "result" in value or "error" in value:
        return _malformed(value, "a message cannot be a request and a response at once")
    if type(method) is not str:
        return _malformed(value, "method must be a string")
    if params is not None and type(params) is not dict and type(params) is not list:
        return _malformed(value, "params must be an object or an array")
    request_id = value.get("id", _ABSENT)
    if request_id is _ABSENT:
        return Notification(method, params)
    if type(request_id) is not int and type(request_id) is not str:
        return _malformed(value, "the id of a request must be an integer or a string")
    return Request(request_id, method, params)


def _fault(line: bytes, error: Exception) -> str:
    """Return where a line is no JSON; the decoder's words could quote the line."""
    try:
        line.decode()
    except UnicodeDecodeError as found:
        return f"not UTF-8 at byte {found.start}"
    column = re.search(r"column (\d+)(?: \(char \d+\))?$", str(error))
    return type(error).__name__ if column is None else f"an error at column {column[1]}"


def _id_as_written(line: bytes, read: str) -> str:
    """Return the id with its unpaired surrogates, which the answer must repeat."""
    try:
        written = json.loads(line)["id"]
    except (ValueError, RecursionError):
        return read
    return written if type(written) is str else read


def _decode_response(value: dict[str, JsonValue]) -> Response | ErrorResponse | Malformed:
    has_result, answered = "result" in value, value.get("id")
    if type(answered) is float and answered.is_integer():  # in JSON, 1.0 is the number 1
        value["id"] = int(answered)
    if has_result and "error" in value:
        return _malformed(value, "a response cannot hold both result and error")
    response_id = value.get("id", _ABSENT)
    if has_result:
        if not _is_id(response_id):
            return _malformed(value, "the id of a response must be an integer or a string")
        return Response(response_id, value["result"])
    if "error" not in value:
        return _malformed(value, "a message must hold method, result or error")
    if response_id is not None and not _is_id(response_id):
        return _malformed(value, "the id of an error must be an integer, a string or null")
    error = value["error"]
    if not isinstance(error, dict):
        return _malformed(value, "error must be an object")
    code, text = error.get("code"), error.get("message")
    if type(code) is not int or type(text) is not str:
        return _malformed(value, "error must hold an integer code and a string message")
    return ErrorResponse(response_id, ErrorObject(code, text, error.get("data")))


def _malformed(value: dict[str, JsonValue], reason: str) -> Malformed:
    message_id = value.get("id")
    has_outcome = "result" in value or "error" in value
    is_response = has_outcome or ("id" in value and "method" not in value)
    valid_id = message_id if _is_id(message_id) else None
    return Malformed(valid_id, INVALID_REQUEST, reason, answerable=not is_response)


def _is_id(value: object) -> TypeGuard[RequestId]:
    return type(value) is int or type(value) is str


def encode_json(value: JsonValue) -> EncodedJson:
    """Serialise a plain value. Infinity (1e400 is decoded so) becomes null, as in a model. Raises
    ValueError for NaN, TypeError for a value that is not JSON."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return EncodedJson(text.encode())


def _finite(value: JsonValue) -> JsonValue:
    """Return ``value`` with null in place of infinities."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and isinf(value) else value


def encode_request(
    request_id: RequestId, method: str, params: EncodedJson | None, *, version: bool
) -> bytes:
    """Return a request line; ``params`` None leaves the member out."""
    head = b'%b,"method":%b' % (_id_head(request_id, version), json.dumps(method).encode())
    return _with_params(head, params)


def encode_notification(method: str, params: EncodedJson | None, *, version: bool) -> bytes:
    """Return a notification line; ``params`` None leaves the member out."""
    return _with_params(notification_head(method, version), params)


def encode_result(request_id: RequestId, result: EncodedJson, *, version: bool) -> bytes:
    return b'%b,"result":%b}\n' % (_id_head(request_id, version), _one_line(result))


def encode_error(
    request_id: RequestId | None, code: int, message: str, data: JsonValue = None, *, version: bool
) -> bytes:
    """Return an error line; ``data`` None leaves the member out. Raises as `encode_json` does."""
    error: dict[str, JsonValue] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'%b,"error":%b}\n' % (_id_head(request_id, version), encode_json(error))


_VERSION: Final = b'{"jsonrpc":"2.0",'


def _id_head(request_id: RequestId | None, version: bool) -> bytes:
    head = _VERSION if version else b"{"
    if type(request_id) is int:
        return b'%b"id":%d' % (head, request_id)
    return b'%b"id":%b' % (head, json.dumps(request_id).encode())


@lru_cache(maxsize=512)  # more than both protocols have, and bounded
def notification_head(method: str, version: bool) -> bytes:
    """Return the line of a notification up to its params."""
    return b'%b"method":%b' % (_VERSION if version else b"{", json.dumps(method).encode())


def _with_params(head: bytes, params: EncodedJson | None) -> bytes:
    if params is None:
        return head + b"}\n"
    return b'%b,"params":%b}\n' % (head, _one_line(params))


def _one_line(value: bytes) -> bytes:
    """Replace line breaks, which in JSON are only white space between tokens, by spaces."""
    if b"\n" in value or b"\r" in value:
        return value.replace(b"\n", b" ").replace(b"\r", b" ")
    return value


DEFAULT_LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line: more than any real message has (an image in base64 has a few MiB)."""
HEAD_BYTES: Final = 256
"""Bytes that are kept of a line above the limit: its id and kind come first in both protocols."""


class TooLong(NamedTuple):
    """The first bytes of a line above the limit; the others are dropped."""

    limit: int
    head: bytes


class LineFramer:
    """Cuts a byte stream into lines, without their ends. Lines end with LF or CRLF; blank lines are
    skipped. A line of more than ``limit`` bytes (without the LF) becomes one `TooLong`, and the
    next line is read as usual. At most ``limit`` bytes and one chunk are in memory."""

    __slots__ = ("_line", "_skipping", "limit")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self.limit: int = limit
        """Bytes of a line at most."""
        self._line = bytearray()
        """The incomplete line."""
        self._skipping = False
        """Whether to drop the rest of a line above the limit."""

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Add a chunk; return the lines that it completes, in order."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return []
            self._skipping = False
            data = data[end + 1 :]
        *parts, rest = data.split(b"\n")
        if parts and self._line:
            parts[0] = self._end_line(parts[0])
        lines = self._lines_of(parts)
        self._line += rest
        if len(self._line) > self.limit:
            lines.append(self._too_long(self._end_line()))
            self._skipping = True
        return lines

    def finish(self) -> bytes | TooLong | None:
        """End the stream; return the last line if it has no line break, else None."""
        self._skipping = False
        lines = self._lines_of([self._end_line()])
        return lines[0] if lines else None

    def _end_line(self, end: bytes = b"") -> bytes:
        """Return the incomplete line with ``end`` behind it, and begin another."""
        line, self._line = self._line, bytearray()
        return b"".join((line, end))

    def _too_long(self, line: bytes) -> TooLong:
        return TooLong(self.limit, line[: min(self.limit, HEAD_BYTES)])

    def _lines_of(self, parts: list[bytes]) -> list[bytes | TooLong]:
        """Return the lines that are not blank, without the CR at their end."""
        lines: list[bytes | TooLong] = []
        for part in parts:
            if len(part) > self.limit:
                lines.append(self._too_long(part))
            elif part and not part.isspace():
                lines.append(part[:-1] if part.endswith(b"\r") else part)
        return lines


_JSON_STRING: Final = rb'"(?:[^"\\]|\\.)*"'
_HEAD: Final = re.compile(  # up to the member after the id, which tells the kind of the message
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?\d+|' + _JSON_STRING + rb')\s*,\s*"(?P<kind>method|result|error)"\s*:'
)


class MessageHead(NamedTuple):
    """Kind and id of a message."""

    kind: Literal["request", "answer"]
    id: RequestId


def read_head(head: bytes) -> MessageHead | None:
    """Find kind and id in the first bytes of a line; return None if they are not there."""
    found = _HEAD.match(head)
    if found is None:
        return None
    try:
        request_id: RequestId = json.loads(found["id"])
    except ValueError:  # a broken escape, or not UTF-8
        return None
    return MessageHead("request" if found["kind"] == b"method" else "answer", request_id)


_ABANDONED_REMEMBERED: Final = 4096
"""Abandoned ids that are kept for their late answers; the oldest are forgotten first."""

W = TypeVar("W")


class OutgoingCalls(Generic[W]):
    """Requests that were sent and not answered, each with a waiter, ``W``, which is not None. Ids
    count from 0."""

    def __init__(self) -> None:
        self.next_id: int = 0
        self._waiters: dict[int, W] = {}
        self._abandoned: LastOnes[int, W | None] = LastOnes(_ABANDONED_REMEMBERED)
        """Abandoned id → its waiter, if the waiter gets a late answer; else None."""

    def open(self, waiter: W) -> int:
        """Allocate the id of a new request."""
        request_id = self.next_id
        self.next_id += 1
        self._waiters[request_id] = waiter
        return request_id

    def settle(self, request_id: RequestId) -> W | None:
        """Return the waiter of an answered request and forget it; None if the request was abandoned
        and its late answer is to be dropped. Raises KeyError if no request has this id, or the peer
        has answered it before."""
        if type(request_id) is not int:
            raise KeyError(request_id)
        if request_id in self._waiters:
            return self._waiters.pop(request_id)
        return self._abandoned.pop(request_id)

    def abandon(self, request_id: int, *, keep: bool = False) -> bool:
        """Give a request up; return whether it was open. With ``keep``, its waiter still gets a
        late answer."""
        if request_id not in self._waiters:
            return False
        waiter = self._waiters.pop(request_id)
        self._abandoned[request_id] = waiter if keep else None
        return True

    def close(self) -> list[W]:
        """Forget all waiters and return them, oldest first."""
        waiters = list(self._waiters.values())
        self._waiters.clear()
        self._abandoned.clear()
        return waiters
