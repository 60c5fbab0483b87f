"""Keep the outcomes of tasks, and the journal of their attempts, in an output directory.

::

    DIR/fleet.json              the id of the fleet, and the version of the format
    DIR/lock                    locked by the run that writes to DIR
    DIR/journal.jsonl           the start and the end of runs, attempts, sessions and prompts
    DIR/tasks/NAME/outcome.json, transcript.jsonl, changes.patch
    DIR/retried/NAME/1          an outcome that failed, before its task was run again
    DIR/work                    worktrees of the local engine, until their tasks are done

An outcome is written as a whole or not at all: into a temporary directory that is then renamed. The
rename fails if the task has an outcome. A line of the journal is written before the step that it
records; readers skip a line that a crash has cut off.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import socket
import uuid
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from codex_acp._files import append_line, read_regular, sync_folder
from codex_acp._json import text_at
from codex_acp.errors import refuse_unless
from codex_acp.fleet.errors import OutcomeNotWritten, OutDirectoryError, OutDirectoryInUse
from codex_acp.fleet.jobs import Reason, Usage, now
from codex_acp.fleet.private_files import (
    MOST_READ,
    FileLock,
    make_private,
    read_json,
    remove_tree,
    write_private,
)
from codex_acp.fleet.task import file_name
from codex_acp.wire.codec import problems_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codex_acp.jsonrpc import JsonValue


VERSION: Final = 1
"""Version of the format of ``outcome.json``."""

Status: TypeAlias = Literal["completed", "failed"]
"""``completed``: every prompt ended with ``end_turn``, and the output is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a task. Only the last attempt can decide the outcome, but files that an earlier
    attempt changed may still be in the directory."""

    started: str
    """Time in ISO 8601, in UTC."""
    reason: str
    """A `Reason`, or ``interrupted``: the run ended before the attempt did."""
    message: str | None = None
    worker: str | None = None
    session_id: str | None = None
    resumed: bool = False
    """Whether the attempt resumed the session of the attempt before."""
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
    """Value of the task's output type; plain JSON if that is a JSON Schema."""
    usage: Usage = field(default_factory=Usage)
    """Usage of all attempts."""
    agent: str = ""
    session_id: str | None = None
    cwd: str | None = None
    repository: str | None = None
    revision: str | None = None
    commit: str | None = None
    asked: int = 0
    """Number of the agent's questions."""
    allowed: int = 0
    """Number of questions that a policy or a person allowed."""
    attempts: tuple[Attempt, ...] = ()
    digest: str = ""
    """Digest of the task, which changes with the task."""
    changes_note: str | None = None
    """Why there is no patch, or what the patch lacks."""
    path: Path | None = None
    """The directory with ``outcome.json``, ``transcript.jsonl`` and ``changes.patch``."""
    changes: bytes | None = field(default=None, repr=False)
    """The patch; None if there is none, and in an outcome that was read from its file."""
    transcript: bytes = field(default=b"", repr=False)
    """Content of ``transcript.jsonl``; empty in an outcome that was read from its file."""
    earlier: bool = False
    """Whether an earlier run has written the outcome."""

    __pydantic_config__: ClassVar = ConfigDict(alias_generator=to_camel)
    """``outcome.json`` has the fields, also of attempts, by names such as ``sessionId``."""

    @property
    def ok(self) -> bool:
        """Return whether the task is completed."""
        return self.status == "completed"

    def to_json(self, output: JsonValue) -> dict[str, Any]:
        """Return the object for ``outcome.json``; ``output`` is `Outcome.output` as plain JSON."""
        members = _outcome_adapter().dump_python(self, by_alias=True, exclude={"output"})
        members["output"] = output  # may be nested deeper than pydantic goes
        return {"version": VERSION, **{name: members[name] for name in _WRITTEN}}


_WRITTEN: Final = tuple(
    to_camel(field.name)
    for field in fields(Outcome)
    if field.name not in ("path", "changes", "transcript", "earlier")
)
"""Names in ``outcome.json`` of the fields that are written there."""


@cache
def _outcome_adapter() -> TypeAdapter[Outcome]:
    return TypeAdapter(Outcome)


def outcome_from_json(value: object, path: Path) -> Outcome:
    """Return the outcome in an ``outcome.json``. Raises OutDirectoryError if it is invalid."""
    if not isinstance(value, dict) or value.get("version") != VERSION:
        msg = f"{path} is no outcome that this version can read; update codex-acp-sdk"
        raise OutDirectoryError(msg)
    try:
        _ = [value["usage"][each.name] for each in fields(Usage)]  # all fields must be there
        outcome = _outcome_adapter().validate_python({name: value[name] for name in _WRITTEN})
    except (KeyError, TypeError) as error:
        raise OutDirectoryError(f"{path} holds a malformed outcome: {error}") from error
    except ValidationError as error:
        problems = "; ".join(problems_of(error, value))
        raise OutDirectoryError(f"{path} holds a malformed outcome: {problems}") from error
    return replace(outcome, path=path, earlier=True)


