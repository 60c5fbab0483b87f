"""Hold the rules of ACP's streamable HTTP, for both sides.

Each message of the client is a POST, which is answered at once (202); those of the agent are
events of streams that the client opens with GET: one for the connection, one for each session.
Knows where a message belongs, and must not know what it means.
"""

from __future__ import annotations

import json
import re
from typing import Final

from codex_acp._json import text_at

CONNECTION_ID: Final = "Acp-Connection-Id"
"""The header that names a connection: an address, and no secret."""

SESSION_ID: Final = "Acp-Session-Id"
"""The header that names the session to which a message, or a stream, belongs."""

JSON: Final = "application/json"
"""The content type of what is posted."""

EVENT_STREAM: Final = "text/event-stream"
"""The content type of a stream."""

INITIALIZE: Final = "initialize"
"""The one request that is answered by the response to its POST, and makes the connection."""

LOAD: Final = "session/load"
"""The one request of a session whose answer is the connection's."""

CLOSING: Final = frozenset({"session/close", "session/delete"})
"""Requests after which a session's stream has nothing more to tell."""

NEED_SESSION: Final = frozenset(
    {
        "session/cancel",
        "session/close",
        "session/prompt",
        "session/set_config_option",
        "session/set_mode",
    }
)
"""Methods whose POST names the session in a header, too: those for which every SDK does so."""

KEEP_ALIVE: Final = b":\n\n"
"""An event that is none, for whatever ends a stream on which nothing is said."""

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def session_named(params: object) -> str | None:
    """The session that the params of a request or a notification name."""
    return text_at(params, "sessionId")


def as_event(line: bytes) -> bytes:
    """A message, without line breaks, as an event.

    In ASCII: readers are known that decode each chunk of a stream by itself, and others that take
    more characters for the end of a line than the protocol does.
    """
    if not line.isascii():
        text = line.decode(errors="replace")
        line = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text).encode()
    return b"data: " + line + b"\n\n"
