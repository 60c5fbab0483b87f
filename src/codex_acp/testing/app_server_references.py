"""References to values seen before, in what a scripted app-server sends.

Pure: a lookup table of what was seen and the replacement of ``${name:path}`` in JSON values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from codex_acp.errors import MisuseError

_REFERENCE = re.compile(r"\$\{([^:{}]+):([^{}]*)\}")


class Seen:
    """The newest value of each name, and the values that refer to them."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def put(self, name: str, value: object) -> None:
        """Remember ``value`` as the newest of ``name``."""
        self._values[name] = value

    def filled(self, value: object) -> object:
        """``value`` with every reference replaced.

        Raises :class:`~codex_acp.errors.MisuseError` for a reference to what was not seen.
        """
        if isinstance(value, str):
            whole = _REFERENCE.fullmatch(value)
            if whole:
                return self._look_up(whole[1], whole[2])
            return _REFERENCE.sub(lambda m: str(self._look_up(m[1], m[2])), value)
        if isinstance(value, Mapping):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.filled(inner) for inner in value]
        return value

    def filled_object(self, value: Mapping[str, object]) -> dict[str, object]:
        """:meth:`filled` of an object, which stays an object."""
        return cast("dict[str, object]", self.filled(value))

    def _look_up(self, name: str, path: str) -> object:
        try:
            value = self._values[name]
            for step in path.split(".") if path else ():
                if isinstance(value, list):
                    value = value[int(step)]
                else:
                    value = cast("Mapping[str, object]", value)[step]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"the script refers to ${{{name}:{path}}}, which was not seen"
            raise MisuseError(message) from error
        return value
