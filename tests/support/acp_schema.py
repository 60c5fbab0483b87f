"""Checks every message that an ACP side sends against the vendored schema, the stable one of the
version that the agent answered to ``initialize``, and 1 before.

A `SchemaTap` is put on a connection (``on_line=tap.on("agent")``). It knows nothing of this
library's models: what they write is held against the schema itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SideName: TypeAlias = Literal["agent", "client"]

_SCHEMAS: Final = Path(__file__).parents[2] / "schema" / "acp"
_REMEMBERED: Final = 50_000
"""Characters of a message above which it is not remembered whether it fits."""

_NEGOTIATED: Final = frozenset({"subagent_update", "session_message"})
"""Kinds of updates that clients of sub-agents' sessions get."""

_KINDS: Final = ("Request", "Response", "Notification")


class Sent(NamedTuple):
    """One message, and who sent it."""

    by: SideName
    message: dict[str, Any]


class SchemaTap:
    """Collects what the watched sides send, and what is wrong with it.

    ``messages`` are those sent by a watched side, in order. Also counts the answers to each
    request that a watched side received: two are a problem.
    """

    def __init__(self) -> None:
        self.messages: list[Sent] = []
        self.problems: list[str] = []
        self.version = 1
        """That the agent answered to ``initialize``."""
        self._asked: dict[SideName, dict[str, str]] = {"agent": {}, "client": {}}
        self._answers: dict[SideName, Counter[str]] = {"agent": Counter(), "client": Counter()}

    def on(self, side: SideName) -> Callable[[Literal["received", "sent"], bytes], None]:
        """What to give as ``on_line`` to the connection of ``side``."""

        def on_line(direction: Literal["received", "sent"], line: bytes) -> None:
            if direction == "sent":
                self._sent(side, line)
            else:
                self._received(side, line)

        return on_line

    def sent_by(self, side: SideName) -> list[dict[str, Any]]:
        """The messages of one side, in order."""
        return [message for by, message in self.messages if by == side]

    def unanswered(self, side: SideName) -> list[str]:
        """Methods of the requests that ``side`` received and has not answered."""
        answers = self._answers[side]
        return [method for key, method in self._asked[side].items() if not answers[key]]

    def check(self) -> None:
        """Raise AssertionError if anything sent did not fit, or was answered twice."""
        assert not self.problems, "\n".join(self.problems)

    def _received(self, side: SideName, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict) or type(message.get("id")) not in (int, str):
            return
        if "result" not in message and "error" not in message:
            key = json.dumps(message["id"])
            self._asked[side][key] = str(message.get("method"))
            self._answers[side][key] = 0

    def _sent(self, side: SideName, line: bytes) -> None:
        if line.count(b"\n") != 1 or not line.endswith(b"\n"):
            self.problems.append(f"{side} sent something else than one line: {line!r}")
        message = json.loads(line)
        self.messages.append(Sent(side, message))
        asked: str | None = None
        if "method" not in message and message.get("id") is not None:
            key = json.dumps(message["id"])
            asked = self._asked[side].get(key)
            self._answers[side][key] += 1
            if asked is None or self._answers[side][key] > 1:
                self.problems.append(
                    f"{side} answered {key} ({asked}) without being asked: {line!r}"
                )
                return
        if asked == "initialize" and side == "agent" and "result" in message:
            self.version = message["result"]["protocolVersion"]
        found = problems_of_message(side, message, asked, self.version)
        self.problems += [f"{side} sent {line!r}: {problem}" for problem in found]


def problems_of_message(
    side: SideName, message: dict[str, Any], asked: str | None, version: int = 1
) -> list[str]:
    """What is wrong with a message of ``side``; ``asked`` is the method it answers, if any."""
    if message.get("jsonrpc") != "2.0":
        return ['"jsonrpc" is not "2.0"']
    other: SideName = "client" if side == "agent" else "agent"
    if "method" in message:
        kind = "Request" if "id" in message else "Notification"
        definition = _definitions(version).get((other, message["method"], kind))
        if definition is None:
            return [f"the schema has no such {kind.lower()} to the {other}"]
        if _is_negotiated(message.get("params")):
            definition = definition._replace(schema=f"v{version}_unstable.json")
        problems = _misfits(definition, message.get("params"))
        return problems + (_misfits(_request_id(version), message["id"]) if "id" in message else [])
    if "error" in message:
        problems = _misfits(_Definition(_stable(version), "Error"), message["error"])
        return problems + _misfits(_request_id(version), message["id"])
    definition = _definitions(version).get((side, asked or "", "Response"))
    if definition is None and (asked or "").startswith("_"):
        return []  # an extension, which is in no schema
    if definition is None:
        return [f"a result for {asked}, of which the schema knows nothing"]
    return _misfits(definition, message["result"])


def _is_negotiated(params: object) -> bool:
    """Whether it is an update that only the unstable schema has; `unadvertised` looks who may."""
    update = params.get("update") if isinstance(params, dict) else None
    return isinstance(update, dict) and update.get("sessionUpdate") in _NEGOTIATED


class _Definition(NamedTuple):
    """Where the shape of a message is."""

    schema: str
    name: str


def _stable(version: int) -> str:
    return f"v{version}.json"


def _request_id(version: int) -> _Definition:
    return _Definition(_stable(version), "RequestId")


@cache
def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_SCHEMAS / name).read_text("utf-8"))
    return schema


@cache
def _definitions(version: int) -> dict[tuple[str, str, str], _Definition]:
    """(side that handles it, method, kind of message) → its definition.

    Methods of the unstable schema are those that the stable one does not have at all.
    """
    stable = _definitions_of(_stable(version))
    known = {method for _, method, _ in stable}
    unstable = _definitions_of(f"v{version}_unstable.json")
    return stable | {key: found for key, found in unstable.items() if key[1] not in known}


def _definitions_of(schema: str) -> dict[tuple[str, str, str], _Definition]:
    found: dict[tuple[str, str, str], _Definition] = {}
    for name, definition in _schema(schema)["$defs"].items():
        if "x-method" in definition:
            kind = next(kind for kind in _KINDS if name.endswith(kind))
            handled_by = definition["x-side"]
            sides = ("agent", "client") if handled_by == "protocol" else (handled_by,)
            for side in sides:
                found[(side, definition["x-method"], kind)] = _Definition(schema, name)
    return found


@cache
def _validator(definition: _Definition) -> Draft202012Validator:
    return Draft202012Validator(
        {"$ref": f"#/$defs/{definition.name}", "$defs": _schema(definition.schema)["$defs"]}
    )


def _misfits(definition: _Definition, value: object) -> list[str]:
    text = json.dumps(value)
    return list((_found_before if len(text) < _REMEMBERED else _found)(definition, text))


def _found(definition: _Definition, text: str) -> tuple[str, ...]:
    error = best_match(_validator(definition).iter_errors(json.loads(text)))
    if error is None:
        return ()
    return (f"{definition.name}: {error.json_path}: {error.message}",)


_found_before: Final = lru_cache(1_000)(_found)
"""Adapters say the same again and again, and the schema is slow."""
