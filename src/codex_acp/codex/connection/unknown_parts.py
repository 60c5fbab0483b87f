"""Counts what an app-server of another version sends outside of the schema, and logs each once.

Unknown fields, enum values and union members are kept by the models; here they are found in a
message that was read, and counted. Owns the counts and their bounds. Must not know what anything
means, and loads no model: it is given them.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from codex_acp.codex._generated.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

MAX_KINDS: Final = 256
"""Kinds that are told apart; their names come from the peer, so there could be any number."""

OTHER_KINDS: Final = "(others)"
"""Where the rest is counted."""

MAX_PARTS: Final = 5000
"""Values of one message that are looked at: a thread's whole history may be one message."""

MAX_NAME: Final = 80
"""Characters of a name that the peer gave."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types that hold nothing else, and are no unknown value."""

_TAGS: Final = ("type", "mode", "kind")
"""Where the members of a union usually say which they are."""

_flat: dict[type, bool] = {}
"""Model class → whether its fields hold plain values only: then only its own fields matter."""


class UnknownParts:
    """The counts of one connection.

    A kind is ``field Thread.newThing``, ``value TurnStatus...`` as ``value Turn.status 'asleep'``,
    ``member ItemStartedNotification.item 'hologram'`` or ``request vault/open``.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind → how often it came."""
        return dict(self._counts)

    def look(self, model: Any) -> None:
        """Count what is unknown in a message that was read; cheap for one of plain values."""
        cls = type(model)
        flat = _flat.get(cls)
        if flat is None:
            flat = _flat[cls] = _is_flat(cls)
        if flat:
            if model.__pydantic_extra__:
                self._fields(model)
            return
        self._walk(model)

    def add(self, kind: str) -> bool:
        """Count one; whether it is the first of its kind."""
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind = OTHER_KINDS
        self._counts[kind] += 1
        return self._counts[kind] == 1

    def _fields(self, model: Any) -> None:
        for name in model.__pydantic_extra__:
            self._found(f"field {type(model).__name__}.{name[:MAX_NAME]}")

    def _walk(self, root: Any) -> None:
        from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

        todo: list[tuple[Any, str]] = [(root, type(root).__name__)]
        looked = 0
        while todo and looked < MAX_PARTS:
            value, where = todo.pop()
            looked += 1
            if isinstance(value, UnknownVariant):
                self._found(f"member {where} {_tag_of(value.wire())!r}", logging.WARNING)
            elif isinstance(value, WireModel):
                if value.__pydantic_extra__:
                    self._fields(value)
                name = type(value).__name__
                todo += [
                    (inner, f"{name}.{field}")
                    for field, inner in value.__dict__.items()
                    if type(inner) not in _PLAIN
                ]
            elif isinstance(value, UnknownValue):
                self._found(f"value {where} {value[:MAX_NAME]!r}")
            elif isinstance(value, list):
                todo += [(inner, where) for inner in value if type(inner) not in _PLAIN]
            elif isinstance(value, dict):
                todo += [(inner, where) for inner in value.values() if type(inner) not in _PLAIN]

    def _found(self, kind: str, level: int = logging.INFO) -> None:
        if self.add(kind):
            logger.log(
                level,
                "the app-server sent what schema %s does not know: %s; it is kept as it came",
                SCHEMA_VERSION,
                kind,
            )


def _tag_of(wire: dict[str, Any]) -> str:
    """Which member an unknown one says it is; its first field if it does not say."""
    tag = next((wire[key] for key in _TAGS if isinstance(wire.get(key), str)), None)
    return (next(iter(wire), "empty") if tag is None else tag)[:MAX_NAME]


def _is_flat(cls: type) -> bool:
    from codex_acp.wire.lazy import is_flat
    from codex_acp.wire.model import WireModel

    return issubclass(cls, WireModel) and is_flat(cls)
