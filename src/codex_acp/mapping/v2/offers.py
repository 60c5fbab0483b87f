"""Write a session's config options and slash commands for ACP v2.

Plain JSON: the first session is answered before a model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.config.options import Option, written

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import Command


def command(offered: Command) -> dict[str, JsonValue]:
    """``AvailableCommand``."""
    told: dict[str, JsonValue] = {
        "type": "command",
        "name": offered.name,
        "description": offered.description,
    }
    if offered.hint is not None:
        told["input"] = {"type": "text", "hint": offered.hint}
    return told


def option(offered: Option) -> dict[str, JsonValue]:
    """``SessionConfigOption``."""
    return written(offered, "configId", "groupId")
