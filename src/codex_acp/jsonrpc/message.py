"""JSON-RPC 2.0 messages as values, decoded from lines of bytes and encoded as lines.

Owns which messages are valid, and the error that answers a malformed one. Params and results are
passed as `EncodedJson`, which is not parsed again. With ``version``, an encoded message has the
member ``jsonrpc``. Must not know any method, where lines come from, or who reads the messages.

Source: JSON-RPC 2.0, sections 4 and 5. Codex leaves out the ``jsonrpc`` member, so it is
optional here. Batches (arrays) are refused: neither ACP nor the app-server uses them.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from math import isinf
from typing import TYPE_CHECKING, Final, NewType, TypeAlias, TypeGuard

from codex_acp._record import record

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
