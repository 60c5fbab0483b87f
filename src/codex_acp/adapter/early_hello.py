"""Send ``initialize`` to Codex before an event loop is loaded, if the client has sent one already.

Most clients send ``initialize`` when they start the agent. Codex then does the handshake while this
process imports its modules. The connection still reads and answers the client's line later.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codex_acp.acp.capabilities import initialize_params
from codex_acp.codex.connection.handshake import Hello
from codex_acp.mapping.agent import UNWANTED_NOTIFICATIONS, codex_client_info, fits_schema

if TYPE_CHECKING:
    from codex_acp.transport.child import ChildProcess


def say_hello(received: bytes, codex: ChildProcess) -> Hello | None:
    """Send the handshake to Codex and return it; None if the bytes ``received`` from the client do
    not begin with an ``initialize`` that can be read without a generated model."""
    line, line_end, _ = received.partition(b"\n")
    try:
        message = json.loads(line) if line_end else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return None
    params = initialize_params(message.get("params"), 1)
    if not isinstance(params, dict) or not fits_schema(params):
        return None
    hello = Hello(codex_client_info(params), None, UNWANTED_NOTIFICATIONS)
    hello.send_early(codex)
    return hello if hello.is_sent else None
