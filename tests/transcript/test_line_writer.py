"""Lines are written by a thread: nobody waits for a descriptor that takes none."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from codex_acp.transcript.writer import MAX_WAITING, LineWriter

WAIT = 30.0
"""Seconds; what is waited for takes none."""

LINE = "x" * 999 + "\n"


class Pipe:
    """A pipe whose reader is in the test's hand, and its writer."""

    def __init__(self, *, blocking: bool = True) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.write_end, blocking)
        self.reasons: list[str] = []
        self.writer = LineWriter(
            self.write_end, str.encode, self.reasons.append, gap=lambda n: f"[{n} missing]\n"
        )

    def drain(self) -> list[str]:
        """All lines until the writer's end is closed."""
        with os.fdopen(self.read_end, "rb", closefd=False) as file:
            return file.read().decode().splitlines()


def missing(lines: list[str]) -> int:
    """How many the lines say are missing."""
    return sum(int(line[1:].split()[0]) for line in lines if line.startswith("["))


@pytest.fixture(params=[True, False], ids=["blocking", "nonblocking"])
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    pipe = Pipe(blocking=request.param)
    yield pipe
    os.close(pipe.read_end)


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_what_is_lost_is_counted(pipe: Pipe) -> None:
    count = 2 * MAX_WAITING // len(LINE)
    for _ in range(count):
        pipe.writer.put(LINE)
    assert not pipe.writer.wait(0)
    assert pipe.writer.lost > 0
    assert pipe.reasons == ["nobody takes them"]
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(pipe.drain()))
    reader.start()
    assert pipe.writer.wait(WAIT)
    lost = pipe.writer.lost
    pipe.writer.put("the next\n")
    assert pipe.writer.close(WAIT)
    os.close(pipe.write_end)
    reader.join(WAIT)
    assert lines.count(LINE.strip()) == count - lost
    assert missing(lines) == lost
    assert lines[-1] == "the next"
    assert pipe.writer.lost == lost


def test_losses_are_told_also_when_no_line_follows(pipe: Pipe) -> None:
    for _ in range(2 * MAX_WAITING // len(LINE)):
        pipe.writer.put(LINE)
    lines: list[str] = []
    with os.fdopen(pipe.read_end, "r", closefd=False) as file:
        while missing(lines) < pipe.writer.lost:  # with no gap told this waits, and fails so
            lines.append(file.readline())
    assert pipe.writer.close(WAIT)
    os.close(pipe.write_end)


def test_closing_does_not_wait_for_one_that_takes_none(pipe: Pipe) -> None:
    for _ in range(200):
        pipe.writer.put(LINE)
    assert not pipe.writer.close(0)
    assert pipe.writer.lost > 0
    pipe.writer.put("late\n")
    reader = threading.Thread(target=pipe.drain, daemon=True)  # ends the writer's thread
    reader.start()
    assert pipe.writer.wait(WAIT)
    os.close(pipe.write_end)
    reader.join(WAIT)


def test_a_full_disk_is_told_once_and_the_count_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch, pipe: Pipe
) -> None:
    def no_space(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        for _ in range(3):
            pipe.writer.put("lost\n")
        assert pipe.writer.wait(WAIT)
    pipe.writer.put("after\n")
    assert pipe.writer.close(WAIT)
    os.close(pipe.write_end)
    assert pipe.reasons == ["No space left on device"]
    assert pipe.writer.lost == 3
    assert pipe.drain() == ["[3 missing]", "after"]


def test_a_line_above_the_bound_is_written_alone(pipe: Pipe) -> None:
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(pipe.drain()))
    reader.start()
    pipe.writer.put("y" * (2 * MAX_WAITING) + "\n")
    assert pipe.writer.close(WAIT)
    os.close(pipe.write_end)
    reader.join(WAIT)
    assert [len(line) for line in lines] == [2 * MAX_WAITING]


def test_a_line_that_cannot_be_encoded_ends_no_other() -> None:
    read_end, write_end = os.pipe()
    reasons: list[str] = []
    writer = LineWriter(write_end, lambda line: line.encode("ascii"), reasons.append)
    writer.put("ü\n")
    writer.put("fine\n")
    assert writer.close(WAIT)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        assert file.read() == b"fine\n"
    assert (reasons, writer.lost) == (["UnicodeEncodeError"], 1)
