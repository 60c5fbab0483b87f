"""A look at paths: where they really lead, what is there, and why that may not be known."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from codex_acp.codex.approvals.real_paths import look_at
from codex_acp.codex.approvals.running_items import PathLook


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """``w/docs`` leads to ``out``, which has a file."""
    (tmp_path / "w" / "sub").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("text")
    (tmp_path / "w" / "docs").symlink_to("../out")
    return tmp_path.resolve()


def look(path: Path | str, *roots: Path) -> PathLook:
    return look_at([str(path)], {str(root): os.path.realpath(root) for root in roots})[str(path)]


def test_a_path_without_links_is_where_its_name_says(place: Path) -> None:
    file = str(place / "out" / "file")
    assert look(file) == PathLook(file, file, file, exists=True, size=4)


@pytest.mark.parametrize("name", ["docs/file", "docs/none", "docs/none/at/all", "docs/", "docs/."])
def test_a_link_on_the_way_is_followed_whether_anything_is_there_or_not(
    place: Path, name: str
) -> None:
    found = look(f"{place}/w/{name}")
    real = os.path.normpath(f"{place}/out/{name.removeprefix('docs/')}")
    assert found.real == real
    assert found.named == os.path.normpath(f"{place}/w/{name}")
    assert found.exists is Path(real).exists()


def test_a_link_itself_is_told_from_what_it_leads_to(place: Path) -> None:
    link = place / "out" / "link"
    link.symlink_to(place / "w" / "sub")
    found = look(place / "w" / "docs" / "link")
    assert (found.place, found.real) == (str(link), str(place / "w" / "sub"))


def test_a_link_to_nothing_leads_there(place: Path) -> None:
    (place / "w" / "dangling").symlink_to(place / "out" / "none")
    found = look(place / "w" / "dangling")
    assert (found.real, found.exists, found.problem) == (str(place / "out" / "none"), False, "")


def test_the_link_to_the_directory_that_was_opened_is_known(place: Path) -> None:
    opened = place / "opened"
    opened.symlink_to(place / "w")
    inside, outside = look(opened / "sub" / "x", opened), look(opened / "docs" / "file", opened)
    assert inside.real == inside.named == str(place / "w" / "sub" / "x")
    assert (outside.named, outside.real) == (
        str(place / "w" / "docs" / "file"),
        str(place / "out" / "file"),
    )
    beside = look(f"{opened}2/x", opened)
    assert beside.named == f"{opened}2/x", "a directory whose name only begins alike is another"


@pytest.mark.attack("repository")
def test_the_directory_that_was_opened_is_no_longer_known_once_it_leads_elsewhere(
    place: Path,
) -> None:
    opened = place / "opened"
    opened.symlink_to(place / "w")
    roots = {str(opened): str(place / "w")}
    opened.unlink()
    opened.symlink_to(place / "out")
    inside = look_at([f"{opened}/x"], roots)[f"{opened}/x"]
    assert (inside.named, inside.real) == (str(place / "w" / "x"), str(place / "out" / "x"))


@pytest.mark.parametrize("below", ["", "/x", "/x/y"])
def test_a_circle_of_links_is_named_as_that(place: Path, below: str) -> None:
    one, other = place / "one", place / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    assert look(f"{one}{below}").problem == "its links lead in a circle or are too many"


@pytest.mark.attack("model")
def test_a_path_behind_more_links_than_the_system_follows_hides_no_other_path(place: Path) -> None:
    (place / "link0").symlink_to("out")
    for number in range(1500):  # Python's own `realpath` raises RecursionError at a thousand
        (place / f"link{number + 1}").symlink_to(f"link{number}")
    paths = [f"{place}/link1500/x", f"{place}/w/docs/file"]
    many, other = look_at(paths).values()
    assert many.problem == "its links lead in a circle or are too many"
    assert (other.real, other.exists) == (f"{place}/out/file", True)


@pytest.mark.attack("model")
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/cwd/x", "/proc/self/environ", "/proc/thread-self/cwd", "/proc", "/dev/fd/3",
        "/dev/stdin", "/dev/../proc/self/cwd/x", "here/x", "here", "up/proc/self/environ",
    ],
)  # fmt: skip
def test_where_a_path_leads_that_each_process_sees_otherwise_is_not_known(
    place: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "here").symlink_to("/proc/self/cwd")
    (place / "up").symlink_to("/")
    monkeypatch.chdir(place)
    found = look(place / path)
    assert found == PathLook(problem=found.problem, per_process=True)
    assert "which differs between processes" in found.problem


@pytest.mark.attack("model")
@pytest.mark.skipif(sys.platform == "darwin", reason="each name is UTF-8 there")
@pytest.mark.parametrize("below", ["", "/there", "/none"])
def test_a_path_that_leads_to_a_name_that_no_json_can_have_is_not_known(
    place: Path, below: str
) -> None:
    odd = place / "d\udce9"
    odd.mkdir()
    (odd / "there").touch()
    (place / "link").symlink_to(odd)
    assert look(f"{place}/link{below}").problem.endswith("its name is not UTF-8")


@pytest.mark.parametrize("path", ["", "relative/file", "/a\0b", "/" + "x" * 5000])
def test_what_is_no_path_is_said_not_to_be_known(path: str) -> None:
    assert "could not be found out" in look(path).problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every directory")
def test_what_may_not_be_looked_into_is_said_not_to_be_known(place: Path) -> None:
    (place / "out").chmod(0)
    try:
        assert "could not be found out: Permission denied" in look(place / "w/docs/file").problem
    finally:
        (place / "out").chmod(0o700)
