"""The roots of a session: what is moved, linked or made anew meanwhile leads nowhere else."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from codex_acp.errors import RpcError
from codex_acp.runtime import filesystem
from codex_acp.runtime.filesystem import Roots
from tests.runtime.test_confined_files import read, write

pytestmark = pytest.mark.attack("agent")

TRIES = 500


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory of the session, beside a secret."""
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    return root


def descriptors() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


@pytest.mark.parametrize("swapped", ["file", "directory"])
@pytest.mark.parametrize("writes", [False, True], ids=["read", "written"])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch, swapped: str, writes: bool
) -> None:
    (root / "sub" / "secret.txt").write_text("harmless", encoding="utf-8")
    look = filesystem._target

    def swap(folder: int, name: str) -> str | None:
        found = look(folder, name)
        if swapped == "file" and name == "secret.txt":
            (root / "sub" / "secret.txt").unlink()
            (root / "sub" / "secret.txt").symlink_to(root.parent / "secret.txt")
        elif swapped == "directory" and name == "sub":
            (root / "sub").rename(root / "moved")
            (root / "sub").symlink_to(root.parent)
        return found

    monkeypatch.setattr(filesystem, "_target", swap)
    path = root / "sub" / "secret.txt"
    with pytest.raises(RpcError):
        write(root, path, "changed") if writes else read(root, path)
    assert (root.parent / "secret.txt").read_text(encoding="utf-8") == "secret"


def test_a_root_is_the_directory_that_it_was_when_the_session_began(root: Path) -> None:
    (root / "sub" / "secret.txt").write_text("ours", encoding="utf-8")
    both = Roots([str(root), str(root / "sub")])
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(root.parent)
    assert read(both, root / "sub" / "secret.txt") == "ours"
    write(both, root / "sub" / "secret.txt", "still ours")
    assert (root / "moved" / "secret.txt").read_text(encoding="utf-8") == "still ours"
    assert (root.parent / "secret.txt").read_text(encoding="utf-8") == "secret"


def test_a_root_above_that_is_exchanged_leads_nowhere_else(root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    (elsewhere / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "b.txt").write_text("secret", encoding="utf-8")
    (root / "sub" / "b.txt").write_text("ours", encoding="utf-8")
    inner = Roots([str(root / "sub")])
    root.rename(root.parent / "moved")
    root.symlink_to(elsewhere)
    assert read(inner, root / "sub" / "b.txt") == "ours"


def test_a_root_that_was_made_anew_is_the_new_one_unless_that_is_a_link(root: Path) -> None:
    sub = Roots([str(root / "sub")])
    (root / "sub").rmdir()
    (root / "sub").mkdir()
    write(sub, root / "sub" / "b.txt", "new")
    assert read(sub, root / "sub" / "b.txt") == "new"
    (root / "sub" / "b.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(root.parent)
    with pytest.raises(RpcError):
        read(sub, root / "sub" / "secret.txt")


def test_a_way_that_leaves_a_root_and_comes_back_is_inside(root: Path) -> None:
    (root / "back").symlink_to(f"../{root.name}/a.txt")
    (root / "up").symlink_to("..")
    assert read(root, f"{root}/../{root.name}/a.txt", 1, 1) == "one\n"
    assert read(root, root / "back", 1, 1) == "one\n"
    assert read(root, root / "up" / root.name / "a.txt", 1, 1) == "one\n"
    with pytest.raises(RpcError, match="outside"):
        read(root, root / "up" / "secret.txt")


def test_links_in_a_ring_and_paths_without_end_are_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    for path in (root / "one", f"{root}/{'sub/' * 5000}x", f"{root}{'/..' * 5000}/x"):
        with pytest.raises(RpcError):
            read(root, path)


def test_a_path_outside_behind_many_links_is_refused(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "link0").symlink_to(".")
    for number in range(1500):
        (outside / f"link{number + 1}").symlink_to(f"link{number}")
    with pytest.raises(RpcError, match="outside the directories"):
        read(root, outside / "link1500" / "x")


def test_a_session_without_roots_finds_nothing_and_keeps_no_descriptor(root: Path) -> None:
    before = descriptors()
    both = Roots([str(root), str(root / "none")])
    assert read(both, root / "a.txt", 1, 1) == "one\n"
    both.close()
    assert descriptors() == before
    with pytest.raises(RpcError, match="outside the directories"):
        read(both, root / "a.txt")


def test_an_attacker_who_renames_all_the_time_gets_nothing_from_outside(root: Path) -> None:
    """Directory, link, directory, … in the place of one that is walked through."""
    outside = root.parent / "outside"
    outside.mkdir()
    for folder, text in ((root / "sub", "ours"), (outside, "secret")):
        (folder / "b.txt").write_text(text, encoding="utf-8")
    (root / "link").symlink_to(outside)
    both, stop = Roots([str(root), str(root / "sub")]), threading.Event()

    def attack() -> None:
        for number in itertools.count():
            away = f"away{number}"
            for old, new in (("sub", away), ("link", "sub"), ("sub", "link"), (away, "sub")):
                with suppress(OSError):  # a missing directory was made meanwhile
                    (root / old).rename(root / new)
            if stop.is_set():
                return

    attacker = threading.Thread(target=attack)
    attacker.start()
    inner, found = Roots([str(root)]), set()
    try:
        for _ in range(TRIES):
            for opened in (both, inner):
                with suppress(RpcError):
                    found.add(read(opened, root / "sub" / "b.txt"))
                with suppress(RpcError):
                    write(opened, root / "sub" / "b.txt", "ours")
    finally:
        stop.set()
        attacker.join()
    assert found <= {"ours"}
    assert [path.name for path in outside.iterdir()] == ["b.txt"]
    assert (outside / "b.txt").read_text(encoding="utf-8") == "secret"
