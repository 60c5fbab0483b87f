"""Codex is told for whom it works when the client has said it, before an event loop is loaded.

Most clients say it right when they start the agent. Codex then shakes hands as it boots, while this
process imports. Only looks at the client's first line: the connection reads and answers it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codex_acp.acp.capabilities import initialize_params
from codex_acp.codex.connection.handshake import Hello
from codex_acp.mapping.agent import UNWANTED_NOTIFICATIONS, codex_client_info, is_simple

if TYPE_CHECKING:
    from codex_acp.transport.child import ChildProcess


def say_hello(first: bytes, codex: ChildProcess) -> Hello | None:
    """The handshake that was begun; None if ``first``, what a client has sent, is no reason to."""
    line, is_whole, _ = first.partition(b"\n")
    try:
        message = json.loads(line) if is_whole else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return None
    params = initialize_params(message.get("params"), 1)
    if not isinstance(params, dict) or not is_simple(params):
        return None
    hello = Hello(codex_client_info(params), None, UNWANTED_NOTIFICATIONS)
    hello.send_early(codex)
    return hello if hello.is_sent else None
