"""Read unchecked JSON: a missing value, or a value of another type, reads as None or empty.

Imports nothing, because some JSON is read before a process is spawned.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value_at(value: object, *path: str) -> Any:
    """Return the value at the end of a path of members; None if a member is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_at(value: object, *path: str) -> str | None:
    """Return the text at a path, perhaps empty; None if there is no text."""
    found = value_at(value, *path)
    return found if isinstance(found, str) else None


def object_at(value: object, *path: str) -> dict[str, Any]:
    """Return the object at a path; an empty object if there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, dict) else {}


def list_at(value: object, *path: str) -> list[Any]:
    """Return the list at a path; an empty list if there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, list) else []


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are not None, in their order."""
    return {name: value for name, value in members.items() if value is not None}


def with_key_renamed(members: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return the members in their order, with the name ``old`` replaced by ``new``."""
    return {new if name == old else name: value for name, value in members.items()}
