"""Which stream and which headers a message of ACP over HTTP belongs to.

Knows the ids of what is open in both directions, and no connection: does no IO.
Source: the RFD ``streamable-http-websocket-transport`` of the Agent Client Protocol.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from codex_acp._record import record
from codex_acp.jsonrpc.encode import encode_error
from codex_acp.jsonrpc.message import INTERNAL_ERROR, JsonValue, RequestId
from codex_acp.transport.json_decoding import default_loads
from codex_acp.transport.streamable_http import CLOSING, LOAD, session_named

REPLAYING: Final = frozenset({LOAD, "session/resume"})
"""Their answers end what a session's stream replays, and may come on another one."""


@record
class Outgoing:
    """A message to be sent."""

    line: bytes
    method: str | None
    """None of an answer."""
    request_id: RequestId | None
    """Of a request; None of what nobody answers."""
    session: str | None
    """Session of the stream; None: the connection's own."""


@record
class Arrived:
    """A message that came, and what it means for the streams."""

    opens: str | None = None
    """A session that this side has now."""
    ends: str | None = None
    """A session that is over."""
    replayed: str | None = None
    """A session whose replay this answer ends."""
    again: bool = False
    """A request that is open already: it is not delivered."""


@record
class _Asked:
    method: str
    session: str | None


@record
class HttpRoutes:
    """Told of each message once, in order."""

    _asked: dict[RequestId, _Asked] = field(default_factory=dict)
    """Our requests that are not answered."""
    _questions: dict[RequestId | None, tuple[str | None, int]] = field(default_factory=dict)
    """The peer's requests that are not answered: on which stream they came, and their hash."""

    def outgoing(self, line: bytes) -> Outgoing:
        """A line that this program wrote."""
        message = default_loads()(line)
        assert isinstance(message, dict)
        request_id, method = message.get("id"), message.get("method")
        if method is None:
            # None of an error about a message whose id could not be read.
            session, _ = self._questions.pop(request_id, (None, 0))
            return Outgoing(line, None, None, session)
        session = session_named(message.get("params"))
        if request_id is not None:
            self._asked[request_id] = _Asked(method, session)
        return Outgoing(line, method, request_id, session)

    def arrived(self, line: bytes, stream: str | None) -> Arrived:
        """Sort a message that came on a session's stream, or on the connection's (None)."""
        if b'"id"' not in line:  # nearly all: what a session tells
            return Arrived()
        try:
            message = default_loads()(line)
        except ValueError:  # the connection says so
            return Arrived()
        if not isinstance(message, dict):
            return Arrived()
        request_id: JsonValue = message.get("id")
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return Arrived()
        if "method" in message:
            question = self._questions.get(request_id)
            if question is not None and question[1] == hash(line):
                return Arrived(again=True)
            self._questions.setdefault(request_id, (stream, hash(line)))
            return Arrived()
        return self._answered(request_id, message)

    def unanswered(self, session: str) -> list[RequestId]:
        """Our requests about a session that are not answered."""
        return [key for key, asked in self._asked.items() if asked.session == session]

    def is_answer(self, body: bytes, request_id: RequestId | None) -> bool:
        """Whether a body is the answer to this request."""
        try:
            message = default_loads()(body)
        except ValueError:
            return False
        return (
            isinstance(message, dict)
            and message.get("id") == request_id
            and ("result" in message or "error" in message)
        )

    def refusal(self, request_id: RequestId, why: str) -> bytes | None:
        """An answer of this side to a request of its own that cannot be sent, or gets none."""
        if self._asked.pop(request_id, None) is None:
            return None
        return encode_error(request_id, INTERNAL_ERROR, why, version=True)

    def _answered(self, request_id: RequestId, message: dict[str, JsonValue]) -> Arrived:
        asked = self._asked.pop(request_id, None)
        if asked is None or "result" not in message:
            return Arrived()
        result = message["result"]
        opens = result.get("sessionId") if isinstance(result, dict) else None
        return Arrived(
            opens=opens if isinstance(opens, str) else None,
            ends=asked.session if asked.method in CLOSING else None,
            replayed=asked.session if asked.method in REPLAYING else None,
        )
