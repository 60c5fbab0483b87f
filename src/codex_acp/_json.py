"""Reading JSON that nobody has checked: what is not there, or of another type, is none or empty.

Imports nothing: some of it is read before a process is spawned.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value_at(value: object, *path: str) -> Any:
    """Return the value at the end of a path of members; None where the path ends before."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_at(value: object, *path: str) -> str | None:
    """The text there, perhaps an empty one."""
    found = value_at(value, *path)
    return found if isinstance(found, str) else None


def object_at(value: object, *path: str) -> dict[str, Any]:
    """The object there; else an empty one."""
    found = value_at(value, *path)
    return found if isinstance(found, dict) else {}


def list_at(value: object, *path: str) -> list[Any]:
    """The list there; else an empty one."""
    found = value_at(value, *path)
    return found if isinstance(found, list) else []
