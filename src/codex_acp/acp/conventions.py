"""What ACP lays down for any connection: its framing options, its methods, its tables.

Knows the generated registries' shape, but no single method except ``$/cancel_request``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import MisuseError
from codex_acp.jsonrpc.framing import DEFAULT_LINE_LIMIT
from codex_acp.transport.child import spawn
from codex_acp.transport.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.transport.connection import Direction
    from codex_acp.transport.link import Link
    from codex_acp.wire.registry import MethodInfo

__all__ = ["CANCEL_REQUEST", "Methods", "acp_connection", "check_known", "check_rows", "spawn"]

CANCEL_REQUEST: Final = "$/cancel_request"
"""Either side may send it to give up a request of its own."""


def acp_connection(
    link: Link,
    *,
    name: str,
    line_limit: int = DEFAULT_LINE_LIMIT,
    on_line: Callable[[Direction, bytes], None] | None = None,
) -> Connection:
    """A connection with ACP's conventions. ``name`` stands for the peer in logs and errors.

    ``line_limit`` is in bytes; ``on_line`` sees each line received and sent.
    """
    return Connection(
        link,
        name=name,
        version=True,
        line_limit=line_limit,
        cancel_method=CANCEL_REQUEST,
        on_line=on_line,
    )


class Methods(NamedTuple):
    """The generated registries of one side."""

    handled: Mapping[str, MethodInfo]
    """Requests that the peer may send."""
    heard: Mapping[str, MethodInfo]
    """Notifications that the peer may send."""
    called: Mapping[str, MethodInfo]
    """Requests that this side may send."""
    told: Mapping[str, MethodInfo]
    """Notifications that this side may send."""


class Unstable(NamedTuple):
    """A side's handlers of unstable methods. That there are such tables is the opt-in."""

    requests: Mapping[str, object] = {}
    notifications: Mapping[str, object] = {}


def unstable_tables(
    requests: Mapping[str, object] | None, notifications: Mapping[str, object] | None
) -> Unstable | None:
    """The tables of unstable methods that a side was given; None if it was given none."""
    if requests is None and notifications is None:
        return None
    return Unstable(requests or {}, notifications or {})


def stable_methods(methods: Mapping[str, MethodInfo]) -> dict[str, MethodInfo]:
    """Those that the stable schema has."""
    return {method: info for method, info in methods.items() if not info.experimental}


def unstable_methods(methods: Mapping[str, MethodInfo]) -> dict[str, MethodInfo]:
    """Those that the stable schema does not have."""
    return {method: info for method, info in methods.items() if info.experimental}


def check_rows(what: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError unless ``rows`` has one row for each method.

    A type checker reports the same; this is for programs that are not checked.
    """
    missing = [method for method in methods if method not in rows]
    if missing:
        msg = f"the table of {what} handlers has no row for {', '.join(missing)}"
        raise MisuseError(msg)
    check_known(what, rows, methods)


def check_known(what: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError if ``rows`` has one that is no method."""
    unknown = [method for method in rows if method not in methods]
    if unknown:
        msg = f"the table of {what} handlers has rows for unknown methods: {', '.join(unknown)}"
        raise MisuseError(msg)
