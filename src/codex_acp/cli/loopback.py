"""Whether this machine can talk to itself: a scripted model is at 127.0.0.1."""

from __future__ import annotations

import socket
from typing import Final

NO_LOOPBACK: Final = "this machine has no loopback network, and the scripted model is at 127.0.0.1"

BRING_IT_UP: Final = "bring it up with `ip link set lo up`"

SECONDS: Final = 5.0
"""It takes a millisecond, where a firewall drops nothing."""


def has_loopback() -> bool:
    """Try it."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=SECONDS),
        ):
            return True
    except OSError:
        return False
