"""Defaults that the command sets for its sessions, besides Codex's own configuration.

Imports few modules, because the command makes the defaults before it loads anything else.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import object_at
from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.jsonrpc import JsonValue

MODE_VARIABLE: Final = "INITIAL_AGENT_MODE"

_PROFILE: Final = "permission-profile:"

_OFFICIAL_MODES: Final = {
    "workspace-write": "ask",
    "agent": "auto-review",
    "agent-full-access": "full-access",
}
"""Modes of ``@agentclientprotocol/codex-acp`` → our modes, where the names differ."""


@record(frozen=True)
class SessionDefaults:
    """Defaults for all sessions of an agent."""

    mode: str | None = None
    """The mode of a new session; None: the mode in Codex's configuration."""
    login: dict[str, Any] | None = None
    """Params of ``authenticate`` for a Codex that needs a login and has none."""
    config: dict[str, JsonValue] = field(default_factory=dict)
    """Codex settings of each thread, by dotted key; they must not stand in a command line."""
    notices: tuple[str, ...] = ()
    """Notices that the client gets when a session opens."""

    def params(self, wanted: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the params of a thread: the params ``wanted`` by the client override `config`."""
        if not self.config:
            return wanted
        return {**wanted, "config": _merged(self.config, object_at(wanted, "config"))}


def _merged(base: dict[str, JsonValue], override: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Merge two configs. If the result has the table of a dotted key, put the key into the table,
    because Codex applies the keys in any order."""
    merged = dict(base)
    for key, value in override.items():
        merged[key] = object_at(base, key) | value if isinstance(value, dict) else value
    for key in sorted(merged):  # a table comes before its parts
        parts = key.split(".")
        for end in range(1, len(parts)):
            table_key = ".".join(parts[:end])
            table = merged.get(table_key)
            if isinstance(table, dict):
                merged[table_key] = with_value(table, parts[end:], merged.pop(key))
                break
    return merged


def with_value(
    table: dict[str, JsonValue], path: list[str], value: JsonValue
) -> dict[str, JsonValue]:
    """Return a copy of ``table`` with ``value`` at the end of ``path``."""
    name, *more = path
    return {**table, name: with_value(object_at(table, name), more, value) if more else value}


def known_mode(text: str) -> str | None:
    """Return our mode for its name, or its name in the official adapter; None if unknown."""
    from codex_acp.mapping.options import PROFILE_PREFIX, fixed_modes

    if text.startswith(_PROFILE):
        text = PROFILE_PREFIX + text.removeprefix(_PROFILE)
    if text.startswith(PROFILE_PREFIX):
        return text if text != PROFILE_PREFIX else None  # Codex checks the profile's name later
    text = _OFFICIAL_MODES.get(text, text)
    return text if text in fixed_modes() else None


def gateway_problem(meta: dict[str, Any] | None) -> str | None:
    """Return what is wrong with ``_meta.gateway`` of a login, or None."""
    from codex_acp.errors import RpcError
    from codex_acp.mapping.session_setup import gateway_of

    settings = object_at(meta, "gateway")
    try:
        gateway_of(settings.get("baseUrl"), settings.get("headers"), where="_meta.gateway.")
    except RpcError as error:
        return error.message
    return None
