"""Asks Codex whether it has stored a thread, and whether that is in the archive."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from codex_acp._json import object_at
from codex_acp.adapter.sessions.opening_errors import (
    archived_session,
    open_elsewhere,
    unknown_session,
)
from codex_acp.codex.connection.shared_calls import is_open_elsewhere
from codex_acp.errors import CodexAcpError, ErrorReply, NotAnswered, RpcError, TransportError

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


async def stored_thread(codex: AppServerConnection, session_id: str) -> dict[str, JsonValue] | None:
    """The thread as Codex has stored it; None: it has not. Raises TransportError."""
    try:
        result = await codex.call_raw("thread/read", {"threadId": session_id})
    except ErrorReply:
        return None
    return object_at(result, "thread")


async def exists(codex: AppServerConnection, session_id: str) -> bool:
    """Whether Codex has stored the thread. Raises TransportError."""
    return await stored_thread(codex, session_id) is not None


async def surely_exists(codex: AppServerConnection, session_id: str) -> bool:
    """The same; yes while nothing can be known."""
    try:
        return await exists(codex, session_id)
    except (TransportError, NotAnswered):
        return True


async def must_be_usable(
    codex: AppServerConnection, session_id: str, error: RpcError
) -> dict[str, JsonValue] | None:
    """Codex has one code for all that goes wrong with a thread: so ask it what it has.

    ``error`` is the answer where it has the thread; raises RpcError -32002 where it has none,
    -32600 where that is in the archive.
    """
    from codex_acp.mapping.session import is_archived  # loads a model; rarely needed

    try:
        thread = await stored_thread(codex, session_id)
    except (TransportError, NotAnswered):
        return None  # nothing is known; the first error is the better answer
    if thread is None:
        raise unknown_session(session_id, error.data) from error
    if is_archived(thread):
        raise archived_session(session_id, error) from error
    return thread


async def raise_if_open_elsewhere(
    codex: AppServerConnection, session_id: str, error: CodexAcpError
) -> None:
    """Raise RpcError -32600 that names who has the thread open, if Codex refused it for that."""
    if not is_open_elsewhere(error):
        return
    from codex_acp.adapter.side_tasks import in_thread
    from codex_acp.codex.connection.thread_peers import writer_of

    home = codex.server.codex_home
    raise open_elsewhere(session_id, await in_thread(lambda: writer_of(home, session_id)))


async def ensure_stored(codex: AppServerConnection, session_id: str) -> None:
    """Have Codex store a loaded thread, which it does by itself with the first turn.

    The item is none that Codex keeps: it gets no history, no name, and the model never sees it.
    Raises TransportError.
    """
    params: dict[str, JsonValue] = {"threadId": session_id, "items": [{"type": "other"}]}
    with suppress(ErrorReply, NotAnswered):  # then resuming it says what is wrong
        await codex.call_raw("thread/inject_items", params)
