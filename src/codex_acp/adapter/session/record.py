"""Events of sessions as JSON lines: `serve --record` writes them, `play` handles them once more.

The first line names the format. Each further line has an event of one session and the effects that
the machine returned, or the number of lines that are missing there. The classes of `events` define
the fields. Texts are redacted as in a transcript; ids of prompts, turns and items are kept.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NamedTuple,
    Self,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakKeyDictionary

from codex_acp._files import open_private, read_regular
from codex_acp._version import __version__
from codex_acp.adapter.session import driver
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.machine import SessionMachine
from codex_acp.errors import MisuseError
from codex_acp.mapping.events import Activity, PromptEnd, PromptFailure, PromptStop
from codex_acp.transcript.secrets import scrub
from codex_acp.transcript.writer import LineWriter

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORMAT: Final = 1
"""Format number of the file; `read_record` refuses any other."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file: some hundred thousand turns. A last line notes that events are missing."""

MAX_LINE: Final = 1024 * 1024
"""Bytes of a line: an event and its effects take a few hundred."""

CLOSE_SECONDS: Final = 0.25
"""Seconds to write the lines that still wait when the program ends."""

EVENTS: Final = {each.__name__: each for each in get_args(ev.Event)}
EFFECTS: Final = {each.__name__: each for each in get_args(ev.Effect)}
_ENDS: Final = {each.__name__: each for each in (PromptStop, PromptFailure)}
_CLASSES: Final[dict[str, Any]] = EVENTS | EFFECTS | _ENDS

_ID: Final = re.compile(r"[0-9a-f-]{32,36}")
"""Ids of prompts, turns and threads: they look like secrets, and are none."""


class Step(NamedTuple):
    """One event with the effects that the machine returned; both None: lines are missing."""

    line: int
    session: int
    """Number of the session in the file; 0 for missing lines of unknown sessions."""
    event: ev.Event | None
    effects: list[ev.Effect] | None


class UnreadableRecord(MisuseError):
    """A record that cannot be played; the message names the line."""


# Values.


def to_json(value: object) -> Any:
    """Return an event, an effect or the value of a field as JSON."""
    if isinstance(value, str):
        return value if _ID.fullmatch(value) else scrub(value)
    if type(value).__name__ in _CLASSES:
        return {"is": type(value).__name__} | {
            name: to_json(getattr(value, name)) for name in _fields(type(value))
        }
    if isinstance(value, frozenset):
        return {"set": [to_json(each) for each in sorted(value)]}
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {"map": {scrub(str(key)): to_json(each) for key, each in value.items()}}
    if isinstance(value, list):
        return {"list": [to_json(each) for each in value]}
    return value


def from_json(value: object) -> Any:
    """Undo `to_json`. Raises ValueError for a value that this version does not know."""
    if isinstance(value, list):
        return tuple(map(from_json, value))
    if not isinstance(value, dict):
        return value
    match value:
        case {"is": name, **fields}:
            return _instance(str(name), {str(field): each for field, each in fields.items()})
        case {"set": list(values)}:
            return frozenset(map(from_json, values))
        case {"list": list(values)}:
            return [*map(from_json, values)]
        case {"map": dict(members)}:
            return {key: from_json(each) for key, each in members.items()}
    raise ValueError("it is not a value of a record")


