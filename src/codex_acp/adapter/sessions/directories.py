"""Whether the directories that a client gave a session are any, where Codex runs.

Here they are looked at first; what is none here may still be one there (``CODEX_PATH`` may name a
program that starts Codex on another machine), so then Codex is asked.
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
    """Raises RpcError -32602 for a directory in the params of a thread that surely is none."""
    for where, path in _none_here(params):
        if await _is_none(codex, path):
            message = f"{where}: {path!r} is not a directory; create it, or name another one"
            raise RpcError(INVALID_PARAMS, message)


def _none_here(params: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """The field and the path of each that is no directory on this machine."""
    more = list_at(params, "runtimeWorkspaceRoots")[1:]
    given = [("cwd", params.get("cwd")), *(("additionalDirectories", path) for path in more)]
    return [(where, p) for where, p in given if isinstance(p, str) and not os.path.isdir(p)]  # noqa: PTH112 - no pathlib before a session is open


async def _is_none(codex: AppServerConnection, path: str) -> bool:
    try:
        found = await codex.call_raw("fs/getMetadata", {"path": path})
    except ErrorReply as error:
        return error.code != METHOD_NOT_FOUND  # a Codex without the method does not know, either
    except TransportError:
        return False
    return value_at(found, "isDirectory") is False