@dataclass(slots=True)
class History:
    """The attempts of one task, and how far the last one got."""

    attempts: list[Attempt] = field(default_factory=list)
    session_id: str | None = None
    """Session id of the last attempt that had one."""
    first_prompt: int = 0
    """Number of the first prompt that was not finished in that session."""
    prompt_sent: bool = False
    """Whether `first_prompt` was sent."""

    def retry(self, outcome: Outcome, *, resume: bool) -> None:
        """Start from a failed outcome. The next attempt opens a new session unless ``resume``."""
        self.attempts = list(outcome.attempts)
        if not resume:
            self.session_id, self.first_prompt, self.prompt_sent = None, 0, False

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply an event of the last attempt, from a worker or from a line of the journal."""
        last = self.attempts[-1]
        match event:
            case {"type": "worker", "worker": str(worker)}:
                self.attempts[-1] = replace(last, worker=worker)
            case {"type": "opened", "sessionId": str(session_id), "how": how}:
                if how == "new":
                    self.first_prompt, self.prompt_sent = 0, False
                self.session_id = session_id
                self.attempts[-1] = replace(last, session_id=session_id, resumed=how != "new")
            case {"type": "prompt", "number": int(number)} if number >= 0:
                self.first_prompt, self.prompt_sent = number, True
            case {"type": "prompt_ended", "number": int(number)} if number >= 0:
                self.first_prompt, self.prompt_sent = number + 1, False
            case {
                "type": "attempt_ended",
                "reason": str(reason),
                "seconds": int() | float() as seconds,
            } if 0 <= seconds < 1 << 63:  # no NaN, and no more digits than a float takes
                message = text_at(event, "message")
                self.attempts[-1] = replace(
                    last, reason=reason, message=message, seconds=float(seconds)
                )


class Journal:
    """Appends lines to the journal file in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise _not_written(path, error) from error

    def note(self, kind: str, **members: object) -> str:
        """Append a line and return its time. Raises OutcomeNotWritten; then do not start the step
        that the line records."""
        time = now()
        line = json.dumps({"time": time, "type": kind, **members}, default=str) + "\n"
        try:
            append_line(self._fd, line.encode("utf-8", "replace"))
        except OSError as error:
            raise _not_written(self._path, error) from error
        return time

    def close(self) -> None:
        os.close(self._fd)


def _not_written(path: Path, error: OSError) -> OutcomeNotWritten:
    why = error.strerror or str(error)
    msg = f"{path} cannot be written: {why}; nothing more is run. Mend that, and resume (--resume)"
    return OutcomeNotWritten(msg)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = read_regular(path, MOST_READ)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"{path} cannot be read: {why}; without it no run knows what an earlier one left"
        raise OutDirectoryError(msg) from error
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def read_history(path: Path) -> tuple[list[str], dict[str, History]]:
    """Return the ids of the tasks of all runs, in order, and each task's history."""
    ids: dict[str, None] = {}
    histories: dict[str, History] = {}
    for line in _read_lines(path):
        kind, task_id = line.get("type"), line.get("id")
        if kind == "run" and isinstance(line.get("tasks"), list):
            ids.update(dict.fromkeys(each for each in line["tasks"] if isinstance(each, str)))
        if not isinstance(task_id, str):
            continue
        history = histories.setdefault(task_id, History())
        if kind == "attempt":
            started = str(line.get("time"))
            history.attempts.append(Attempt(started=started, reason="interrupted"))
        elif history.attempts:
            history.apply(line)
    return list(ids), histories


DIRECTORY_VERSION: Final = 1
"""Version of the format of an output directory."""

_UNFINISHED: Final = ".tmp-"
"""Prefix of the directory of an outcome that is not complete yet."""
_LOCK_OWNER: Final = "process "
"""Beginning of the text that a fleet writes into its lock."""


