"""Map a client's directories and MCP servers to the params of a thread.

The same for ``thread/start``, ``thread/resume`` and ``thread/fork``. Plain JSON in and out.
Source: ACP page "Session Setup"; schema definitions ThreadStartParams, ThreadResumeParams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, text_at, value_at
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SERVERS: Final = "mcp_servers"


def absolute(path: str, where: str) -> str:
    """The path. Raises RpcError -32602 that names the field ``where`` if it is none."""
    if not path.startswith("/"):
        raise RpcError(INVALID_PARAMS, f"{where}: {path!r} is not an absolute path")
    if "\0" in path:
        raise RpcError(INVALID_PARAMS, f"{where}: {path!r} holds a NUL character")
    return path


def thread_params(
    cwd: str,
    directories: Sequence[str],
    servers: Mapping[str, Mapping[str, object]],
    *,
    stored: bool,
) -> dict[str, JsonValue]:
    """``cwd``, ``runtimeWorkspaceRoots`` and ``config`` of a thread.

    The roots are what Codex's sandbox lets a command write to, in a mode that lets it write at
    all. Codex restores those of a ``stored`` thread by itself; ACP wants just the ones given now.
    Raises RpcError -32602 for a path that is not absolute, or is none at all.
    """
    params: dict[str, JsonValue] = {"cwd": absolute(cwd, "cwd")}
    roots: list[JsonValue] = [cwd]
    for number, directory in enumerate(directories):
        if absolute(directory, f"additionalDirectories.{number}") not in roots:
            roots.append(directory)
    if stored or len(roots) > 1:
        params["runtimeWorkspaceRoots"] = roots
    if servers:
        tables: dict[str, JsonValue] = {}
        for name, table in servers.items():  # a table of all would hide what ``-c`` has set there
            tables[f"{_SERVERS}.{name}"] = dict(table)  # type: ignore[arg-type] # of plain JSON
        params["config"] = tables
    return params


def simple_thread_params(params: JsonValue) -> dict[str, JsonValue] | None:
    """Those of a ``session/new`` with a directory alone; None for all else, and what is wrong.

    That is what most clients send first, and it is answered before the models are loaded.
    """
    if not isinstance(params, dict):
        return None
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\0" in cwd:
        return None
    if "mcpServers" not in params or params["mcpServers"] not in (None, []):
        return None
    if params.get("systemPrompt") is not None:
        return None
    return None if params.get("additionalDirectories") not in (None, []) else {"cwd": cwd}


def started_thread(result: JsonValue) -> str | None:
    """The id in the answer of ``thread/start``; None if there is none."""
    return text_at(result, "thread", "id")


def given_servers(params: Mapping[str, JsonValue]) -> frozenset[str]:
    """Names of the MCP servers in the ``config`` of a thread, by any dotted key."""
    config = object_at(params, "config")
    dotted = (key.split(".")[1] for key in config if key.startswith(_SERVERS + "."))
    return frozenset((*object_at(config, _SERVERS), *dotted))


def configured_servers(result: JsonValue) -> frozenset[str]:
    """Names of the MCP servers in the answer of ``config/read``."""
    return given_servers({"config": value_at(result, "config")})


def without_clashes(
    servers: Mapping[str, Mapping[str, object]], configured: frozenset[str]
) -> tuple[dict[str, Mapping[str, object]], list[str]]:
    """The servers whose names the user's configuration does not have, and a line for each other.

    Codex would mix the two tables: the client's command with the trust that the person gave to
    the configured server, or an address beside a command, which it refuses.
    """
    kept = {name: table for name, table in servers.items() if name not in configured}
    said = [
        f'The MCP server "{name}" of your client was left out: your Codex configuration has one '
        "of that name, and that one is used."
        for name in servers
        if name in configured
    ]
    return kept, said
