"""A small writer of TOML 1.0: strings, integers, floats, booleans, arrays and tables.

Pure. Dates are left out because no Codex setting has one. What it writes, ``tomllib`` reads
back as equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

from codex_acp.errors import MisuseError

TomlValue: TypeAlias = Union[  # noqa: UP007 - it is recursive
    str, int, float, bool, Sequence["TomlValue"], Mapping[str, "TomlValue"]
]
"""Values that a key may hold; TOML has no null."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def toml_text(document: Mapping[str, TomlValue]) -> str:
    """``document`` as TOML text.

    Raises :class:`~codex_acp.errors.MisuseError` for a value that TOML cannot hold.
    """
    lines: list[str] = []
    _write_table(document, (), lines)
    return "\n".join(lines) + "\n"


def _write_table(table: Mapping[str, TomlValue], path: tuple[str, ...], lines: list[str]) -> None:
    """Plain keys first: after a ``[header]`` every key belongs to that table."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or len(plain) == len(table)):
        lines.append(f"[{'.'.join(map(_key, path))}]")
    lines.extend(f"{_key(key)} = {toml_value(value)}" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            _write_table(value, (*path, key), lines)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MisuseError(f"TOML text is Unicode without surrogates: {text!r}") from error
    escaped = _ESCAPED.sub(lambda m: _SHORT.get(m[0], f"\\u{ord(m[0]):04x}"), text)
    return f'"{escaped}"'


def toml_value(value: TomlValue) -> str:
    """``value`` as TOML has it behind a key. Raises as `toml_text`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {toml_value(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    raise MisuseError(f"TOML cannot hold {type(value).__name__}: {value!r}")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)
