"""The JSON decoders of a connection: the standard library's at first, pydantic-core's once loaded.

Both accept the same lines and give the same values; pydantic-core's is four times as fast but
takes 4 ms to import, with its package 20, which a process that has just been started would wait
for. In both, a number above what a float holds (``1e400``) is an infinity: looking for one would
cost more than decoding, so models refuse it in their fields, and it is written as null. Owns what
is valid JSON here. Must not know messages.
"""

from __future__ import annotations

import json
import re
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NoReturn

from codex_acp._pydantic import core_if_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PLAIN_BRACKETS: Final = 200
"""pydantic-core reads values nested this deep; with fewer brackets a line cannot be nested deeper.
"""

_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""Every escape of a line, pairs of surrogates whole; the group is a surrogate without the other."""


def default_loads() -> Callable[[bytes], object]:
    """`fast_loads` if pydantic-core is loaded by now, else `standard_loads`; never loads it."""
    return standard_loads if _loaded_from_json() is None else fast_loads


def fast_loads(line: bytes) -> object:
    """Decode with pydantic-core; an unpaired surrogate, which Node writes, reads as U+FFFD. Raises
    ValueError."""
    try:
        return _from_json()(line)
    except ValueError:
        repaired = _without_lone_surrogates(line)
        if repaired == line:
            raise
        return _from_json()(repaired)


def standard_loads(line: bytes) -> object:
    """Decode with the standard library; load pydantic-core only for what is malformed or very
    deep."""
    if line.count(b"[") + line.count(b"{") > MAX_PLAIN_BRACKETS:
        return fast_loads(line)
    try:
        # Decoded here: json.loads would also take other encodings and a byte order mark.
        return _DECODER.decode(_without_lone_surrogates(line).decode())
    except ValueError:
        return fast_loads(line)


def _loaded_from_json() -> Callable[..., object] | None:
    """It is there before all of its module is, which another thread may be importing."""
    return getattr(core_if_loaded(), "from_json", None)


@cache
def _from_json() -> Callable[[bytes], object]:
    loaded = _loaded_from_json()
    if loaded is not None:  # an import would wait until all of its module is there
        return partial(loaded, allow_inf_nan=False)
    from pydantic_core import from_json

    return partial(from_json, allow_inf_nan=False)


def _without_lone_surrogates(line: bytes) -> bytes:
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
