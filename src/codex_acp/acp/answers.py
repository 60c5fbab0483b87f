"""How the outcome of a request handler becomes the one answer of its request.

Owns the error codes and their messages. Must not know any method, nor how handlers are run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from codex_acp.errors import CodexAcpError, InvalidPayload, RpcError, TransportError
from codex_acp.jsonrpc.message import (
    AGENT_LOST,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    EncodedJson,
    JsonValue,
    encode_json,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.transport.connection import Responder

logger = logging.getLogger(__name__)


class _EncodedResult(NamedTuple):
    """A result that needs no model. A type of its own: a typed handler may not return bytes."""

    json: EncodedJson


async def encoded_result(run: Callable[[], Awaitable[EncodedJson]]) -> object:
    """Await ``run`` and mark its result for `answer_result`, as JSON to be sent unchanged."""
    return _EncodedResult(await run())


async def extension_result(
    answer: Callable[[JsonValue], Awaitable[JsonValue]], params: JsonValue
) -> object:
    """The same of what ``answer`` returns for the params of a method that is in no schema."""
    return _EncodedResult(encode_json(await answer(params)))


def answer_result(responder: Responder, result: object) -> None:
    """Answer with what a handler returned; raises if that is no model or cannot be encoded."""
    if responder.settled:
        return
    if isinstance(result, _EncodedResult):
        responder.result(result.json)
        return
    from codex_acp.wire.codec import encode  # here: an answer may be given before models load
    from codex_acp.wire.model import WireModel

    if not isinstance(result, WireModel):
        msg = f"the handler returned {type(result).__name__} where a result model is needed"
        raise TypeError(msg)
    responder.result(encode(result))


def answer_rpc_error(responder: Responder, error: RpcError) -> None:
    """Answer with an error, unless the request is settled; its message steers no terminal."""
    if not responder.settled:
        if not error.message.isprintable():
            from codex_acp._glyphs import plain_text  # seldom: not at the start

            error = RpcError(error.code, plain_text(error.message), error.data)
        responder.rpc_error(error)


def answer_failure(responder: Responder, error: Exception, *, was_cancelled: bool) -> None:
    """Answer for a handler that raised.

    An RpcError is the answer that the handler chose. Anything else is -32603 with what happened;
    or -32800 if the peer had cancelled the request, which is all that ACP then allows.
    """
    method = responder.method
    if isinstance(error, RpcError):
        answer_rpc_error(responder, error)
        return
    if isinstance(error, CodexAcpError):
        what = str(error)
        # Handlers that end because the connection does are no news.
        level = logging.DEBUG if responder.settled or was_cancelled else logging.WARNING
        logger.log(level, "the handler of %s failed: %s", method, what)
    else:
        what = f"{type(error).__name__}: {error}"
        logger.error("the handler of %s failed", method, exc_info=error)
    if was_cancelled:
        answer_rpc_error(responder, cancelled(method))
    else:
        data = {"reason": AGENT_LOST} if isinstance(error, TransportError) else None
        answer_rpc_error(responder, RpcError(INTERNAL_ERROR, f"{method} failed: {what}", data))


def cancelled(method: str, why: str = "was cancelled") -> RpcError:
    """Return the error for a request that the client cancelled."""
    return RpcError(REQUEST_CANCELLED, f"{method} {why}")


def invalid_params(error: InvalidPayload) -> RpcError:
    """Return the error for params that do not fit; its message and data name each wrong field."""
    return RpcError(INVALID_PARAMS, f"invalid params: {error}", {"problems": list(error.problems)})


def not_offered(method: str) -> RpcError:
    """Return the error for a method that is unknown or has no handler."""
    return RpcError(METHOD_NOT_FOUND, f"the method {method} is not offered", {"method": method})
