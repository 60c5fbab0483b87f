"""The entries of a scripted app-server, as plain data, and their JSON form.

Owns the vocabulary and its spelling; the meaning of each entry is played in
``app_server_script``. In JSON an entry is one object with one member that names it::

    {"expect": "thread/start", "result": {...}}     wait for the request, answer it
    {"expect": "turn/start"}                        ... with the default answer
    {"expect": "turn/start", "error": {"code": -32600, "message": "no"}}
    {"expect": "turn/interrupt", "silent": true}    ... not at all
    {"expect_notification": "initialized"}
    {"notify": "item/started", "params": {...}, "times": 1}
    {"request": "item/fileChange/requestApproval", "params": {...}, "id": 0, "name": "ask"}
    {"await": "ask"}                                wait for the answer to that server request
    {"raw": "not json"}                             a line as it is, or "newline": false
    {"stderr": "text"}    {"pause": 0.1}    {"close": true}    {"exit": 3}    {"silence": true}

``params``, ``result`` and ``error`` may hold references, see ``app_server_script``.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias, cast

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject: TypeAlias = "Mapping[str, object]"

RequestId: TypeAlias = int | str
"""A JSON-RPC id; ``0`` and ``"0"`` are different."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Wait for a request of the client and answer it.

    Without ``result`` and ``error`` the default answer is sent (``{}`` for a method that has
    none). ``silent`` leaves the request without an answer.
    """

    expect: str
    result: JsonObject | None = None
    error: JsonObject | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ExpectNotification:
    """Wait for a notification of the client."""

    expect_notification: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Send a notification, ``times`` times."""

    notify: str
    params: JsonObject | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class AskClient:
    """Send a server request. Without an ``id`` they count from 0, as Codex's do.

    ``name`` is how :class:`AwaitAnswer` and references speak of it; by default the method.
    """

    request: str
    params: JsonObject | None = None
    id: RequestId | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Wait until the newest server request of this name is answered."""

    name: str


@dataclass(frozen=True, slots=True)
class RawLine:
    """Write text that need not be JSON; without ``newline`` the next output joins the line."""

    raw: str
    newline: bool = True


@dataclass(frozen=True, slots=True)
class StderrText:
    """Write a line to standard error."""

    stderr: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for ``seconds``."""

    pause: float


@dataclass(frozen=True, slots=True)
class CloseOutput:
    """Close standard output and go on reading."""

    close: bool = True


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process with this status; in memory the link closes."""

    exit: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """From here on take everything and answer nothing, not even by default."""

    silence: bool = True


Entry: TypeAlias = (
    Expect
    | ExpectNotification
    | Notify
    | AskClient
    | AwaitAnswer
    | RawLine
    | StderrText
    | Pause
    | CloseOutput
    | Exit
    | Silence
)
"""One step of the script of an app-server."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A class, the JSON member that names it, and the types that its members may have."""

    entry: type[Entry]
    members: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


_OBJECT = (dict,)
_SPELLINGS: Mapping[str, _Spelling] = {
    "expect": _Spelling(
        Expect, {"expect": (str,), "result": _OBJECT, "error": _OBJECT, "silent": (bool,)}
    ),
    "expect_notification": _Spelling(ExpectNotification, {"expect_notification": (str,)}),
    "notify": _Spelling(Notify, {"notify": (str,), "params": _OBJECT, "times": (int,)}),
    "request": _Spelling(
        AskClient, {"request": (str,), "params": _OBJECT, "id": (int, str), "name": (str,)}
    ),
    "await": _Spelling(AwaitAnswer, {"await": (str,)}),
    "raw": _Spelling(RawLine, {"raw": (str,), "newline": (bool,)}),
    "stderr": _Spelling(StderrText, {"stderr": (str,)}),
    "pause": _Spelling(Pause, {"pause": (int, float)}),
    "close": _Spelling(CloseOutput, {"close": (bool,)}),
    "exit": _Spelling(Exit, {"exit": (int,)}),
    "silence": _Spelling(Silence, {"silence": (bool,)}),
}


def entry_from_json(raw: object, where: str) -> Entry:
    """The entry that ``raw`` spells. Raises MisuseError that begins with ``where``."""
    members = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    kinds = [kind for kind in _SPELLINGS if kind in members]
    if len(kinds) != 1:
        raise MisuseError(f"{where} must be an object with one of {', '.join(_SPELLINGS)}")
    spelling = _SPELLINGS[kinds[0]]
    arguments: dict[str, object] = {}
    for member, value in members.items():
        types = spelling.members.get(member)
        if types is None or not isinstance(value, types):
            raise MisuseError(f"{where}: {kinds[0]!r} cannot have {member!r} as {value!r}")
        arguments["name" if member == "await" else member] = value
    return spelling.entry(**arguments)  # type: ignore[arg-type]


def entry_to_json(entry: Entry) -> dict[str, object]:
    """The JSON form of ``entry``, without what is at its default."""
    if isinstance(entry, AwaitAnswer):
        return {"await": entry.name}
    members: dict[str, object] = {}
    for position, item in enumerate(fields(entry)):
        value: object = getattr(entry, item.name)
        if position == 0 or item.default is MISSING or value != item.default:
            members[item.name] = value
    return members
