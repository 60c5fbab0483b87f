"""Hold ACP's framing options and method tables, for every connection.

Knows the generated registries' shape, but no single method except ``$/cancel_request``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp.errors import MisuseError
from codex_acp.jsonrpc.framing import DEFAULT_LINE_LIMIT
from codex_acp.transport.connection import Connection, Direction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.transport.link import Link
    from codex_acp.wire.registry import MethodInfo

    QuickHandler: TypeAlias = Callable[[JsonValue], Callable[[], Awaitable[EncodedJson]] | None]
    ExtensionHandler: TypeAlias = Callable[[JsonValue], Awaitable[JsonValue]]

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


def stdio() -> Link:
    """The link of an agent to whoever started it. What is printed afterwards goes to stderr."""
    from codex_acp.transport.stdio import StdioLink, claim_stdout

    return StdioLink(stdout_fd=claim_stdout())


def check_rows(what: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError unless ``rows`` has one row for each method.

    A type checker reports the same; this is for programs that are not checked.
    """
    missing = [method for method in methods if method not in rows]
    if missing:
        raise MisuseError(f"the table of {what} handlers has no row for {', '.join(missing)}")
    check_known(what, rows, methods)


def check_extensions(rows: Mapping[str, object]) -> None:
    """Raise MisuseError if ``rows`` has a method that a schema could have one day."""
    wrong = [method for method in rows if not method.startswith("_")]
    if wrong:
        msg = f"a method that is in no schema has to begin with _, unlike {', '.join(wrong)}"
        raise MisuseError(msg)


def check_known(what: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError if ``rows`` has one that is no method."""
    unknown = [method for method in rows if method not in methods]
    if unknown:
        msg = f"the table of {what} handlers has rows for unknown methods: {', '.join(unknown)}"
        raise MisuseError(msg)
