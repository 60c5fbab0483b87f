"""Describes the defaults that a command gives its sessions, besides Codex's own configuration.

Light: it is there before anything is loaded. What it is read from is the command's business.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import object_at
from codex_acp._record import record

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

MODE_VARIABLE: Final = "INITIAL_AGENT_MODE"

_PROFILE: Final = "permission-profile:"

_SAME: Final = {
    "workspace-write": "ask",
    "agent": "auto-review",
    "agent-full-access": "full-access",
}
"""The modes of ``@agentclientprotocol/codex-acp``, where their names are not those of ours."""


@record(frozen=True)
class SessionDefaults:
    """Defaults for all sessions of an agent."""

    mode: str | None = None
    """The mode that a new session begins in; None: what is configured."""
    login: dict[str, Any] | None = None
    """Params of ``authenticate``, for when Codex needs a login and has none."""
    config: dict[str, JsonValue] = field(default_factory=dict)
    """Settings of each thread by their dotted keys: those that no command line may show."""
    said: tuple[str, ...] = ()
    """Lines that the person is told when a session opens."""

    def params(self, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Params of a thread, with these settings below those that the client gave."""
        if not self.config:
            return given
        return {**given, "config": _joined(self.config, object_at(given, "config"))}


def _joined(below: dict[str, JsonValue], above: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Both, with no key for a part of another one's table: Codex takes keys in any order."""
    made = dict(below)
    for key, value in above.items():
        made[key] = object_at(below, key) | value if isinstance(value, dict) else value
    for key in sorted(made):  # a table comes before its parts
        parts = key.split(".")
        for end in range(1, len(parts)):
            table = made.get(".".join(parts[:end]))
            if isinstance(table, dict):
                made[".".join(parts[:end])] = with_value(table, parts[end:], made.pop(key))
                break
    return made


def with_value(
    table: dict[str, JsonValue], path: list[str], value: JsonValue
) -> dict[str, JsonValue]:
    """``table`` with another value at the end of ``path``."""
    name, *more = path
    return {**table, name: with_value(object_at(table, name), more, value) if more else value}


def known_mode(text: str) -> str | None:
    """The mode that a name means, ours or the official adapter's; None: there is none."""
    from codex_acp.mapping.options import PROFILE_PREFIX, fixed_modes

    if text.startswith(_PROFILE):
        text = PROFILE_PREFIX + text.removeprefix(_PROFILE)
    if text.startswith(PROFILE_PREFIX):
        return text if text != PROFILE_PREFIX else None  # which there are, Codex tells later
    text = _SAME.get(text, text)
    return text if text in fixed_modes() else None


def gateway_problem(meta: dict[str, Any] | None) -> str | None:
    """Return what is wrong with ``_meta.gateway`` of a login; None: nothing."""
    from codex_acp.errors import RpcError
    from codex_acp.mapping.session_setup import gateway_of

    settings = object_at(meta, "gateway")
    try:
        gateway_of(settings.get("baseUrl"), settings.get("headers"), where="_meta.gateway.")
    except RpcError as error:
        return error.message
    return None
