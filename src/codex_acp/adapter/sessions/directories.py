"""Check that a session's directories exist where Codex runs.

A path that is no directory on this machine is checked by Codex, which may run on another one
(``CODEX_PATH`` may name a program that starts it there).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codex_acp._json import list_at, value_at
from codex_acp.errors import ErrorReply, RpcError, TransportError
from codex_acp.jsonrpc.message import INVALID_PARAMS, METHOD_NOT_FOUND, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex.connection.app_server_connection import AppServerConnection


async def check_directories(codex: AppServerConnection, params: Mapping[str, JsonValue]) -> None:
    """Raise RpcError -32602 for a path in the params of a thread that surely is no directory."""
    for field, path in _not_on_this_machine(params):
        if await _is_no_directory(codex, path):
            message = f"{field}: {path!r} is not a directory; create it, or name another one"
            raise RpcError(INVALID_PARAMS, message)


def _not_on_this_machine(params: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Return field and path of each path that is no directory on this machine."""
    more = list_at(params, "runtimeWorkspaceRoots")[1:]
    given = [("cwd", params.get("cwd")), *(("additionalDirectories", path) for path in more)]
    return [(field, p) for field, p in given if isinstance(p, str) and not os.path.isdir(p)]  # noqa: PTH112 - no pathlib before a session is open


async def _is_no_directory(codex: AppServerConnection, path: str) -> bool:
    try:
        found = await codex.call_raw("fs/getMetadata", {"path": path})
    except ErrorReply as error:
        return error.code != METHOD_NOT_FOUND  # without the method, nothing is known of the path
    except TransportError:
        return False
    return value_at(found, "isDirectory") is False
