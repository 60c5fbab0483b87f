"""Files that are shown or sent: regular ones, within bounds, without waiting for anybody."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from codex_acp.adapter.sessions import shown_thread
from codex_acp.adapter.sessions.prompt_message import read_files
from codex_acp.adapter.sessions.shown_thread import look_at_files


def read(paths: Iterable[str]) -> dict[str, str]:
    """The texts of those that have one."""
    looks = look_at_files(dict.fromkeys(paths, True), {})
    return {path: look.text for path, look in looks.items() if look.text is not None}


@pytest.fixture
def odd(tmp_path: Path) -> list[str]:
    """What is no regular file, or cannot be read."""
    fifo, folder, loop = tmp_path / "fifo", tmp_path / "folder", tmp_path / "loop"
    os.mkfifo(fifo)
    folder.mkdir()
    loop.symlink_to(loop)
    return [str(fifo), str(folder), str(loop), str(tmp_path / "none"), "/dev/zero", "a\0b", ""]


async def test_what_is_no_regular_file_is_left_out(odd: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"text")

    assert read([*odd, str(file)]) == {str(file): "text"}
    assert await read_files([*odd, str(file)], 10) == {str(file): b"text"}


@pytest.mark.attack("model")
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_no_text_is_read_that_the_kernel_makes_up(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/proc/self")
    assert read(["/proc/self/environ", f"{link}/environ"]) == {}


async def test_a_file_that_is_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_thread, "TEXT_LIMIT", 4)
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"1234")
    large.write_bytes(b"12345")
    both = [str(large), str(small)]

    assert read(both) == {str(small): "1234"}
    assert await read_files(both, 4) == {str(small): b"1234"}


@pytest.mark.parametrize("text", ["12345", "ÄÖ5"], ids=["ascii", "more bytes than characters"])
def test_all_files_of_a_step_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(shown_thread, "STEP_LIMIT", 10)
    paths = []
    for name in "abc":
        (tmp_path / name).write_text(text, encoding="utf-8")
        paths.append(str(tmp_path / name))

    assert list(read(paths)) == paths[:2]


def test_bytes_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")

    assert read([str(binary)]) == {}


def test_a_text_is_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    assert read([str(file)]) == {str(file): "one"}
    file.write_text("other")
    assert read([str(file)]) == {str(file): "other"}
    file.unlink()
    assert read([str(file)]) == {}


def test_3_8_a_text_is_read_again_whatever_time_a_program_gave_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("harmless")
    found = file.stat()
    assert read([str(file)]) == {str(file): "harmless"}
    file.write_text("harmful!")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert read([str(file)]) == {str(file): "harmful!"}


def test_a_text_keeps_its_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\r\nb\rc\n")

    assert read([str(file)]) == {str(file): "a\r\nb\rc\n"}
