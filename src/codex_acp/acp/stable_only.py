"""Find unstable parts in models that a side may not send: it was opened for stable ones alone.

Knows the generated lists of what is unstable (`_generated/v1/unstable.py`), and no single one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from types import ModuleType

    from codex_acp.wire.model import WireModel


def is_unstable(model: type[WireModel]) -> bool:
    """Whether only the unstable schema has this model."""
    return model.__name__ in _lists(model.__module__.partition(".models.")[0]).TYPES


def check_stable(method: str, value: object, version: int) -> None:
    """Raise MisuseError that names each unstable part of a model, or of a value that holds some."""
    found: list[str] = []
    _look(value, _lists(f"codex_acp.acp._generated.v{version}"), found)
    if found:
        raise MisuseError(
            f"{method} was to be sent with {', '.join(dict.fromkeys(found))}, which only the"
            " unstable schema has; open the side with `unstable` if the peer is to get it"
        )


@cache
def _lists(tree: str) -> ModuleType:
    return import_module(f"{tree}.unstable")


def _look(value: Any, lists: ModuleType, found: list[str]) -> None:
    """Note what is unstable; only what can hold something unstable is looked into."""
    name = value.__class__.__name__
    if name in lists.TYPES:
        found.append(name)
    elif name in lists.CONTAINING:
        fields = lists.FIELDS.get(name)
        if fields is not None:
            found += [f"{name}.{field}" for field in fields if field in value.model_fields_set]
        for inner in value.__dict__.values():
            _look(inner, lists, found)
    elif name in ("list", "tuple"):
        for item in value:
            _look(item, lists, found)
