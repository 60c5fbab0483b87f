"""The output directory of a fleet: one run at a time, and one outcome a task, written once.

::

    DIR/fleet.json              whose it is
    DIR/lock                    held by the run that writes here
    DIR/journal.jsonl           what was begun: runs, attempts, sessions
    DIR/tasks/NAME/outcome.json, transcript.jsonl, changes.patch
    DIR/retried/NAME/1          an outcome that failed, before its task was run again
    DIR/work                    worktrees of the local engine, until their tasks are done

An outcome is there as a whole or not at all: its directory is filled under another name and then
given its own, which fails if that is taken.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codex_acp.fleet.errors import OutcomeNotWritten, OutDirectoryError, OutDirectoryInUse
from codex_acp.fleet.outcome import Outcome, outcome_from_json
from codex_acp.fleet.private_files import (
    FileLock,
    make_private,
    read_json,
    remove_tree,
    sync_folder,
    write_private,
)
from codex_acp.fleet.task import file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.jsonrpc.message import JsonValue

VERSION: Final = 1

_UNFINISHED: Final = ".tmp-"


class OutDirectory:
    """Made by `open`; `close` gives the lock back."""

    def __init__(self, path: Path, fleet_id: str, lock: FileLock) -> None:
        self.path = path
        self.fleet_id = fleet_id
        self._lock = lock
        self._tasks = path / "tasks"

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, resume: bool) -> OutDirectory:
        """Raises OutDirectoryInUse, and OutDirectoryError for what is not an output directory, or
        is one that was used before unless it is to ``resume``."""
        folder = Path(path).absolute()
        try:
            make_private(folder)
            lock = FileLock(folder / "lock")
            if not lock.acquire():
                by = lock.noted() or "another process"
                msg = f"{folder} is in use by {by}; wait for it, or name another directory"
                raise OutDirectoryInUse(msg)
            with lock.released_on_error():
                lock.note(f"process {os.getpid()} on {socket.gethostname()}")
                fleet_id = _claim(folder, resume=resume)
                make_private(folder / "tasks")
                for left in (folder / "tasks").glob(f"{_UNFINISHED}*"):
                    remove_tree(left)
        except OSError as error:
            msg = f"{folder} cannot be used: {error.strerror or error}"
            raise OutDirectoryError(msg) from error
        return cls(folder, fleet_id, lock)

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes of earlier runs. Raises OutDirectoryError for a damaged file."""
        return read_outcomes(self.path)

    def write(self, outcome: Outcome, output: JsonValue, *, replaces: bool = False) -> Path:
        """Write it, once; its directory. Raises OutcomeNotWritten, and then nothing of it stays.

        ``replaces``: an earlier outcome of the task is kept below ``retried``.
        """
        target = self._tasks / file_name(outcome.id)
        beside = self._tasks / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            beside.mkdir(mode=0o700)
            content = json.dumps(outcome.to_json(output), indent=1, default=str) + "\n"
            write_private(beside / "outcome.json", content.encode("utf-8", "replace"))
            write_private(beside / "transcript.jsonl", outcome.transcript)
            if outcome.changes is not None:
                write_private(beside / "changes.patch", outcome.changes)
            sync_folder(beside)
            if replaces:
                self._set_aside(target)
            beside.rename(target)
            sync_folder(self._tasks)
        except OSError as error:
            remove_tree(beside)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise OutcomeNotWritten(f"{outcome.id!r} has an outcome in {target}") from error
            why = error.strerror or str(error)
            raise OutcomeNotWritten(
                f"the outcome of {outcome.id!r} cannot be written to {target}: {why}; nothing more "
                "is run. Mend that, and go on with --resume"
            ) from error
        return target

    def _set_aside(self, target: Path) -> None:
        """Move an outcome away. If nothing takes its place, its task is run once more."""
        kept = make_private(self.path / "retried" / target.name)
        for number in itertools.count(1):
            with suppress(FileNotFoundError):  # a run was killed after it had done this
                try:
                    target.rename(kept / str(number))
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        continue
                    raise
                sync_folder(kept)
            return

    def close(self) -> None:
        """Another run may use it."""
        self._lock.release()


def _claim(folder: Path, *, resume: bool) -> str:
    manifest = folder / "fleet.json"
    try:
        found: Any = read_json(manifest)
        version, fleet_id = found["version"], found["id"]
    except FileNotFoundError:
        others = sorted(name for name in os.listdir(folder) if name != "lock")  # noqa: PTH208
        if others:
            raise OutDirectoryError(
                f"{folder} holds {others[0]!r} and is no output directory of a fleet; "
                "name one that is empty or not there yet"
            ) from None
        fleet_id = uuid.uuid4().hex
        content = json.dumps({"version": VERSION, "id": fleet_id}) + "\n"
        write_private(manifest, content.encode())
        return fleet_id
    except (ValueError, KeyError, TypeError) as error:
        raise OutDirectoryError(f"{manifest} is damaged: {error}") from error
    if version != VERSION or not isinstance(fleet_id, str) or not fleet_id.isalnum():
        raise OutDirectoryError(f"{manifest} is of another version; update codex-acp-sdk")
    if not resume:
        msg = f"{folder} was used before; go on with --resume, or name another directory"
        raise OutDirectoryError(msg)
    return fleet_id


def read_outcomes(folder: Path) -> Iterator[Outcome]:
    """Every outcome, by name. Raises OutDirectoryError."""
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
