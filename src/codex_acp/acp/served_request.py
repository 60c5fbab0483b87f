"""The request of the peer that a task answers, for who is called by its handler."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import EncodedJson, RequestId
    from codex_acp.transport.connection import Responder

_SERVED: ContextVar[Responder] = ContextVar("_SERVED")


def serving(responder: Responder) -> None:
    """From now on the task answers this request."""
    _SERVED.set(responder)


def served_request_id() -> RequestId:
    """The id of that request: elicitations may refer to it.

    Raises MisuseError outside of a request's handler.
    """
    return _served().id


def served_answer() -> Callable[[EncodedJson], None]:
    """Return a function that answers the request at once; the handler's own result is dropped then.

    Raises as `served_request_id`.
    """
    responder = _served()

    def answer(result: EncodedJson) -> None:
        if not responder.settled:
            responder.result(result)

    return answer


def _served() -> Responder:
    try:
        return _SERVED.get()
    except LookupError:
        raise MisuseError("no request of the peer is being answered here") from None
