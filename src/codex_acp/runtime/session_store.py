"""Store records of sessions in a file, so that a program finds them again after a restart.

Owns the file: its format and version, its lock, its atomic replacement. Must not know sessions
beyond their records. Several processes may use one file.
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

from codex_acp._files import absolute, sync_folder
from codex_acp._json import without_none
from codex_acp.errors import MisuseError, refuse_unless
from codex_acp.runtime.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

VERSION: Final = 1
"""Version of the file's format."""

LOCK_SECONDS: Final = 10.0
"""Seconds to wait for the lock, which a process keeps for milliseconds unless it hangs."""

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

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            is_text = isinstance(value, str) or (value is None and name in ("key", "title"))
            refuse_unless(is_text, f"{name} is a text", value)


class SessionStore:
    """The records in ``path``, a JSON file; the first `put` makes it and its directory.

    Each method reads the small file again, which blocks. Any thread or process may call the
    methods. A file that is no valid store is moved to another name, logged, and listed in
    `set_aside`. A file of a newer version stays, and raises StoreError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(absolute("the path of a session store", path))
        self.set_aside: list[tuple[Path, str]] = []
        """New path and problem of each file that could not be read."""

    def __repr__(self) -> str:
        return f"SessionStore({str(self.path)!r})"

    def all(self) -> list[StoredSession]:
        """Return all records, the last used first."""
        return sorted(self._read(), key=lambda record: record.updated_at, reverse=True)

    def find(self, agent: str, key: str) -> StoredSession | None:
        """Return the last used record of an agent with a key, or None."""
        return next((r for r in self.all() if r.agent == agent and r.key == key), None)

    def put(self, record: StoredSession) -> StoredSession:
        """Add a record, or replace the record of the same agent and session id. Return the record
        with its times set. If another session has the key, that session loses the key."""
        now = datetime.now(UTC).isoformat()
        with self._records_to_change() as records:
            old = next((r for r in records if _id_of(r) == _id_of(record)), None)
            created = record.created_at or (old.created_at if old else "") or now
            record = replace(record, created_at=created, updated_at=now)
            rest = [r for r in records if _id_of(r) != _id_of(record)]
            if record.key is not None:
                pair = (record.agent, record.key)
                rest = [replace(r, key=None) if (r.agent, r.key) == pair else r for r in rest]
            records[:] = [*rest, record]
        return record

    def touch(self, agent: str, session_id: str, title: str | None) -> None:
        """Set the time of the last use to now, and the title, if there is a record."""
        now = datetime.now(UTC).isoformat()
        with self._records_to_change() as records:
            for number, record in enumerate(records):
                if _id_of(record) == (agent, session_id):
                    new_title = title or record.title
                    records[number] = replace(record, title=new_title, updated_at=now)

    def remove(self, agent: str, session_id: str) -> None:
        """Remove a record; no error if there is none."""
        with self._records_to_change() as records:
            records[:] = [r for r in records if _id_of(r) != (agent, session_id)]

    @contextmanager
    def _records_to_change(self) -> Iterator[list[StoredSession]]:
        """Yield the list of records, and write the list after the block."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                records = self._read(locked=True)
                yield records
                self._write(records)
        except OSError as error:
            msg = f"the session store {self.path} cannot be written: {error.strerror or error}"
            raise StoreError(msg) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the store within the block, by a second file, because a write replaces the first."""
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
        """Return the records. ``locked``: the caller has the lock, and an invalid file may move."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"the session store {self.path} cannot be read: {error.strerror or error}"
            raise StoreError(msg) from error
        try:
            return _parse_records(data, self.path)
        except ValueError as error:
            if locked:
                self._move_aside(str(error))
                return []
            # Read again with the lock: another process may have moved the file.
            with self._locked():
                return self._read(locked=True)

    def _move_aside(self, why: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        self.path.replace(aside)
        self.set_aside.append((aside, why))
        logger.warning("%s is no session store (%s); it was moved to %s", self.path, why, aside)

    def _write(self, records: list[StoredSession]) -> None:
        sessions = [without_none(asdict(record)) for record in records]
        content = {"version": VERSION, "sessions": sessions}
        data = json.dumps(content, indent=1).encode()
        fd, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
        sync_folder(self.path.parent)


def _id_of(record: StoredSession) -> tuple[str, str]:
    return record.agent, record.session_id


def _parse_records(data: bytes, path: Path) -> list[StoredSession]:
    """Return the records in a file. Raises ValueError, or StoreError for a newer version."""
    try:
        content: Any = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    version = content.get("version") if isinstance(content, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("it has no version")
    if version > VERSION:
        msg = f"the session store {path} has version {version}; update codex-acp-sdk to use it"
        raise StoreError(msg)
    entries = content.get("sessions")
    if version < 1 or not isinstance(entries, list):
        raise ValueError("it has no list of sessions")
    return [_parse_record(entry) for entry in entries]


def _parse_record(entry: Any) -> StoredSession:
    names = StoredSession.__dataclass_fields__.keys()
    if not isinstance(entry, dict):
        raise ValueError("one of its sessions is malformed")
    try:
        return StoredSession(**{name: entry[name] for name in names & entry.keys()})
    except MisuseError as error:
        raise ValueError(f"one of its sessions is malformed: {error}") from error
    except TypeError as error:
        raise ValueError("one of its sessions is incomplete") from error
