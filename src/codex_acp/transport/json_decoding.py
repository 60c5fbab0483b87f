"""Decode the lines of a connection: with the standard library, or pydantic-core once it is loaded.

Both decoders accept the same lines and return the same values. pydantic-core is four times as fast,
but its import takes 4 ms (20 with its package), which would delay a new process. Both read a number
that is too large for a float (``1e400``) as infinity; a check would cost more than decoding. Models
refuse infinity in their fields, and `encode_json` writes null for it. Must not know messages.
"""

from __future__ import annotations

import json
import re
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NoReturn

from codex_acp._pydantic import core_if_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH: Final = 200
"""Depth of nesting that pydantic-core accepts. A line with no more brackets cannot be deeper."""

MAX_SURROGATES: Final = 100_000
"""Escapes of surrogates that are read in one line to find unpaired ones; more are not mended."""

_SURROGATES: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
)
"""Matches the escape of one surrogate, or of a pair; only a pair sets the group."""


MAX_BRACKETS: Final = 1_000_000
"""Most brackets in a stranger's line: to decode a million small lists or objects takes a second."""


class TooManyBrackets(ValueError):
    """A line has more than `MAX_BRACKETS` brackets; brackets within strings count, too."""


def bounded_loads(line: bytes) -> object:
    """Decode with `default_loads`, unless the line has too many brackets. Raises ValueError."""
    if line.count(b"[") + line.count(b"{") > MAX_BRACKETS:
        raise TooManyBrackets
    return default_loads()(line)


def default_loads() -> Callable[[bytes], object]:
    """Return `fast_loads` if pydantic-core is loaded, else `standard_loads`; never load it."""
    return standard_loads if _loaded_from_json() is None else fast_loads


def fast_loads(line: bytes) -> object:
    """Decode with pydantic-core; an unpaired surrogate, which Node writes, becomes U+FFFD. Raises
    ValueError."""
    try:
        return _from_json()(line)
    except ValueError:
        repaired = _without_lone_surrogates(line)
        if repaired == line:
            raise
        return _from_json()(repaired)


def standard_loads(line: bytes) -> object:
    """Decode with the standard library. pydantic-core decodes lines that may be nested too deeply,
    and makes the error of a malformed line."""
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH:
        return fast_loads(line)
    try:
        # Decode first: json.loads would accept other encodings and a byte order mark, too.
        return _DECODER.decode(_without_lone_surrogates(line).decode())
    except ValueError:
        return fast_loads(line)


def _loaded_from_json() -> Callable[..., object] | None:
    """Return pydantic-core's ``from_json`` if it is loaded, perhaps in an import that goes on."""
    return getattr(core_if_loaded(), "from_json", None)


@cache
def _from_json() -> Callable[[bytes], object]:
    loaded = _loaded_from_json()
    if loaded is not None:  # an import here would wait for a thread whose import goes on
        return partial(loaded, allow_inf_nan=False)
    from pydantic_core import from_json

    return partial(from_json, allow_inf_nan=False)


def _without_lone_surrogates(line: bytes) -> bytes:
    """Return the line with U+FFFD for each unpaired surrogate. Raises ValueError for too many."""
    parts: list[bytes] = []  # the repaired line up to ``copied_to``
    copied_to = search_from = 0
    for _ in range(MAX_SURROGATES):
        found = _SURROGATES.search(line, search_from)
        if found is None:
            return b"".join((*parts, line[copied_to:])) if parts else line
        start, before = found.start(), line[search_from : found.start()]
        if (len(before) - len(before.rstrip(b"\\"))) % 2:
            search_from = start + 2  # the backslash is escaped, so this is text and no escape
            continue
        search_from = found.end()
        if not found[1]:  # unpaired
            parts += line[copied_to:start], rb"\ufffd"
            copied_to = search_from
    raise ValueError("the line has too many escaped surrogates")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
