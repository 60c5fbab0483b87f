"""Make class names of titles, tags and definitions: with no ordinal, and not above the limit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codegen.errors import NameCollision, UnusedOverride

MAX_NAME = 50
"""Longer class names make signatures unreadable; an override shortens them."""

_WORD = re.compile(r"[A-Za-z0-9]+")
_ORDINAL = re.compile(r"[A-Za-z]\d+$")


def pascal(text: str) -> str:
    """Return ``agent_message_chunk``, ``on-request`` or ``openai/form`` in PascalCase."""
    return "".join(word[0].upper() + word[1:] for word in _WORD.findall(text))


def snake(method: str) -> str:
    """Return a Python name for a wire method: ``thread/goal/set`` → ``thread_goal_set``."""
    parts = _WORD.findall(method)
    words = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part) for part in parts]
    return "_".join(words).lower()


@dataclass
class Namer:
    """Gives each definition its class name."""

    overrides: dict[str, str]
    """Origin or wanted name → the name to use instead."""
    strict: bool = True
    """Whether a collision, a long name or an ordinal is an error. If not, only a collision counts:
    the class is then named after its origin."""
    taken: dict[str, str] = field(default_factory=dict)
    """Class name → its origin."""
    used: set[str] = field(default_factory=set)
    """Keys of the overrides that gave a name."""

    def claim(self, wanted: str, origin: str) -> str:
        """Return the class name for ``wanted``. ``origin`` is the path of the definition in the
        schema: a name may be claimed again only with the same origin."""
        name = wanted
        for key in (origin, wanted):
            if key in self.overrides:
                self.used.add(key)
                name = self.overrides[key]
                break
        if not self.strict:
            if self.taken.get(name, origin) != origin:
                name = pascal(origin)
            self.taken[name] = origin
            return name
        if name in self.taken and self.taken[name] != origin:
            raise NameCollision(
                f"{origin} and {self.taken[name]} would both be class {name}; "
                f"add {origin!r} to the protocol's NAMES override table"
            )
        if len(name) > MAX_NAME:
            raise NameCollision(
                f"{origin} would be class {name}, {len(name)} characters long (limit {MAX_NAME}); "
                f"add {origin!r} to the protocol's NAMES override table"
            )
        if _ORDINAL.search(name) and not _ORDINAL.search(wanted.removesuffix("V1")):
            raise NameCollision(f"{origin} would be class {name}, which ends in an ordinal")
        self.taken[name] = origin
        return name

    def check_overrides_used(self) -> None:
        """Raise UnusedOverride if a name was claimed for none of the overrides' keys."""
        unused = sorted(set(self.overrides) - self.used)
        if unused:
            msg = f"name overrides that match nothing any more, remove them: {', '.join(unused)}"
            raise UnusedOverride(msg)