class OutDirectory:
    """An output directory that this process has locked. Made by `open`; `close` frees the lock."""

    def __init__(self, path: Path, fleet_id: str, lock: FileLock) -> None:
        self.path = path
        self.fleet_id = fleet_id
        self._lock = lock
        self._tasks = path / "tasks"

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, resume: bool) -> OutDirectory:
        """Open or make the output directory, and lock it. Raises OutDirectoryInUse;
        OutDirectoryError if the folder is no output directory, or was used before and ``resume`` is
        false."""
        folder = Path(path).absolute()
        try:
            make_private(folder)
            lock = FileLock(folder / "lock")
            _must_be_usable(folder, lock)
            if not lock.acquire():
                by = lock.read_owner() or "another process"
                msg = f"{folder} is in use by {by}; wait for it, or name another directory"
                raise OutDirectoryInUse(msg)
            with lock.released_on_error():
                lock.write_owner(f"{_LOCK_OWNER}{os.getpid()} on {socket.gethostname()}")
                fleet_id = _claim(folder, resume=resume)
                make_private(folder / "tasks")
                for left in (folder / "tasks").glob(f"{_UNFINISHED}*"):
                    remove_tree(left)
        except OSError as error:
            msg = f"{folder} cannot be used: {error.strerror or error}"
            raise OutDirectoryError(msg) from error
        return cls(folder, fleet_id, lock)

    def write(self, outcome: Outcome, output: JsonValue, *, replaces: bool = False) -> Path:
        """Write an outcome to its directory, once. With ``replaces``, first move the earlier
        outcome to ``retried``. Raises OutcomeNotWritten."""
        target = self._tasks / file_name(outcome.id)
        unfinished = self._tasks / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            unfinished.mkdir(mode=0o700)
            content = json.dumps(outcome.to_json(output), indent=1, default=str) + "\n"
            write_private(unfinished / "outcome.json", content.encode("utf-8", "replace"))
            write_private(unfinished / "transcript.jsonl", outcome.transcript)
            if outcome.changes is not None:
                write_private(unfinished / "changes.patch", outcome.changes)
            sync_folder(unfinished)
            if replaces:
                self._set_aside(target)
            unfinished.rename(target)
            sync_folder(self._tasks)
        except (OSError, ValueError, RecursionError) as error:
            remove_tree(unfinished)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise OutcomeNotWritten(f"{outcome.id!r} has an outcome in {target}") from error
            why = getattr(error, "strerror", None) or error
            raise OutcomeNotWritten(
                f"the outcome of {outcome.id!r} cannot be written to {target}: {why}; nothing more "
                "is run. Mend that, and go on with resume (--resume)"
            ) from error
        return target

    def _set_aside(self, target: Path) -> None:
        """Move an outcome to ``retried``. After a crash here, the task is run once more."""
        kept = make_private(self.path / "retried" / target.name)
        for number in itertools.count(1):
            try:
                target.rename(kept / str(number))
            except FileNotFoundError:  # a run that was killed has moved it
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                sync_folder(kept)
                return

    def close(self) -> None:
        self._lock.release()


def _must_be_usable(folder: Path, lock: FileLock) -> None:
    """Raise OutDirectoryError for a directory that is neither empty nor a fleet's. Changes
    nothing. A fleet that is just beginning, or was killed then, has only made its lock."""
    names = sorted(os.listdir(folder))  # noqa: PTH208
    if not names or "fleet.json" in names:
        return
    owner = lock.read_owner()
    if names != ["lock"] or (owner and not owner.startswith(_LOCK_OWNER)):
        raise OutDirectoryError(
            f"{folder} holds {names[0]!r} and is no output directory of a fleet; "
            "name one that is empty or not there yet"
        )


def _claim(folder: Path, *, resume: bool) -> str:
    """Return the fleet id of an output directory; an empty directory gets a new id."""
    manifest = folder / "fleet.json"
    try:
        content: Any = read_json(manifest)
        version, fleet_id = content["version"], content["id"]
    except FileNotFoundError:
        fleet_id = uuid.uuid4().hex
        text = json.dumps({"version": DIRECTORY_VERSION, "id": fleet_id}) + "\n"
        write_private(manifest, text.encode())
        return fleet_id
    except (ValueError, KeyError, TypeError) as error:
        raise OutDirectoryError(f"{manifest} is damaged: {error}") from error
    if version != DIRECTORY_VERSION or not isinstance(fleet_id, str) or not fleet_id.isalnum():
        raise OutDirectoryError(f"{manifest} is of another version; update codex-acp-sdk")
    if not resume:
        msg = f"{folder} was used before; go on with resume (--resume), or name another directory"
        raise OutDirectoryError(msg)
    return fleet_id


def read_outcomes(folder: str | os.PathLike[str]) -> Iterator[Outcome]:
    """Yield every outcome, sorted by directory. Raises OutDirectoryError."""
    refuse_unless(isinstance(folder, str | os.PathLike), "an output directory is a path", folder)
    folder = Path(folder)
    if not (folder / "fleet.json").is_file():
        raise OutDirectoryError(f"{folder} is no output directory of a fleet")
    tasks = folder / "tasks"
    for path in sorted(tasks.iterdir()) if tasks.is_dir() else ():
        if path.name.startswith(_UNFINISHED):
            continue
        try:
            value = read_json(path / "outcome.json")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            msg = f"{path} holds no outcome that can be read ({why}); remove it to run it again"
            raise OutDirectoryError(msg) from error
        yield outcome_from_json(value, path)
