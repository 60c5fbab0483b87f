"""Errors for requests that Codex refused, or whose session cannot be opened.

Codex's code of an error does not name the reason, so some functions ask Codex for the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from codex_acp._json import object_at, value_at
from codex_acp.codex.connection.shared_calls import is_open_elsewhere
from codex_acp.errors import CodexAcpError, ErrorReply, NotAnswered, RpcError, TransportError
from codex_acp.jsonrpc import (
    AGENT_LOST,
    AUTHENTICATION_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    SESSION_BUSY,
    THREAD_ACTIVE_WRITER,
    JsonValue,
)
from codex_acp.routing.display import inline, visible_controls
from codex_acp.transcript.secrets import scrub, scrub_json

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.thread_peers import Writer


def unknown_session(session_id: str, data: object = None) -> RpcError:
    """Return the error for a session that Codex does not have (ACP: -32002)."""
    message = f"there is no session {session_id!r}; session/list names those that there are"
    details: dict[str, object] = {"sessionId": session_id}
    if data is not None:
        details["codex"] = data
    return RpcError(RESOURCE_NOT_FOUND, message, details)


def not_open(session_id: str) -> RpcError:
    """Return the error for a session that the client does not have open (ACP: -32002)."""
    message = f"the session {session_id!r} is not open; session/list names those that can be opened"
    return RpcError(RESOURCE_NOT_FOUND, message, {"sessionId": session_id})


def deleted_meanwhile(session_id: str) -> RpcError:
    """Return the error for a session that is deleted while it is loaded or resumed."""
    message = f"the session {session_id!r} was deleted while it was loaded"
    return RpcError(RESOURCE_NOT_FOUND, message, {"sessionId": session_id})


def closed_meanwhile(session_id: str) -> RpcError:
    """Return the error for a session that the client closes while it is loaded or resumed."""
    message = f"the session {session_id!r} was closed while it was opened"
    return RpcError(INVALID_REQUEST, message, {"sessionId": session_id})


def archived_session(session_id: str, error: RpcError) -> RpcError:
    """Return the error for a session in the archive, which cannot be opened."""
    message = f"the session {session_id!r} is archived; session/unarchive makes it usable again"
    return RpcError(INVALID_REQUEST, message, {"sessionId": session_id, "codex": error.data})


def never_stored(session_id: str, error: RpcError) -> RpcError:
    """Return the error for an open session whose thread was not stored when Codex ended. ``error``
    is the error of `unknown_session`, whose data have the session's id."""
    message = (
        f"Codex has ended, and has nothing of the session {session_id!r}: it had no first prompt, "
        "or was deleted; start a new session"
    )
    return RpcError(RESOURCE_NOT_FOUND, message, object_at(error.data) | {"reason": AGENT_LOST})


def open_elsewhere(session_id: str, writer: Writer | None) -> RpcError:
    """Return the error for a session that another program has open and does not hand over."""
    # `Writer.__str__` names the process, its id and its parent, so that a person finds it.
    holder = "another program" if writer is None else str(writer)
    message = (
        f"the session {session_id!r} is open in {holder}, and Codex lets one process write it; "
        "close it there and try again, or go on with a copy (session/fork)"
    )
    data: dict[str, object] = {"sessionId": session_id, "reason": THREAD_ACTIVE_WRITER}
    if writer is not None:
        data["holder"] = {"pid": writer.pid, "name": writer.name}
    return RpcError(INVALID_REQUEST, message, data)


def busy_elsewhere(session_id: str, pid: JsonValue, holder: str) -> RpcError:
    """Return the error for a session in which something runs in another process of this package."""
    client = inline(holder)
    message = (
        f"something runs in the session {session_id!r} in {client} (process {pid}); wait for its "
        "end, cancel it there, or go on with a copy (session/fork)"
    )
    details = {"pid": pid, "name": client}
    data = {"sessionId": session_id, "reason": SESSION_BUSY, "holder": details}
    return RpcError(INVALID_REQUEST, message, data)


def session_error(error: CodexAcpError) -> RpcError:
    """Return the error for a session that Codex did not open."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, ErrorReply):
        # The data, not only the text, shows an error that a login would cure.
        login = value_at(error.data, "codexErrorInfo") == "unauthorized"
        code = AUTHENTICATION_REQUIRED if login else INTERNAL_ERROR
        return refused_call("Codex could not start the session", error, code)
    if isinstance(error, TransportError):
        return RpcError(INTERNAL_ERROR, scrub(str(error)), {"reason": AGENT_LOST})
    return RpcError(INTERNAL_ERROR, f"Codex could not start the session: {error}")


def sub_agent_session(session_id: str) -> RpcError:
    """Return the error for a request to a sub-agent's session, which only the agent directs."""
    message = f"{session_id!r} is the session of a sub-agent, which can only be cancelled"
    return RpcError(INVALID_PARAMS, message, {"sessionId": session_id})


def refused_call(failure: str, error: ErrorReply, code: int = INTERNAL_ERROR) -> RpcError:
    """Return the error for a call that Codex refused: ``failure``, and Codex's reason, redacted."""
    reason = visible_controls(scrub(error.message))
    details = scrub_json(cast("JsonValue", error.data))
    data = {"message": reason, "code": error.code, "data": details}
    return RpcError(code, f"{failure}: {reason}", data)


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
    """Look for the reason why Codex refused a thread with ``error``.

    Raises RpcError -32002 if Codex has no such thread, -32600 if the thread is in the archive.
    Returns the thread if the refusal has another reason; None if Codex does not answer.
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
    """Raise RpcError -32600 with the name of the other process that has the thread open, if
    ``error`` reports one."""
    if not is_open_elsewhere(error):
        return
    from codex_acp.codex.connection.thread_peers import writer_of
    from codex_acp.transport.shielding import in_worker_thread

    home = codex.server.codex_home
    raise open_elsewhere(session_id, await in_worker_thread(lambda: writer_of(home, session_id)))
