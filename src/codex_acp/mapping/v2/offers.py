"""What a session offers, as ACP v2 writes it: its config options and its slash commands.

Plain JSON: the first session is answered before a model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.config.options import Option
    from codex_acp.mapping.config.values import Choice
    from codex_acp.mapping.events.session_events import Command


def command(offered: Command) -> dict[str, JsonValue]:
    """``AvailableCommand``."""
    written: dict[str, JsonValue] = {
        "type": "command",
        "name": offered.name,
        "description": offered.description,
    }
    if offered.hint is not None:
        written["input"] = {"type": "text", "hint": offered.hint}
    return written


def option(offered: Option) -> dict[str, JsonValue]:
    """``SessionConfigOption``."""
    written: dict[str, JsonValue] = {
        "configId": offered.id,
        "name": offered.name,
        "description": offered.description,
        "category": offered.category,
    }
    if offered.switch:
        chosen = offered.current == offered.values[1]
        return written | {"type": "boolean", "currentValue": chosen}
    choices: list[JsonValue] = [_choice(choice) for choice in offered.choices]
    if offered.grouped:
        own: list[JsonValue] = [_choice(choice) for choice in offered.grouped]
        choices = [
            {"groupId": "modes", "name": "Modes", "options": choices},
            {"groupId": "profiles", "name": "Your permission profiles", "options": own},
        ]
    return written | {"type": "select", "currentValue": offered.current, "options": choices}


def _choice(choice: Choice) -> dict[str, JsonValue]:
    written: dict[str, JsonValue] = {"value": choice.value, "name": choice.name}
    if choice.description is not None:
        written["description"] = choice.description
    return written
