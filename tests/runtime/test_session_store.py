"""The session store: what is put is there, for every process, and nothing is lost in silence."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from codex_acp.runtime import SessionStore, StoredSession, StoreError, session_store

WAIT = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sessions.json"


def test_what_was_put_is_found_by_its_key_and_by_another_store(path: Path) -> None:
    put = SessionStore(path).put(StoredSession("codex", "id-1", "/w", key="chat", title="T⟦"))
    found = SessionStore(path).find("codex", "chat")
    assert found == put
    assert found is not None
    assert found.created_at == found.updated_at != ""
    assert SessionStore(path).find("claude", "chat") is None
    assert SessionStore(path).find("codex", "other") is None


def test_a_store_without_a_file_is_empty_and_makes_none(path: Path) -> None:
    assert SessionStore(path).all() == []
    assert not path.parent.exists()


def test_putting_again_replaces_and_keeps_the_first_time(path: Path) -> None:
    store = SessionStore(path)
    first = store.put(StoredSession("codex", "id", "/w", title="old"))
    again = store.put(StoredSession("codex", "id", "/w", title="new"))
    assert store.all() == [again]
    assert again.created_at == first.created_at
    assert again.updated_at > first.updated_at


def test_a_key_finds_one_session_the_last_that_had_it(path: Path) -> None:
    store = SessionStore(path)
    store.put(StoredSession("codex", "old", "/w", key="chat"))
    store.put(StoredSession("codex", "new", "/w", key="chat"))
    found = store.find("codex", "chat")
    assert found is not None
    assert found.session_id == "new"
    assert {record.session_id: record.key for record in store.all()} == {"old": None, "new": "chat"}


def test_touching_changes_title_and_time_of_what_is_there_and_adds_nothing(path: Path) -> None:
    store = SessionStore(path)
    put = store.put(StoredSession("codex", "id", "/w", key="chat"))
    store.touch("codex", "id", "A title")
    store.touch("codex", "unknown", "A title")
    (record,) = store.all()
    assert (record.title, record.key) == ("A title", "chat")
    assert record.updated_at > put.updated_at
    store.touch("codex", "id", None)
    assert store.all()[0].title == "A title"


def test_removing_is_idempotent(path: Path) -> None:
    store = SessionStore(path)
    store.put(StoredSession("codex", "id", "/w"))
    store.remove("codex", "id")
    store.remove("codex", "id")
    assert store.all() == []


def test_the_file_is_private_and_says_its_version(path: Path) -> None:
    SessionStore(path).put(StoredSession("codex", "id", "/w"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["version"] == 1
    assert sorted(p.name for p in path.parent.iterdir()) == ["sessions.json", "sessions.json.lock"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        pytest.param(b"[" * 100_000, id="deep"),
        b"{}",
        b'{"version": "1", "sessions": []}',
        b'{"version": 1}',
        b'{"version": 0, "sessions": []}',
        b'{"version": 1, "sessions": [7]}',
        b'{"version": 1, "sessions": [{"agent": "a"}]}',
        b'{"version": 1, "sessions": [{"agent": 1, "session_id": "s", "cwd": "/"}]}',
    ],
)
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_file_that_is_no_store_is_moved_aside_with_the_reason(
    path: Path, content: bytes, use: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    store = SessionStore(path)
    record = StoredSession("codex", "id", "/w")
    if use == "write":
        store.put(record)
        assert [found.session_id for found in store.all()] == ["id"]
    else:
        assert store.all() == []
        assert not path.exists()
    ((aside, why),) = store.set_aside
    assert aside.read_bytes() == content
    assert why
    assert str(aside) in caplog.text


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    newer = b'{"version": 2, "sessions": "otherwise"}'
    path.write_bytes(newer)
    store = SessionStore(path)
    with pytest.raises(StoreError, match="version 2; update"):
        store.all()
    with pytest.raises(StoreError, match="version 2; update"):
        store.put(StoredSession("codex", "id", "/w"))
    assert path.read_bytes() == newer
    assert store.set_aside == []


def test_fields_of_a_record_that_are_not_known_do_no_harm(path: Path) -> None:
    path.parent.mkdir()
    entry = {"agent": "a", "session_id": "s", "cwd": "/", "more": [1]}
    path.write_text(json.dumps({"version": 1, "sessions": [entry]}))
    assert SessionStore(path).all() == [StoredSession("a", "s", "/")]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(path)
    put = store.put(StoredSession("codex", "id", "/w"))

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put(StoredSession("codex", "other", "/w"))
    monkeypatch.undo()
    assert store.all() == [put]
    assert sorted(p.name for p in path.parent.iterdir()) == ["sessions.json", "sessions.json.lock"]


def test_a_place_that_cannot_be_written_or_read_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        SessionStore(tmp_path / "file" / "store").put(StoredSession("a", "s", "/"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        SessionStore(tmp_path / "folder").all()


def test_a_lock_that_is_never_given_back_is_a_typed_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_store, "LOCK_SECONDS", 0.02)
    store = SessionStore(path)
    path.parent.mkdir()
    with store._locked(), pytest.raises(StoreError, match="another process holds"):
        SessionStore(path).put(StoredSession("a", "s", "/"))


WRITER = """
import sys
from codex_acp.runtime import SessionStore, StoredSession
store = SessionStore(sys.argv[1])
for number in range(20):
    store.put(StoredSession("codex", f"{sys.argv[2]}-{number}", "/w"))
"""


def test_processes_that_write_at_the_same_time_lose_nothing(path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(name)]) for name in range(3)
    ]
    assert [writer.wait(WAIT) for writer in writers] == [0, 0, 0]
    found = {record.session_id for record in SessionStore(path).all()}
    assert found == {f"{name}-{number}" for name in range(3) for number in range(20)}
