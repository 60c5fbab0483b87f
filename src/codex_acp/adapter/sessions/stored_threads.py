"""Ask Codex whether a thread is stored or archived."""

from __future__ import annotations

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
    """Return a thread that Codex has stored, without turns; an empty object if the reply has none;
    None if Codex refuses. Raises TransportError or NotAnswered."""
    try:
        result = await codex.call_raw("thread/read", {"threadId": session_id})
    except ErrorReply:
        return None
    return object_at(result, "thread")


async def may_exist(codex: AppServerConnection, session_id: str) -> bool:
    """Return whether Codex has stored the thread; True if Codex does not answer."""
    try:
        return await stored_thread(codex, session_id) is not None
    except (TransportError, NotAnswered):
        return True


async def explain_refusal(
    codex: AppServerConnection, session_id: str, error: RpcError
) -> dict[str, JsonValue] | None:
    """Raise the reason why Codex refused a thread with ``error``, whose code does not tell it.

    Raises RpcError -32002 if Codex has no such thread, -32600 if the thread is in the archive;
    else returns the thread, or None if Codex does not answer.
    """
    from codex_acp.mapping.session import is_archived  # loads a model; rarely needed

    try:
        thread = await stored_thread(codex, session_id)
    except (TransportError, NotAnswered):
        return None
    if thread is None:
        raise unknown_session(session_id, error.data) from error
    if is_archived(thread):
        raise archived_session(session_id, error) from error
    return thread


async def raise_if_open_elsewhere(
    codex: AppServerConnection, session_id: str, error: CodexAcpError
) -> None:
    """Raise RpcError -32600 with the name of the process that has the thread open, if ``error``
    says that another process has."""
    if not is_open_elsewhere(error):
        return
    from codex_acp.codex.connection.thread_peers import writer_of
    from codex_acp.transport.shielding import in_worker_thread

    home = codex.server.codex_home
    raise open_elsewhere(session_id, await in_worker_thread(lambda: writer_of(home, session_id)))
