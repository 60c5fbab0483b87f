"""``-c KEY=VALUE`` over the settings of ``CODEX_CONFIG`` that go with each thread.

Codex takes a thread's settings over those of its command line, so what the person who started the
agent wrote there has to be put into the thread's.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

from codex_acp._json import object_at
from codex_acp.adapter.session_defaults import with_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.jsonrpc.message import JsonValue


def overridden(
    settings: dict[str, JsonValue], whole: tuple[str, ...], arguments: Sequence[str]
) -> tuple[dict[str, JsonValue], list[str]]:
    """``settings`` of a thread, by dotted keys, and those of the ``arguments`` that are left.

    All settings whose key begins with one of ``whole`` go with the thread.
    """
    left: list[str] = []
    for option, text in zip(arguments[::2], arguments[1::2], strict=True):
        key, _, value = text.partition("=")
        key = key.strip()
        settings = {name: old for name, old in settings.items() if not _is_below(name, key)}
        table = next((name for name in settings if _is_below(key, name)), None)
        with_thread = key.startswith(tuple(w for w in whole if _any_of(settings, w)))
        if key in settings and not with_thread:
            del settings[key]
        if table is not None:
            path = key.removeprefix(f"{table}.").split(".")
            settings[table] = with_value(object_at(settings, table), path, _value(value))
        elif with_thread:
            settings[key] = _value(value)
        else:
            left += [option, text]
    return settings, left


def _is_below(key: str, table: str) -> bool:
    return key.startswith(f"{table}.")


def _any_of(settings: dict[str, JsonValue], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in settings)


def _value(text: str) -> JsonValue:
    """As Codex reads it: TOML, else the text itself; a date, which JSON lacks, is its text."""
    try:
        read = tomllib.loads(f"x = {text}")["x"]
        value: JsonValue = json.loads(json.dumps(read, default=str, allow_nan=False))
    except ValueError:
        return text.strip().strip("\"'")
    return value
