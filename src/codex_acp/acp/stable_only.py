"""What a side that was not opened for unstable parts must not send: found in models, not in JSON.

Knows the generated lists of what is unstable (`_generated/v1/unstable.py`), and no single one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from codex_acp.wire.model import WireModel

__all__ = ["check_stable", "is_unstable"]


def is_unstable(model: type[WireModel]) -> bool:
    """Whether only the unstable schema has this model."""
    lists = import_module(f"{model.__module__.partition('.models.')[0]}.unstable")
    return model.__name__ in lists.TYPES


def check_stable(method: str, value: object, version: int) -> None:
    """Raise MisuseError that names each unstable part of a model, or of a value that holds some."""
    lists = import_module(f"codex_acp.acp._generated.v{version}.unstable")
    found = list(dict.fromkeys(_unstable(value, lists)))
    if found:
        msg = (
            f"{method} was to be sent with {', '.join(found)}, which only the unstable schema has;"
            " open the side with `unstable` if the peer is to get it"
        )
        raise MisuseError(msg)


def _unstable(value: Any, lists: ModuleType) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _unstable(item, lists)
        return
    if isinstance(value, dict):
        yield from _unstable(list(value.values()), lists)
        return
    fields = getattr(value, "model_fields_set", None)
    if fields is None:
        return
    name = type(value).__name__
    if name in lists.TYPES:
        yield name
        return
    yield from (f"{name}.{field}" for field in lists.FIELDS.get(name, ()) if field in fields)
    yield from _unstable(list(value.__dict__.values()), lists)
