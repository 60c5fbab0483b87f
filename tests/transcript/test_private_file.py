"""A log or transcript is opened for its owner alone, and never where others have put something."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from codex_acp._files import open_private

NOBODY = 65534


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder in which everybody may write; in one as ``/tmp`` some systems help against it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what stands there somebody else's."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


def write(path: Path, *, tighten: bool = False) -> None:
    file = open_private(path, tighten=tighten)
    try:
        assert not os.get_inheritable(file)
        os.write(file, b"x")
    finally:
        os.close(file)


def test_a_new_file_is_ours_alone_whatever_the_umask(shared: Path) -> None:
    before = os.umask(0)
    try:
        write(shared / "log")
    finally:
        os.umask(before)
    assert stat.S_IMODE((shared / "log").stat().st_mode) == 0o600


@pytest.mark.parametrize(("tighten", "mode"), [(True, 0o600), (False, 0o644)])
def test_an_existing_file_of_ours_is_tightened_where_that_is_wanted(
    tmp_path: Path, tighten: bool, mode: int
) -> None:
    path = tmp_path / "log"
    path.touch()
    path.chmod(0o644)
    write(path, tighten=tighten)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_of_others_is_not_written_where_they_may_put_one(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / "log"
    path.touch()
    path.chmod(0o666)
    give_away(path, monkeypatch)
    with pytest.raises(PermissionError, match="not yours"):
        write(path)
    assert path.read_bytes() == b""


def test_a_link_of_others_is_not_followed_where_they_may_put_one(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"mine")
    path = shared / "log"
    path.symlink_to(target)
    give_away(path, monkeypatch)
    with pytest.raises(PermissionError, match="not yours"):
        write(path)
    assert target.read_bytes() == b"mine"


def test_a_second_name_of_our_own_file_is_not_written_there(shared: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"mine")
    (shared / "log").hardlink_to(target)
    with pytest.raises(PermissionError, match="not yours"):
        write(shared / "log")
    assert target.read_bytes() == b"mine"


def test_our_own_links_are_followed_but_not_in_a_circle(shared: Path, tmp_path: Path) -> None:
    (shared / "log").symlink_to("other")
    (shared / "other").symlink_to(tmp_path / "log")
    write(shared / "log")
    assert (tmp_path / "log").read_bytes() == b"x"
    (shared / "a").symlink_to("b")
    (shared / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write(shared / "a")
