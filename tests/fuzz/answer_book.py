"""Which answers a stream of client lines deserves: found by the standard library, not by ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any, NoReturn

HEAD = 256
"""Bytes of a line that is no JSON in which its id may be found."""

_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?"id"\s*:\s*(-?\d+|"[^"]*")')

DEEPEST = 180
"""Lines nested deeper may be refused as no JSON."""


class AnswerBook:
    """Takes what both sides say; ``wrong`` and ``left`` tell what should not be."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.requests = 0
        self.errors: Counter[int] = Counter()
        """Error codes of the answers."""
        self._rest = b""
        self._open: Counter[str] = Counter()
        self._lines: dict[str, bytes] = {}
        self._may_access: list[str] = []
        """Ids at the heads of lines that are no JSON: they may be answered."""
        self._doubtful: set[str] = set()
        """Ids that may be answered without the id, because the line was hard to read."""

    def sent(self, data: bytes) -> None:
        """Take bytes of the client."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            request_id, sure = _id_of_request(line)
            if request_id is None and (found := _HEAD.match(line[:HEAD])):
                with suppress(ValueError):
                    self._may_access.append(json.dumps(json.loads(found[1])))
            if request_id is not None:
                self.requests += 1
                self._open[request_id] += 1
                self._lines[request_id] = line
                if not sure:
                    self._doubtful.add(request_id)

    def answered(self, message: dict[str, Any]) -> None:
        """Take an answer of the agent; each belongs to a request that was made."""
        if "error" in message:
            self.errors[message["error"]["code"]] += 1
        key = json.dumps(message["id"])
        if message["id"] is None:
            return
        if not self._open[key] and key in self._may_access:
            self._may_access.remove(key)
            return
        if not self._open[key]:
            self.wrong.append(f"an answer too many: {json.dumps(message)[:400]}")
        self._open[key] -= 1

    @property
    def left(self) -> list[str]:
        """The lines of requests that have no answer and should have one."""
        owed = [key for key, n in self._open.items() if n > 0 and key not in self._doubtful]
        return [self._lines[key][:300].decode(errors="replace") for key in owed]


def _id_of_request(line: bytes) -> tuple[str | None, bool]:
    """The id as JSON, None if this is no request; and whether there can be no doubt of it."""
    try:
        message = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, True
    if not isinstance(message, dict) or "method" not in message:
        return None, True
    request_id = message.get("id")
    if type(request_id) not in (int, str) or "result" in message or "error" in message:
        return None, True
    odd = "\ufffd" in str(request_id) or any("\ud800" <= c <= "\udfff" for c in str(request_id))
    return json.dumps(request_id), not odd and _depth(message) < DEEPEST


def _depth(value: object) -> int:
    level, deep = [value], 0
    while level:
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level, deep = inner, deep + 1
    return deep


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
