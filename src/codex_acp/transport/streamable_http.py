"""Define the rules of ACP's streamable HTTP: names for both sides, the client's routes. Does no IO.

Each message of the client is a POST, which is answered at once (202). Messages of the agent are
events of streams that the client opens with GET: one for the connection, one for each session. This
module finds the stream to which a message belongs, and must not know what the message means.
Source: the RFD ``streamable-http-websocket-transport`` of the Agent Client Protocol.
"""

from __future__ import annotations

import json
import re
from dataclasses import field
from typing import Any, Final

from codex_acp._json import text_at
from codex_acp._record import record
from codex_acp.jsonrpc import INTERNAL_ERROR, RequestId, encode_error
from codex_acp.transport.json_decoding import default_loads

CONNECTION_ID: Final = "Acp-Connection-Id"
"""The header that names a connection. Its value is no secret."""

SESSION_ID: Final = "Acp-Session-Id"
"""The header that names the session to which a message, or a stream, belongs."""

JSON: Final = "application/json"
"""The content type of a posted message."""

EVENT_STREAM: Final = "text/event-stream"
"""The content type of a stream."""

INITIALIZE: Final = "initialize"
"""The only request that is answered in the response to its POST. It makes the connection."""

LOAD: Final = "session/load"
"""The only request about a session whose answer comes on the connection's stream."""

REPLAYING: Final = frozenset({LOAD, "session/resume"})
"""Requests that replay a session. The answer ends the replay, and may come on another stream."""

CLOSING: Final = frozenset({"session/close", "session/delete"})
"""Requests whose answer is the last event of the session's stream."""

NEED_SESSION: Final = frozenset(
    {
        "session/cancel",
        "session/close",
        "session/prompt",
        "session/set_config_option",
        "session/set_mode",
    }
)
"""Methods whose POST must also name the session in a header, as every SDK does for them."""

KEEP_ALIVE: Final = b":\n\n"
"""A comment, which is no event. It keeps proxies from ending a silent stream."""

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def session_named(params: object) -> str | None:
    """Return the session that the params of a request or a notification name."""
    return text_at(params, "sessionId")


def as_event(line: bytes) -> bytes:
    """Return a message, without line breaks, as an event in ASCII. Some readers decode each chunk
    separately; others end a line also at characters at which the protocol does not."""
    if not line.isascii():
        text = line.decode(errors="replace")
        line = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text).encode()
    return b"data: " + line + b"\n\n"


@record
class Outgoing:
    """A message to be sent, without its line."""

    method: str | None
    """None: the message is an answer."""
    request_id: RequestId | None
    """None: the message is a notification or an answer."""
    session: str | None
    """The session whose stream carries the message; None: the connection's own stream."""


@record
class Arrived:
    """The effect of a received message on the streams."""

    opened_session: str | None = None
    """A session that the answer has opened."""
    closed_session: str | None = None
    """A session that the answer has closed."""
    replayed_session: str | None = None
    """A session whose replay the answer ends."""
    duplicate: bool = False
    """Whether the message repeats an open request: then it is not delivered."""


@record
class HttpRoutes:
    """The open requests of one connection. Must get each message once, in order."""

    _our_requests: dict[RequestId, Outgoing] = field(default_factory=dict)
    _peer_requests: dict[RequestId | None, tuple[str | None, int]] = field(default_factory=dict)
    """Id of an open request of the peer → its stream, and the hash of its line."""

    def outgoing(self, line: bytes) -> Outgoing:
        """Return the stream of a line that this program sends, and note its request."""
        message = _message(line)
        request_id, method = message.get("id"), message.get("method")
        if method is None:
            # The id is None in an error about a message whose id could not be read.
            session, _ = self._peer_requests.pop(request_id, (None, 0))
            return Outgoing(None, None, session)
        sent = Outgoing(method, request_id, session_named(message.get("params")))
        if request_id is not None:
            self._our_requests[request_id] = sent
        return sent

    def arrived(self, line: bytes, stream: str | None) -> Arrived:
        """Return the effect of a message that came on a session's stream, or the connection's."""
        if b'"id"' not in line:  # a notification, as nearly all lines are
            return Arrived()
        message = _message(line)
        request_id = message.get("id")
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return Arrived()
        if "method" in message and "result" not in message and "error" not in message:
            _, open_hash = self._peer_requests.get(request_id, (None, None))
            if open_hash == hash(line):
                return Arrived(duplicate=True)
            self._peer_requests.setdefault(request_id, (stream, hash(line)))
            return Arrived()
        request = self._our_requests.pop(request_id, None)
        if request is None or "result" not in message:
            return Arrived()
        return Arrived(
            opened_session=text_at(message, "result", "sessionId"),
            closed_session=request.session if request.method in CLOSING else None,
            replayed_session=request.session if request.method in REPLAYING else None,
        )

    def unanswered(self, session: str) -> list[RequestId]:
        """Return the ids of this side's open requests about a session."""
        return [key for key, request in self._our_requests.items() if request.session == session]

    def is_answer(self, body: bytes, request_id: RequestId | None) -> bool:
        """Return whether the body of a response is the answer to this request."""
        message = _message(body)
        return message.get("id") == request_id and ("result" in message or "error" in message)

    def error_answer(self, request_id: RequestId, why: str) -> bytes | None:
        """Return an error that answers a request of this side; None if the request is not open."""
        if self._our_requests.pop(request_id, None) is None:
            return None
        return encode_error(request_id, INTERNAL_ERROR, why, version=True)


def _message(line: bytes) -> dict[str, Any]:
    """Return a line's message; empty for a malformed line, which the connection reports."""
    try:
        message = default_loads()(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
