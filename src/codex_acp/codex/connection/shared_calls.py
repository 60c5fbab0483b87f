"""Make the calls that the adapter and `CodexClient` share. Imports no generated models.

`let_go` frees a thread for another process: only one process can write a thread, as long as its
Codex has the thread loaded. By default, Codex keeps a thread loaded for a minute after the last
subscriber has left, an older Codex for half an hour; `UNLOAD_AT_ONCE` of `launch` ends this delay.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at, value_at
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, ErrorReply, TransportError
from codex_acp.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue


logger = logging.getLogger(__name__)


async def login_is_missing(codex: AppServerConnection) -> bool:
    """Return whether the configured model provider needs a login and nobody is logged in.

    Called before anything is sent to a model. Returns False if Codex answers with an error: a turn
    without its login then fails with an error of its own. Raises ErrorReply if the configuration
    cannot be read.
    """
    try:
        answer = await codex.call_raw("account/read", {"refreshToken": False})
    except ErrorReply as error:
        logger.info("Codex does not tell whether a login is needed: %s", error)
        return False
    needs_login = value_at(answer, "requiresOpenaiAuth") is True
    if not needs_login or value_at(answer, "account") is not None:
        return False
    # If the configuration cannot be read, this raises: the login is not the fault.
    await codex.call_raw("config/read", {})
    return True


async def is_no_directory(codex: AppServerConnection, path: str) -> bool:
    """Return whether a path surely is no directory. Codex checks a path that is no directory on
    this machine, because Codex may run on another one."""
    if os.path.isdir(path):  # noqa: ASYNC240, PTH112 - quick; no pathlib before a session is open
        return False
    try:
        found = await codex.call_raw("fs/getMetadata", {"path": path})
    except ErrorReply as error:
        return error.code != METHOD_NOT_FOUND  # without the method, nothing is known of the path
    except TransportError:
        return False
    return value_at(found, "isDirectory") is False


UNLOAD_SECONDS: Final = 1.0
"""Seconds for a thread to be unloaded, which takes milliseconds unless something runs in it."""

CLOSED: Final = "thread/closed"


def is_open_elsewhere(error: CodexAcpError) -> bool:
    """Return whether Codex refused a thread that another process writes; the error has no code."""
    return isinstance(error, ErrorReply) and error.message.endswith("already has an active writer")


async def let_go(codex: AppServerConnection, thread_id: str) -> None:
    """Unsubscribe from a thread, and wait until Codex has unloaded it, `UNLOAD_SECONDS` at most.
    Then another process may write the thread. Raises as `AppServerConnection.call_raw` does."""
    unloaded = AwaitedNotification(CLOSED, thread_id)
    codex.subscribe_all(unloaded, frozenset({CLOSED}))  # it ignores other threads
    try:
        result = await codex.call_raw("thread/unsubscribe", {"threadId": thread_id})
        # An older Codex knows no `UNLOAD_AT_ONCE`: its delay is too long to wait for.
        if codex.unloads_at_once and text_at(result, "status") == "unsubscribed":
            with suppress(TimeoutError):
                async with asyncio.timeout(UNLOAD_SECONDS):
                    await unloaded.arrived.wait()
    finally:
        codex.unsubscribe_all(unloaded)


class AwaitedNotification(NotificationSink):
    """Sets ``arrived`` when a thread gets a notification, or the connection ends."""

    def __init__(self, method: str, thread_id: str) -> None:
        self._awaited = (method, thread_id)
        self.params: JsonValue = None
        """Params of the last such notification."""
        self.arrived = asyncio.Event()

    def on_notification(self, method: str, params: JsonValue) -> None:
        if (method, text_at(params, "threadId")) == self._awaited:
            self.params = params
            self.arrived.set()

    def on_closed(self, error: TransportError | None) -> None:
        del error
        self.arrived.set()
