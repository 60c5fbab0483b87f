"""Convert ``initialize`` of ACP v2 to v1, and write the answer, config options and commands of v2.

All is plain JSON: the first ``session/new`` is answered before pydantic models are imported.
Source: ACP page "Initialization" of v2, schema ``InitializeRequest`` and ``InitializeResponse``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, value_at
from codex_acp.acp.capabilities import is_implementation
from codex_acp.mapping.agent import AGENT_INFO, EXTENSIONS, META_KEY, auth_methods, capabilities_of
from codex_acp.mapping.options import Option, option_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.agent import LoginWays
    from codex_acp.mapping.events import Command


VERSION: Final = 2

_CAPABILITIES: Final[dict[str, JsonValue]] = {
    "session": {
        "prompt": {"image": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
        "additionalDirectories": {},
        "systemPrompt": {"mode": {"override": {}}},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
    },
    "auth": {"status": {}},
    "_meta": {META_KEY: {"concurrentPrompts": "steer"}},
    "providers": {},
}
"""``capabilities`` of version 2: those of `mapping.agent` without the ones that every agent has.

``fork``, ``title``, ``archive``, ``systemPrompt``, ``providers`` and both ``status`` are of the
unstable schema.
"""


def fits_schema(params: JsonValue) -> bool:
    """Return whether the fields of ``initialize`` that this module reads fit the schema."""
    if not isinstance(params, dict) or params.get("protocolVersion") != VERSION:
        return False
    fits = isinstance(params.get("capabilities"), dict | None)
    return fits and is_implementation(params.get("info"))


def params_in_v1(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Convert to version 1 the params that this agent reads."""
    capabilities = object_at(params, "capabilities")
    terminal = isinstance(value_at(capabilities, "auth", "terminal"), dict)
    meta = value_at(capabilities, "auth", "_meta")
    converted: dict[str, JsonValue] = {"auth": {"terminal": terminal, "_meta": meta}}
    for key in ("elicitation", "_meta"):
        if key in capabilities:
            converted[key] = capabilities[key]
    return {
        "protocolVersion": VERSION,  # stays: only the form of the params is that of version 1
        "clientInfo": params.get("info"),
        "clientCapabilities": converted,
    }


def initialize_result(
    params: Mapping[str, JsonValue], ways: LoginWays, agent_meta: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the answer to ``initialize``. ``params`` come from `params_in_v1`. ``agent_meta`` is
    `AgentMethods.capability_meta`: members for the ``_meta`` of the capabilities."""
    methods = auth_methods(params.get("clientCapabilities"), ways)
    for method in methods:
        method["methodId"] = method.pop("id")
    return {
        "protocolVersion": VERSION,
        "info": dict(AGENT_INFO),
        "capabilities": capabilities_of(_CAPABILITIES, ways, agent_meta),
        "_meta": dict(EXTENSIONS),
        "authMethods": [{"type": "agent", **method} for method in methods],
    }


def command_json(command: Command) -> dict[str, JsonValue]:
    """Return ``AvailableCommand``."""
    written: dict[str, JsonValue] = {
        "type": "command",
        "name": command.name,
        "description": command.description,
    }
    if command.hint is not None:
        written["input"] = {"type": "text", "hint": command.hint}
    return written


def config_option_json(option: Option) -> dict[str, JsonValue]:
    """Return ``SessionConfigOption``."""
    return option_json(option, id_key="configId", group_key="groupId")
