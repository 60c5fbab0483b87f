"""Define the outcome of a task, and its JSON: in its file, and as a line of ``--json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from codex_acp.fleet.errors import OutDirectoryError
from codex_acp.fleet.jobs import Reason, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from _typeshed import DataclassInstance

    from codex_acp.jsonrpc.message import JsonValue

VERSION: Final = 1

Status: TypeAlias = Literal["completed", "failed"]
"""``completed``: every prompt ended with ``end_turn``, and the output is what was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One time that a task was run. Only the last one may be the one that counts, but what an
    earlier one has done in a directory may be there all the same."""

    started: str
    """ISO 8601, in UTC."""
    reason: str
    """A reason as of an outcome; ``interrupted``: the run that made it was ended."""
    message: str | None = None
    worker: str | None = None
    session_id: str | None = None
    resumed: bool = False
    """Whether it went on with the session of the attempt before."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Final result of a task."""

    id: str
    status: Status
    reason: Reason
    message: str | None = None
    """Description of the failure."""
    text: str = ""
    """The agent's last message."""
    output: object = None
    """The answer as the task's output type; as plain JSON where that is a JSON Schema."""
    usage: Usage = field(default_factory=Usage)
    """Usage of all attempts."""
    agent: str = ""
    session_id: str | None = None
    cwd: str | None = None
    repository: str | None = None
    revision: str | None = None
    commit: str | None = None
    asked: int = 0
    allowed: int = 0
    """Questions of the agent, and those that somebody or a policy said yes to."""
    attempts: tuple[Attempt, ...] = ()
    digest: str = ""
    """Digest of the task: it changes with the task."""
    changes_note: str | None = None
    """Why there are no changes, or what they lack."""
    path: Path | None = None
    """The directory with ``outcome.json``, ``transcript.jsonl`` and ``changes.patch``."""
    changes: bytes | None = field(default=None, repr=False)
    """The patch; None where it is not known, and of an outcome that was read from its file."""
    transcript: bytes = field(default=b"", repr=False)
    """As `path` has it; empty of an outcome that was read from its file."""
    earlier: bool = False
    """Whether an earlier run has written it."""

    @property
    def ok(self) -> bool:
        """Whether it is completed."""
        return self.status == "completed"

    def to_json(self, output: JsonValue) -> dict[str, Any]:
        """As it is written; ``output`` as plain JSON."""
        plain = {
            "output": output,
            "usage": asdict(self.usage),
            "attempts": [_members(attempt, _OF_ATTEMPT) for attempt in self.attempts],
        }
        return {"version": VERSION, **_members(self, _OF_OUTCOME), **plain}


def _names(kind: type[DataclassInstance]) -> dict[str, str]:
    """Each field of a class and what it is called in JSON."""
    words = {field.name: field.name.split("_") for field in fields(kind)}
    return {name: first + "".join(map(str.title, more)) for name, (first, *more) in words.items()}


_NOT_WRITTEN: Final = frozenset(("path", "changes", "transcript", "earlier"))
"""Of an outcome: where it is, and what lies beside it in files of its own."""

_OPTIONAL: Final = (
    *("message", "session_id", "cwd", "repository", "revision", "commit", "changes_note"),
)
"""Of an outcome: texts that may be missing."""

_OF_ATTEMPT: Final = _names(Attempt)
_OF_OUTCOME: Final = {n: name for n, name in _names(Outcome).items() if n not in _NOT_WRITTEN}


def _members(value: object, names: Mapping[str, str]) -> dict[str, Any]:
    return {name: getattr(value, attribute) for attribute, name in names.items()}


def outcome_from_json(value: object, path: Path) -> Outcome:
    """Read back. Raises OutDirectoryError for what is none."""
    if not isinstance(value, dict) or value.get("version") != VERSION:
        msg = f"{path} is no outcome that this version can read; update codex-acp-sdk"
        raise OutDirectoryError(msg)
    found = cast("Mapping[str, Any]", value)
    try:
        members = {attribute: found[name] for attribute, name in _OF_OUTCOME.items()}
        usage = found["usage"]
        members |= {
            **{name: _text(members[name]) for name in ("id", "text", "agent", "digest")},
            **{name: _text(members[name]) for name in _OPTIONAL if members[name] is not None},
            **{name: int(members[name]) for name in ("asked", "allowed")},
            "status": _one_of(Status, found["status"]),
            "reason": _one_of(Reason, found["reason"]),
            "usage": Usage(
                int(usage["total"]), int(usage["input"]), int(usage["output"]), usage["counted"]
            ),
            "attempts": tuple(map(_attempt, found["attempts"])),
        }
        return Outcome(**members, path=path, earlier=True)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise OutDirectoryError(f"{path} holds a malformed outcome: {error}") from error


def _attempt(found: Mapping[str, Any]) -> Attempt:
    members = {attribute: found[name] for attribute, name in _OF_ATTEMPT.items()}
    for name in ("message", "worker", "session_id"):
        if members[name] is not None:
            _text(members[name])
    checked = {name: _text(members[name]) for name in ("started", "reason")}
    return Attempt(**members | checked | {"seconds": float(found["seconds"])})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _one_of(words: Any, value: Any) -> Any:
    if value not in get_args(words):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(words))}")
    return value
