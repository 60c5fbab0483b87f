"""The first requests of a client, answered from plain JSON while no model is loaded yet.

Only the simple shapes that clients send; None means that the typed way has to be taken, which
reads leniently, names the field that is wrong, and gives the same answer for these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._version import __version__
from codex_acp.acp.capabilities import negotiated_version
from codex_acp.mapping.agent.auth_methods import auth_methods_json
from codex_acp.mapping.agent.capabilities import AGENT_CAPABILITIES, agent_info_json
from codex_acp.mapping.agent.client_info import client_info_json

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays

__all__ = ["client_info", "initialize_result", "new_session_params", "started_thread"]

MAX_VERSION: Final = 0xFFFF
"""``ProtocolVersion`` of the schema is an unsigned number of 16 bits."""


def initialize_result(params: JsonValue, ways: LoginWays) -> dict[str, JsonValue] | None:
    """The answer to ``initialize``; None if the params are not simple."""
    if not isinstance(params, dict):
        return None
    version = params.get("protocolVersion")
    if type(version) is not int or not 0 <= version <= MAX_VERSION:
        return None
    if not isinstance(params.get("clientCapabilities"), dict | None):
        return None
    info = params.get("clientInfo")
    if info is not None and not _is_implementation(info):
        return None
    return {
        "protocolVersion": negotiated_version(version),
        "agentCapabilities": dict(AGENT_CAPABILITIES),
        "authMethods": auth_methods_json(params.get("clientCapabilities"), ways),
        "agentInfo": agent_info_json(__version__),
    }


def client_info(params: JsonValue) -> dict[str, JsonValue] | None:
    """Whom Codex is told it works for, of params that `initialize_result` has answered."""
    info = params.get("clientInfo") if isinstance(params, dict) else None
    if not isinstance(info, dict):
        return None
    name, version, title = info["name"], info["version"], info.get("title")
    if not isinstance(name, str) or not isinstance(version, str):
        return None
    return client_info_json(name, version, title if isinstance(title, str) else None)


def new_session_params(params: JsonValue) -> dict[str, JsonValue] | None:
    """``thread/start`` for a ``session/new`` without MCP servers; None if it is not simple."""
    if not isinstance(params, dict):
        return None
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\0" in cwd:
        return None
    if "mcpServers" not in params or params["mcpServers"] not in (None, []):
        return None
    return None if params.get("additionalDirectories") not in (None, []) else {"cwd": cwd}


def started_thread(result: JsonValue) -> str | None:
    """The id in the answer of ``thread/start``; None if there is none."""
    thread = result.get("thread") if isinstance(result, dict) else None
    thread_id = thread.get("id") if isinstance(thread, dict) else None
    return thread_id if isinstance(thread_id, str) else None


def _is_implementation(info: JsonValue) -> bool:
    if not isinstance(info, dict):
        return False
    return isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
