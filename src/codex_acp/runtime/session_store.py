"""A file that remembers sessions, so that a program finds them again after it was restarted.

Owns the file: its format and version, its lock, and that it is replaced as a whole or not at all.
Must not know what a session is beyond its record. Several processes may use one file.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codex_acp.runtime.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

VERSION: Final = 1

LOCK_SECONDS: Final = 10.0
"""For others to finish, who each take milliseconds; longer means that one hangs."""

LOCK_POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Record of one session in the store. Times are ISO 8601, in UTC."""

    agent: str
    session_id: str
    cwd: str
    key: str | None = None
    """The program's own name for the conversation, by which it finds the session again."""
    title: str | None = None
    created_at: str = ""
    updated_at: str = ""


class SessionStore:
    """The records in ``path``, a JSON file; made, with its directory, when the first is put.

    Everything reads the file anew and blocks for as long as a small file takes; all of it may be
    called from any thread and any process. A file that is no valid store is not lost: it is moved
    aside, logged, and kept in `set_aside`. One of a newer version is left alone, and a StoreError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self.set_aside: list[tuple[Path, str]] = []
        """Files that could not be read: where each was moved to, and what was wrong with it."""

    def __repr__(self) -> str:
        return f"SessionStore({str(self.path)!r})"

    def all(self) -> list[StoredSession]:
        """Every record, the one that was used last first."""
        return sorted(self._read(), key=lambda record: record.updated_at, reverse=True)

    def find(self, agent: str, key: str) -> StoredSession | None:
        """The latest record of this agent under this key."""
        return next((r for r in self.all() if r.agent == agent and r.key == key), None)

    def put(self, record: StoredSession) -> StoredSession:
        """Add it, or replace the one of the same agent and id; its times are set here.

        Another session that had the same key loses it: a key finds one session.
        """
        now = datetime.now(UTC).isoformat()

        def change(records: list[StoredSession]) -> list[StoredSession]:
            nonlocal record
            old = next((r for r in records if _same(r, record)), None)
            created = record.created_at or (old.created_at if old else "") or now
            record = replace(record, created_at=created, updated_at=now)
            rest = [r for r in records if not _same(r, record)]
            if record.key is not None:
                taken = (record.agent, record.key)
                rest = [replace(r, key=None) if (r.agent, r.key) == taken else r for r in rest]
            return [*rest, record]

        self._change(change)
        return record

    def touch(self, agent: str, session_id: str, title: str | None) -> None:
        """It was used until now, and has this title, if any; nothing if it is not there."""
        used = StoredSession(agent, session_id, "")
        now = datetime.now(UTC).isoformat()

        def change(records: list[StoredSession]) -> list[StoredSession]:
            return [
                replace(r, title=title or r.title, updated_at=now) if _same(r, used) else r
                for r in records
            ]

        self._change(change)

    def remove(self, agent: str, session_id: str) -> None:
        """Forget it; no error if it is not there."""
        gone = StoredSession(agent, session_id, "")
        self._change(lambda records: [r for r in records if not _same(r, gone)])

    def _change(self, change: Callable[[list[StoredSession]], list[StoredSession]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                self._write(change(self._read(locked=True)))
        except OSError as error:
            msg = f"the session store {self.path} cannot be written: {error.strerror or error}"
            raise StoreError(msg) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file; the lock is on one beside it, since the file itself is replaced."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(self.path.with_name(f"{self.path.name}.lock"), flags, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        msg = f"another process holds the session store {self.path}"
                        raise StoreError(msg) from None
                    time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(fd)

    def _read(self, *, locked: bool = False) -> list[StoredSession]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"the session store {self.path} cannot be read: {error.strerror or error}"
            raise StoreError(msg) from error
        try:
            return _records(data, self.path)
        except ValueError as error:
            if locked:
                self._set_aside(str(error))
                return []
            # Another look with the lock: nobody else may move the same file.
            with self._locked():
                return self._read(locked=True)

    def _set_aside(self, why: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        self.path.replace(aside)
        self.set_aside.append((aside, why))
        logger.warning("%s is no session store (%s); it was moved to %s", self.path, why, aside)

    def _write(self, records: list[StoredSession]) -> None:
        sessions = [
            {name: value for name, value in asdict(record).items() if value is not None}
            for record in records
        ]
        content = {"version": VERSION, "sessions": sessions}
        data = json.dumps(content, indent=1).encode()
        fd, beside = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(beside).unlink()
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # so that the new name survives a loss of power, too
        finally:
            os.close(folder)


def _same(left: StoredSession, right: StoredSession) -> bool:
    return (left.agent, left.session_id) == (right.agent, right.session_id)


def _records(data: bytes, path: Path) -> list[StoredSession]:
    """The records of a file's content. Raises ValueError if it is none, StoreError if newer."""
    content: Any = json.loads(data)
    version = content.get("version") if isinstance(content, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("it has no version")
    if version > VERSION:
        msg = f"the session store {path} has version {version}; update codex-acp-sdk to use it"
        raise StoreError(msg)
    entries = content.get("sessions")
    if version < 1 or not isinstance(entries, list):
        raise ValueError("it has no list of sessions")
    return [_record(entry) for entry in entries]


def _record(entry: Any) -> StoredSession:
    names = StoredSession.__dataclass_fields__
    if not isinstance(entry, dict) or not all(
        isinstance(value, str) for name, value in entry.items() if name in names
    ):
        raise ValueError("one of its sessions is malformed")
    try:
        return StoredSession(**{name: entry[name] for name in names if name in entry})
    except TypeError as error:
        raise ValueError("one of its sessions is incomplete") from error
