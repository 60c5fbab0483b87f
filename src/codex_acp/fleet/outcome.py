"""What came of a task, and its form as JSON: in its file, and as a line of ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from codex_acp.fleet.errors import OutDirectoryError
from codex_acp.fleet.jobs import Reason, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    """What came of a task, once and for all."""

    id: str
    status: Status
    reason: Reason
    message: str | None = None
    """What went wrong, in words."""
    text: str = ""
    """The agent's last message."""
    output: object = None
    """The answer as the task's output type; as plain JSON where that is a JSON Schema."""
    usage: Usage = field(default_factory=Usage)
    """Of all attempts."""
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
    """Of the task: one that was changed since has another."""
    changes_note: str | None = None
    """Why there are no changes, where that is not known."""
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
        usage = self.usage
        return {
            "version": VERSION,
            "id": self.id,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "text": self.text,
            "output": output,
            "usage": {
                "total": usage.total,
                "input": usage.input,
                "output": usage.output,
                "counted": usage.counted,
            },
            "agent": self.agent,
            "sessionId": self.session_id,
            "cwd": self.cwd,
            "repository": self.repository,
            "revision": self.revision,
            "commit": self.commit,
            "asked": self.asked,
            "allowed": self.allowed,
            "attempts": [_attempt_to_json(attempt) for attempt in self.attempts],
            "digest": self.digest,
            "changesNote": self.changes_note,
        }


def _attempt_to_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "started": attempt.started,
        "reason": attempt.reason,
        "message": attempt.message,
        "worker": attempt.worker,
        "sessionId": attempt.session_id,
        "resumed": attempt.resumed,
        "seconds": attempt.seconds,
    }


def outcome_from_json(value: object, path: Path) -> Outcome:
    """Read back. Raises OutDirectoryError for what is none."""
    if not isinstance(value, dict) or value.get("version") != VERSION:
        msg = f"{path} is no outcome that this version can read; update codex-acp-sdk"
        raise OutDirectoryError(msg)
    found = cast("Mapping[str, Any]", value)
    try:
        usage = found["usage"]
        return Outcome(
            id=_text(found["id"]),
            status=_one_of(Status, found["status"]),
            reason=_one_of(Reason, found["reason"]),
            message=found["message"] and _text(found["message"]),
            text=found["text"],
            output=found["output"],
            usage=Usage(
                int(usage["total"]), int(usage["input"]), int(usage["output"]), usage["counted"]
            ),
            agent=found["agent"],
            session_id=found["sessionId"],
            cwd=found["cwd"],
            repository=found["repository"],
            revision=found["revision"],
            commit=found["commit"],
            asked=found["asked"],
            allowed=found["allowed"],
            attempts=tuple(
                Attempt(
                    session_id=each["sessionId"],
                    seconds=float(each["seconds"]),
                    **_without(each, "sessionId", "seconds"),
                )
                for each in found["attempts"]
            ),
            digest=found["digest"],
            changes_note=found["changesNote"],
            path=path,
            earlier=True,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise OutDirectoryError(f"{path} holds a malformed outcome: {error}") from error


def _without(mapping: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in names}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _one_of(words: Any, value: Any) -> Any:
    if value not in get_args(words):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(words))}")
    return value
