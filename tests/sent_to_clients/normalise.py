"""Makes two recordings of one conversation the same: ids, times, paths and ports.

Pure. Names are given in the order in which things are first told of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.sent_to_clients.conversation import Json

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX: Final = re.compile(r"\b[0-9a-f]{32}\b")
_PORT: Final = re.compile(r"127\.0\.0\.1:\d+")

_FIXED: Final[Mapping[str, int]] = {
    "startedAtMs": 1_000,
    "completedAtMs": 2_000,
    "durationMs": 5,
    "startedAt": 1,
    "completedAt": 2,
    "createdAt": 1,
    "updatedAt": 1,
    "recencyAt": 1,
    "timeUsedSeconds": 1,
}
"""Members that hold a time, and the time that they get; ``emittedAtMs`` is left out."""


class Names:
    """What stands for the ids of one conversation, whose session is ``session``."""

    def __init__(self, session: str, messages: Iterable[Json]) -> None:
        self._names = {session: "thread-1"}
        self._counts: dict[str, int] = {"thread": 1}
        self._processes: dict[str, str] = {}
        for message in messages:
            self._learn(message.get("method"), message.get("params"))

    def of(self, kind: str, found: str) -> str:
        """The name of an id; a new one if it was never seen."""
        if found not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[found] = f"{kind}-{self._counts[kind]}"
        return self._names[found]

    def process(self, found: str) -> str:
        """The same for the number of a process, which is a string of digits."""
        return self._processes.setdefault(found, str(1_001 + len(self._processes)))

    @property
    def processes(self) -> Mapping[str, str]:
        """Those that have a name."""
        return self._processes

    def _learn(self, method: object, params: object) -> None:
        """Threads and turns are named as such, whatever is told of them first."""
        if method != "turn/started" or not isinstance(params, dict):
            return
        thread = self.of("thread", params["threadId"])
        kind = "turn" if thread == "thread-1" else f"{thread}-turn"
        self.of(kind, params["turn"]["id"])


def normalised(value: Any, names: Names, places: Mapping[str, str]) -> Any:
    """``value`` with names in place of ids; ``places``: a path or URL → what stands for it."""
    value = _members(value, names)
    text = json.dumps(value, ensure_ascii=False)
    for place, name in places.items():
        text = text.replace(place, name)
    text = _UUID.sub(lambda match: names.of("id", match.group()), text)
    text = _HEX.sub(lambda match: names.of("message", match.group()), text)
    text = _PORT.sub("127.0.0.1:1", text)
    for found, name in names.processes.items():
        text = re.sub(rf"\b{found}\b", name, text)
    return json.loads(text)


def _members(value: Any, names: Names) -> Any:
    if isinstance(value, list):
        return [_members(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, inner in value.items():
        if key == "emittedAtMs":
            continue
        if key in _FIXED and type(inner) is int and value.get("type") != "sleep":
            made[key] = _FIXED[key]
            continue
        if key == "processId" and isinstance(inner, str):
            names.process(inner)
        made[key] = _members(inner, names)
    return made
