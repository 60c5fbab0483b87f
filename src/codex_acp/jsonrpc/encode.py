"""Encoding of JSON-RPC messages: bytes of one line each, with the newline.

Params and results arrive as `EncodedJson` and are spliced in, never parsed again. Must not know
any method or who reads the lines.
"""

from __future__ import annotations

import json
from functools import lru_cache
from math import isinf
from typing import Final

from codex_acp.jsonrpc.message import EncodedJson, JsonValue, RequestId

_METHOD_CACHE_SIZE: Final = 512
"""Above the number of methods of both protocols; bounded because methods may come from a peer."""


def encode_json(value: JsonValue) -> EncodedJson:
    """Serialise a value that no model serialised before; never raises for what was read.

    A number as large as 1e400 reads as an infinity, which JSON cannot hold: it becomes null, as
    in a model. Raises ValueError for NaN, TypeError for what is not JSON.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return EncodedJson(text.encode())


def _finite(value: JsonValue) -> JsonValue:
    """``value`` with null in place of infinities."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and isinf(value) else value


def encode_request(
    request_id: RequestId, method: str, params: EncodedJson | None, *, version: bool
) -> bytes:
    """One request line; ``params`` None leaves the member out."""
    head = _id_head(request_id, version) + b"," + _method(method)
    return head + b"}\n" if params is None else _with_params(head, params)


def encode_notification(method: str, params: EncodedJson | None, *, version: bool) -> bytes:
    """One notification line; ``params`` None leaves the member out."""
    head = notification_head(method, version)
    if params is None:
        return head + b"}\n"
    return _with_params(head, params)


def encode_result(request_id: RequestId, result: EncodedJson, *, version: bool) -> bytes:
    """One response line."""
    return b'%b,"result":%b}\n' % (_id_head(request_id, version), _one_line(result))


def encode_error(
    request_id: RequestId | None,
    code: int,
    message: str,
    data: JsonValue = None,
    *,
    version: bool,
) -> bytes:
    """One error response line; ``data`` None leaves the member out. Raises as `encode_json`."""
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


@lru_cache(maxsize=_METHOD_CACHE_SIZE)
def _method(method: str) -> bytes:
    return b'"method":%b' % json.dumps(method).encode()


@lru_cache(maxsize=_METHOD_CACHE_SIZE)
def notification_head(method: str, version: bool) -> bytes:
    """A notification up to its params, or to the bracket that closes it."""
    return (_VERSION if version else b"{") + _method(method)


def _with_params(head: bytes, params: EncodedJson) -> bytes:
    """The line, its params copied once."""
    return b"".join((head, b',"params":', _one_line(params), b"}\n"))


def _one_line(value: bytes) -> bytes:
    """In JSON a raw line break can only be white space between tokens, so a space replaces it."""
    if b"\n" in value or b"\r" in value:
        return value.replace(b"\n", b" ").replace(b"\r", b" ")
    return value