def _fields(cls: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(cls, "_fields", None) or cls.__slots__
    return names


def _instance(name: str, fields: dict[str, object]) -> object:
    cls = _CLASSES.get(name)
    if cls is None:
        raise ValueError(f"{name[:100]!r} is nothing that this version knows")
    hints = _hints(cls)
    values = {field: from_json(value) for field, value in fields.items()}
    for field, value in values.items():
        if field not in hints:
            raise ValueError(f"{name} has no {field[:100]!r} in this version")
        if not _fits(value, hints[field]):
            raise ValueError(f"{field} of {name} cannot be {str(value)[:100]!r}")
    try:
        return cls(**values)
    except TypeError:
        missing = ", ".join(sorted(hints.keys() - values.keys()))
        raise ValueError(f"{name} lacks one of these fields: {missing}") from None


@cache
def _hints(cls: Any) -> dict[str, Any]:
    # `events` imports these for type checkers only.
    more = {"PromptEnd": PromptEnd, "PromptFailure": PromptFailure, "Activity": Activity}
    return get_type_hints(cls, vars(sys.modules[cls.__module__]) | more)


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a field's annotated type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin in (frozenset, tuple):
        return isinstance(value, origin) and all(_fits(each, inner[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict)
    return type(value) is (NoneType if hint is None else hint)


# Writing.


class SessionRecorder:
    """Writes the events of each session of this process to a file, without blocking. Only making
    the recorder raises: MisuseError if the file cannot be opened."""

    def __init__(self, path: str | os.PathLike[str], log: logging.Logger) -> None:
        self._path, self._log = path, log
        try:
            self._fd = open_private(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"the record {os.fspath(path)} cannot be written: {reason}"
            raise MisuseError(message) from error
        size = os.fstat(self._fd).st_size
        may_be_torn = size > 0  # an earlier process may have left half a line
        self._lines = LineWriter(self._fd, str.encode, self._log_loss, gap=_gap, torn=may_be_torn)
        self._numbers: WeakKeyDictionary[SessionMachine, int] = WeakKeyDictionary()
        self._sessions = 0
        self._bytes_left = MAX_BYTES - size
        self._put({"record": FORMAT, "version": __version__})

    def __enter__(self) -> Self:
        """Start recording."""
        driver.taps.append(self.write_step)
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop recording, and close the file."""
        driver.taps.remove(self.write_step)
        if self._lines.close(CLOSE_SECONDS):  # else the thread of `LineWriter` still uses the file
            os.close(self._fd)

    def write_step(
        self, machine: SessionMachine, event: ev.Event, effects: list[ev.Effect]
    ) -> None:
        """Write an event that a session's machine handled."""
        if machine not in self._numbers:
            self._sessions += 1
            self._numbers[machine] = self._sessions
        line = {"session": self._numbers[machine]}
        try:
            self._put(line | {"event": to_json(event), "effects": [*map(to_json, effects)]})
        except (ValueError, TypeError, RecursionError):  # an error's data may be anything, and long
            self._put(line | {"missing": 1})

    def _put(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, allow_nan=False) + "\n"
        if len(line) > MAX_LINE:
            raise ValueError("no line of a record is so long")
        if self._bytes_left <= 0:
            return
        self._bytes_left -= len(line)
        if self._bytes_left <= 0:
            self._log.warning("the record %s is full: it has %d bytes", self._path, MAX_BYTES)
            line = _gap(0)
        self._lines.put(line)

    def _log_loss(self, reason: str) -> None:
        self._log.error("a line of the record %s was lost (%s)", self._path, reason)


def _gap(missing: int) -> str:
    """Return the line in place of ``missing`` lines; 0: in place of all later lines."""
    return json.dumps({"missing": missing}) + "\n"


# Playing.


def read_record(path: str | Path) -> Iterator[Step]:
    """Yield the steps of a record, one line at a time: a short line can become large objects.

    Raises UnreadableRecord for a file that is no record of this format.
    """
    try:
        data = read_regular(path, 2 * MAX_BYTES)  # generous: a recorder stops at MAX_BYTES
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UnreadableRecord(f"{path} cannot be read: {why}") from error
    if not data:
        raise UnreadableRecord(f"{path} is empty: nothing was recorded")
    if not data.endswith(b"\n"):
        number = data.count(b"\n") + 1
        raise UnreadableRecord(f"{path}, line {number}: it is cut off in the middle")
    version, offset, highest = "", 0, 0
    for number, line in enumerate(io.BytesIO(data), 1):
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"it is longer than {MAX_LINE} bytes")
            entry = {} if line == b"\n" else json.loads(line)
            if "record" in entry:  # a process begins here, and numbers its sessions from 1 again
                version, offset = str(entry.get("version")), highest
                if entry["record"] != FORMAT:
                    raise ValueError(f"it is of format {entry['record']!r:.40}, not {FORMAT}")
            elif number == 1:
                raise ValueError("it is no record of `serve --record`")
            elif entry:
                step = _step(number, entry, offset)
                highest = max(highest, step.session)
                yield step
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            why = "it is too deep" if isinstance(error, RecursionError) else str(error)
            by = f" (recorded by version {version[:40]!r})" if version else ""
            raise UnreadableRecord(f"{path}, line {number}{by}: {why}") from None


def _step(number: int, entry: dict[str, Any], offset: int) -> Step:
    """Return the step of a line; ``offset`` is added to the number of its session."""
    if "missing" in entry:
        session = entry.get("session", 0)
        return Step(number, session + offset if session else session, None, None)
    if not {"session", "event", "effects"} <= entry.keys():
        raise ValueError("it is no event of a session")
    session, event = entry["session"], from_json(entry["event"])
    effects = [from_json(each) for each in entry["effects"]]
    if type(session) is not int or type(event).__name__ not in EVENTS:
        raise ValueError("it is no event of a session")
    return Step(number, session + offset, event, effects)


class Difference(NamedTuple):
    """Step for which this version's machine returns other effects than were recorded."""

    step: Step
    today: list[ev.Effect] | str
    """The effects of this version's machine, or its exception as a text."""


class Played(NamedTuple):
    """Result of a record that was played."""

    events: int
    sessions: int
    missing: int
    """Number of sessions with missing lines: each is played up to the first of them."""
    differences: list[Difference]


def play(steps: Iterable[Step]) -> Played:
    """Let a new machine handle each session's events, up to the session's first difference."""
    machines: dict[int, SessionMachine | None] = {}
    differences, events, missing = [], 0, set()
    for step in steps:
        if step.event is None:
            affected = machines if step.session == 0 else (step.session,)  # 0: any session so far
            for session in affected:
                machines[session] = None
                missing.add(session)
            continue
        machine = machines.setdefault(step.session, SessionMachine())
        if machine is None:
            continue
        events += 1
        today: list[ev.Effect] | str
        try:
            # Through JSON, which redacts secrets, because the recorded effects are redacted.
            today = [from_json(to_json(effect)) for effect in machine.handle(step.event)]
        except Exception as error:  # noqa: BLE001 - any failure is a difference to report
            today = f"{type(error).__name__}: {error}"
        if today != step.effects:
            differences.append(Difference(step, today))
            machines[step.session] = None
    return Played(events, len(machines), len(missing), differences)


# Making a test.


def as_test(steps: Iterable[Step], session: int) -> Iterator[str]:
    """Yield the lines of one session for a test: short ids, no texts, this version's effects."""
    machine, names = SessionMachine(), _Names()
    yield json.dumps({"record": FORMAT, "version": __version__}) + "\n"
    for step in steps:
        if step.session != session or step.event is None:
            continue
        event = cast("ev.Event", names.renamed(step.event))
        effects = [to_json(effect) for effect in machine.handle(event)]
        yield json.dumps({"session": 1, "event": to_json(event), "effects": effects}) + "\n"


class _Names:
    """Short ids for prompts, turns and items: one for each long id."""

    def __init__(self) -> None:
        self._short: dict[str, str] = {}

    def renamed(self, value: Any) -> Any:
        if isinstance(value, PromptFailure):
            return PromptFailure(value.code, "it failed", {})
        if isinstance(value, PromptStop):
            return PromptStop(value.reason)
        fields = {field: getattr(value, field) for field in _fields(type(value))}
        return type(value)(**{field: self._short_of(field, old) for field, old in fields.items()})

    def _short_of(self, field: str, value: Any) -> Any:
        if isinstance(value, frozenset):
            return frozenset(self._short_of(field, each) for each in value)
        if isinstance(value, tuple(_ENDS.values())):
            return self.renamed(value)
        if not isinstance(value, str) or field in ("kind", "timer", "now"):
            return value
        if field == "problem":
            return "it failed"
        letter = {"turn": "t", "root": "t", "items": "c", "item": "c"}.get(field, "p")
        return self._short.setdefault(value, f"{letter}{len(self._short) + 1}")
