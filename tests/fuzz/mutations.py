"""What a fuzzer does to a message: to its values, to its text, to its bytes.

Standard library only; everything follows from the random generator that is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, Final

Json = Any

RAW: Final = "\ufdd0"
"""Marks a string whose text goes into the line as it is: what `json` would not write."""

_RAW: Final = (
    "NaN",
    "-Infinity",
    "1" * 4000,
    "1" * 5000,
    "-0",
    "1E5",
    "1e400",
    "-1e400",
    "0.1e-400",
    "01",
    "1.",
)

_PLAIN: Final[tuple[Json, ...]] = (
    None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40,
    "", " ", "0", "null", "\ud800", "\udfff\ud800", "\x00", "a\x00b", "\x1b[2J\x1b]0;x\x07",
    "\u202e\u200b\u2066", "\u2028\n\r\x85", "../../../etc/passwd", "/dev/zero", "/proc/self/mem",
    "__proto__", "constructor", "file:///%00", "http://[::1", "%n%s", "{}", "\ufeff", "é" * 300,
    "\U0001f468\u200d\U0001f469" * 50, [], {}, [None], [[]], [{}], {"": ""}, {"type": "?"},
    {"type": []}, {"type": {}}, {"__proto__": {"x": 1}}, ["x"] * 300,
)  # fmt: skip

_TELLS: Final = ("type", "status", "method", "sessionUpdate", "kind", "mode", "decision", "id")
"""Members that say what the rest means: what is odd there is most often mishandled."""


def odd_value(random: Random) -> Json:
    """A value that no reader expects."""
    choice = random.random()
    if choice < 0.75:
        return deepcopy(random.choice(_PLAIN))
    if choice < 0.88:
        return RAW + random.choice(_RAW)
    if choice < 0.94:
        return random.choice("xé\n") * random.choice((5_000, 70_000))
    nested: Json = 1
    for _ in range(random.choice((10, 100, 190, 250))):
        nested = [nested] if random.random() < 0.5 else {"a": nested}
    return nested


def mutated(message: Json, random: Random) -> Json:
    """A copy of a message with one to three values changed."""
    copy = json.loads(json.dumps(message))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(copy))
        if not places:
            return copy
        telling = [place for place in places if place[1] in _TELLS]
        holder, key = random.choice(telling if telling and random.random() < 0.3 else places)
        _change(holder, key, random)
    return copy


def _places(value: Json) -> list[tuple[Json, Any]]:
    found: list[tuple[Json, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict):
            items: Any = holder.items()
        elif isinstance(holder, list):
            items = enumerate(holder)
        else:
            continue
        for key, inner in items:
            found.append((holder, key))
            waiting.append(inner)
    return found


def _change(holder: Json, key: Any, random: Random) -> None:
    choice = random.random()
    value = holder[key]
    if choice < 0.6:
        holder[key] = odd_value(random)
    elif choice < 0.72:
        del holder[key]
    elif choice < 0.78:
        holder[key] = [value]
    elif choice < 0.84:
        holder[key] = {"value": value}
    elif choice < 0.9 and isinstance(holder, dict):
        holder[random.choice((str(key).upper(), key + " ", "_" + key))] = holder.pop(key)
    elif isinstance(value, str):
        place = random.randint(0, len(value))
        extra = random.choice(("\x00", "\n", "\ud83d", "\u202e", "/", "é", "x" * 1000))
        holder[key] = value[:place] + extra + value[place:]
    elif isinstance(value, list):
        value += value or [odd_value(random)]
    else:
        holder[key] = str(value)


def to_line(message: Json) -> bytes:
    """One line of JSON, with raw texts put in as they are."""
    text = json.dumps(message)
    mark = json.dumps(RAW)[1:-1]
    if mark in text:
        for raw in _RAW:
            text = text.replace(f'"{mark}{raw}"', raw)
    return text.encode() + b"\n"


def damaged(line: bytes, random: Random) -> bytes:
    """The bytes of a line after an accident: of any length, with any line ends in it."""
    return random.choice(_DAMAGES)(line, random)


def _flip(line: bytes, random: Random) -> bytes:
    data = bytearray(line)
    for _ in range(random.choice((1, 1, 2, 8))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _cut(line: bytes, random: Random) -> bytes:
    return line[: random.randrange(len(line))] + b"\n"


def _insert(line: bytes, random: Random) -> bytes:
    place = random.randrange(len(line))
    what = (b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"\xc0\xaf", b'"', b"\\", b"[" * 300, b"\r\n")
    return line[:place] + random.choice(what) + line[place:]


def _repeat(line: bytes, random: Random) -> bytes:
    start = random.randrange(len(line))
    part = line[start : start + random.randint(1, 40)]
    return line[:start] + part + line[start:]


def _wrap(line: bytes, random: Random) -> bytes:
    text = line.rstrip(b"\n")
    forms = (
        b"\xef\xbb\xbf%b\n", b"%b\r\n", b"[%b]\n", b"[%b,1]\n", b" \t%b \t\n", b"%b%%b\n",
        b'"%b"\n', b"%b,\n", b"//%b\n", b"data: %b\n\n", b"A: 5\r\n\r\n%b\n", b"\r%b\n",
    )  # fmt: skip
    return random.choice(forms).replace(b"%b", text)


def _twin_keys(line: bytes, random: Random) -> bytes:
    key = random.choice((b'"id":1', b'"method":"x"', b'"params":[]', b'"jsonrpc":"1.0"'))
    return b"{" + key + b"," + line.lstrip()[1:]


def _nested(line: bytes, random: Random) -> bytes:
    depth = random.choice((250, 2_000, 100_000))
    opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opened * depth + b"1" + closed * depth
    return (
        deep + b"\n" if random.random() < 0.5 else line.replace(b'"params":', b'"params":' + deep)
    )


_DAMAGES: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    _flip, _flip, _cut, _insert, _repeat, _wrap, _twin_keys, _nested,
)  # fmt: skip
