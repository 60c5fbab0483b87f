"""The one answer that a request of the peer gets.

Owns "exactly once". Must not know what the request asks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol, cast

from codex_acp.jsonrpc.encode import encode_error, encode_result

if TYPE_CHECKING:
    from codex_acp.errors import RpcError
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue, RequestId

logger = logging.getLogger(__name__)


class AnswerSink(Protocol):
    """Where an answer goes: the connection that the request came from."""

    def send_answer(self, request_id: RequestId, line: bytes) -> bool:
        """Send the encoded answer; False if the connection is closed."""


class Responder:
    """Answers one request, once. May be kept and used later, from the event loop's thread.

    `result` and `error` give True if the answer was handed to the connection; False if the
    connection is closed (dropped silently) or the request was settled before (logged).
    """

    __slots__ = ("_settled", "_sink", "_version", "id", "method")

    def __init__(
        self, sink: AnswerSink, request_id: RequestId, method: str, *, version: bool
    ) -> None:
        self._sink = sink
        self._version = version
        self._settled = False
        self.id: RequestId = request_id
        """The request's id, as the peer wrote it."""
        self.method: str = method
        """The request's method."""

    @property
    def settled(self) -> bool:
        """Whether an answer was given."""
        return self._settled

    def result(self, result: EncodedJson) -> bool:
        """Answer with a result."""
        return self._settle(encode_result(self.id, result, version=self._version))

    def error(self, code: int, message: str, data: JsonValue = None) -> bool:
        """Answer with an error. Raises as `encode_json` if ``data`` is not JSON."""
        return self._settle(encode_error(self.id, code, message, data, version=self._version))

    def rpc_error(self, error: RpcError) -> bool:
        """Answer with the error that a handler chose; data that is not JSON is left out."""
        try:
            return self.error(error.code, error.message, cast("JsonValue", error.data))
        except (TypeError, ValueError, RecursionError):
            logger.warning("the data of the error for %s is not JSON", self.method)
            return self.error(error.code, str(error.message))

    def _settle(self, line: bytes) -> bool:
        if self._settled:
            logger.warning("a second answer to %s (id %r) was dropped", self.method, self.id)
            return False
        self._settled = True
        return self._sink.send_answer(self.id, line)
