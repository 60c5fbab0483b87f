"""A child process as a link: its data, its end, and the end of all it started."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited, TransportError
from codex_acp.transport import child as child_module
from codex_acp.transport import process_table
from codex_acp.transport.child import ChildProcess, Process, spawn
from tests.support.processes import lives

WAIT = 60
"""Seconds; a bound for a busy machine, not an expectation."""


class Events:
    def __init__(self) -> None:
        self.data = b""
        self.order: list[str] = []
        self.ends: list[TransportError | None] = []
        self.closed = asyncio.Event()
        self.lines: list[str] = []
        self.news = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.order.append("data")
        self.news.set()

    def stderr_line(self, line: str) -> None:
        self.lines.append(line)
        self.news.set()

    def link_closed(self, error: TransportError | None) -> None:
        self.ends.append(error)
        self.order.append("end")
        self.closed.set()

    def pause_writing(self) -> None:
        self.order.append("pause")

    def resume_writing(self) -> None:
        self.order.append("resume")

    async def until(self, happened: Callable[[], bool]) -> None:
        with anyio.fail_after(WAIT):
            while not happened():
                await self.news.wait()
                self.news.clear()

    async def until_data(self, text: bytes) -> None:
        await self.until(lambda: text in self.data)

    async def until_stderr(self, line: str) -> None:
        await self.until(lambda: line in self.lines)

    async def until_closed(self) -> TransportError | None:
        with anyio.fail_after(WAIT):
            await self.closed.wait()
        return self.ends[0]


def python(program: str) -> tuple[ChildProcess, Events]:
    events = Events()
    child = spawn(
        [sys.executable, "-c", program], name="the child", on_stderr_line=events.stderr_line
    )
    child.start(events)
    return child, events


def let_it_end(child: ChildProcess) -> None:
    """Wait for the child's end while the loop stands still, so that it sees all of it at once."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


async def closed_in_time(child: ChildProcess) -> float:
    start = time.monotonic()
    with anyio.fail_after(WAIT):
        await child.aclose()
    return time.monotonic() - start


ECHO = """
import os
while data := os.read(0, 65536):
    while data:
        data = data[os.write(1, data):]
"""

SPAWN_GRANDCHILD = """
import subprocess, sys
grandchild = subprocess.Popen(
    [sys.executable, "-c", {program!r}], stdin=subprocess.DEVNULL, stdout={stdout},
    start_new_session={session},
)
"""

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.stderr.write(f"ready {os.getpid()}\\n"); sys.stderr.flush()
time.sleep(600)
"""


async def test_a_child_echoes_and_exits_when_its_stdin_closes() -> None:
    child, events = python(ECHO)
    child.write(b"hello ")
    child.write(b"world")
    await events.until_data(b"hello world")
    assert await closed_in_time(child) < 2
    assert events.ends == [None]
    assert child.returncode == 0
    assert not lives(child.pid)
    await child.aclose()
    assert events.ends == [None]


async def test_megabytes_go_through_with_back_pressure() -> None:
    child, events = python(ECHO)
    sent = os.urandom(2_000_000)
    child.write(sent)
    assert events.order == ["pause"]
    await events.until(lambda: len(events.data) >= len(sent))
    assert events.data == sent
    assert "resume" in events.order
    await child.aclose()


async def test_a_child_that_dies_at_start_tells_its_status_and_last_words() -> None:
    child, events = python(
        "import sys; print('out'); sys.stderr.write('no\\xff luck'); sys.exit(3)"
    )
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert (error.command, error.returncode) == ("the child", 3)
    assert "luck" in error.stderr_tail
    assert events.data == b"out\n"
    assert events.order[-1] == "end"
    await child.aclose()
    assert len(events.ends) == 1


async def test_a_child_killed_by_a_signal_has_a_negative_status() -> None:
    child, events = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert error.returncode == -signal.SIGKILL
    await child.aclose()


async def test_all_output_comes_before_the_end() -> None:
    child, events = python("import os; os.write(1, b'x' * 60000); os._exit(0)")
    child.pause_reading()
    with anyio.move_on_after(0.4):
        await events.closed.wait()
    assert events.order == []
    child.resume_reading()
    assert isinstance(await events.until_closed(), ProcessExited)
    assert len(events.data) == 60000
    await child.aclose()


async def test_a_flood_on_stderr_blocks_nobody() -> None:
    child, events = python(
        """
import os, sys, threading
def flood():
    for number in range(10 * 1024):
        sys.stderr.write("x" * 1016 + f"{number:7}\\n")
threading.Thread(target=flood).start()
"""
        + ECHO
    )
    for number in range(20):
        child.write(b"<%d>" % number)
        await events.until_data(b"<%d>" % number)
    await events.until(lambda: len(events.lines) == 10 * 1024)
    assert events.lines[-1].endswith(" 10239")
    assert len(child.stderr_tail) <= 8192
    assert child.stderr_tail.endswith(" 10239")
    await child.aclose()


async def test_a_child_that_ignores_everything_is_killed() -> None:
    child, events = python("import sys; print('up', flush=True)" + STUBBORN)
    await events.until_data(b"up")
    await events.until_stderr(f"ready {child.pid}")
    assert await closed_in_time(child) < 2
    assert not lives(child.pid)
    assert child.returncode == -signal.SIGKILL
    assert events.ends == [None]


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("parent", ["exits at the end of stdin", "ignores all"])
async def test_a_stubborn_grandchild_is_dead_after_closing(session: bool, parent: str) -> None:
    program = SPAWN_GRANDCHILD.format(
        program=STUBBORN, session=session, stdout="subprocess.DEVNULL"
    )
    program += "print(grandchild.pid, flush=True)\n"
    program += ECHO if parent.startswith("exits") else STUBBORN
    child, events = python(program)
    await events.until_data(b"\n")
    grandchild = int(events.data)
    await events.until_stderr(f"ready {grandchild}")
    assert lives(grandchild)
    assert await closed_in_time(child) < 2
    assert not lives(grandchild)
    assert not lives(child.pid)


async def test_a_stubborn_grandchild_is_dead_after_closing_though_ps_is_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_table, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(process_table, "_PS_SECONDS", 0.0)
    program = SPAWN_GRANDCHILD.format(program=STUBBORN, session=False, stdout="subprocess.DEVNULL")
    child, events = python(program + "print(grandchild.pid, flush=True)\n" + ECHO)
    await events.until_data(b"\n")
    grandchild = int(events.data)
    await events.until_stderr(f"ready {grandchild}")
    await closed_in_time(child)
    assert not lives(grandchild)


async def test_what_a_crashed_child_leaves_in_its_group_is_dead_after_closing() -> None:
    program = SPAWN_GRANDCHILD.format(program=STUBBORN, session=False, stdout="subprocess.DEVNULL")
    child, events = python(program + "print(grandchild.pid, flush=True)\nimport os; os._exit(1)")
    assert isinstance(await events.until_closed(), ProcessExited)
    grandchild = int(events.data)
    assert lives(grandchild)
    assert await closed_in_time(child) < 2
    assert not lives(grandchild)


async def test_a_grandchild_that_holds_stdout_does_not_hide_the_end() -> None:
    program = SPAWN_GRANDCHILD.format(program=STUBBORN, session=False, stdout="None")
    child, events = python(program + "print('last words', flush=True)\nimport os; os._exit(4)")
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert error.returncode == 4
    assert events.data == b"last words\n"
    await child.aclose()
    assert len(events.ends) == 1


WRITES_MUCH = """
import fcntl, os
fcntl.fcntl({number}, fcntl.F_SETPIPE_SZ, 1024 * 1024)
os.write({number}, b"x" * 300_000 + b"\\nthe last words")
"""
"""More than one read takes, all of it in the pipe when the child ends."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of a chosen size")
async def test_all_that_a_pipe_holds_comes_before_the_end_that_is_told_in_the_same_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_module, "END_GRACE_SECONDS", 0.0)
    program = SPAWN_GRANDCHILD.format(program=STUBBORN, session=False, stdout="None")
    child, events = python(program + WRITES_MUCH.format(number=1) + "os._exit(4)")
    child.pause_reading()
    let_it_end(child)
    child.resume_reading()
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert len(events.data) == 300_015
    assert events.data.endswith(b"the last words")
    await child.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of a chosen size")
async def test_the_last_words_on_stderr_are_told_however_much_came_before_them() -> None:
    child, events = python(WRITES_MUCH.format(number=2) + "os._exit(4)")
    let_it_end(child)
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert error.stderr_tail.endswith("the last words")
    await child.aclose()


@pytest.mark.parametrize("stream", ["stdout", "stdin"])
async def test_a_child_that_closes_a_stream_but_lives_is_a_closed_connection(stream: str) -> None:
    number = 1 if stream == "stdout" else 0
    program = f"import os, time; os.close({number}); os.write(2, b'closed\\n'); time.sleep(600)"
    child, events = python(program)
    await events.until_stderr("closed")
    child.write(b"x")
    error = await events.until_closed()
    assert isinstance(error, ConnectionClosed)
    assert f"closed its {stream}" in str(error)
    assert lives(child.pid)
    assert await closed_in_time(child) < 2
    assert not lives(child.pid)


async def test_cancelling_does_not_cut_the_shutdown_short() -> None:
    child, events = python("print('up', flush=True)" + STUBBORN)
    await events.until_data(b"up")
    with anyio.move_on_after(0.02) as scope:
        await child.aclose()
    assert not lives(child.pid)
    assert events.ends == [None]
    assert scope.cancel_called

    child, events = python("print('up', flush=True)" + STUBBORN)
    await events.until_data(b"up")
    task = asyncio.create_task(child.aclose())
    await asyncio.sleep(0)
    task.cancel()
    with anyio.fail_after(WAIT), pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(child.pid)


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    taken = [os.dup(0)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


async def test_a_child_is_dead_after_closing_in_a_process_without_a_free_descriptor() -> None:
    child, events = python("print('up', flush=True)" + STUBBORN)
    await events.until_data(b"up")
    with no_free_descriptor():
        await closed_in_time(child)
    assert not lives(child.pid)


async def test_a_child_never_started_as_a_link_can_be_closed() -> None:
    child = spawn([sys.executable, "-c", "print('x' * 1000000)\n" + STUBBORN])
    assert await closed_in_time(child) < 2
    assert not lives(child.pid)


async def test_the_last_resort_needs_no_loop_and_closing_afterwards_is_quick() -> None:
    child, events = python(
        SPAWN_GRANDCHILD.format(program=STUBBORN, session=True, stdout="subprocess.DEVNULL")
        + "print(grandchild.pid, flush=True)"
        + STUBBORN
    )
    await events.until_data(b"\n")
    grandchild = int(events.data)
    child.kill_tree()
    child.kill_tree()
    assert not lives(child.pid)
    assert not lives(grandchild)
    await child.aclose()
    assert events.ends == [None]


async def test_without_pidfd_a_thread_notices_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "open_pidfd", lambda _pid: None)
    child, events = python("import sys; sys.exit(5)")
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert error.returncode == 5
    await child.aclose()


async def test_without_waitid_the_status_is_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "open_pidfd", lambda _pid: None)
    monkeypatch.delattr(os, "waitid")
    program = SPAWN_GRANDCHILD.format(program=STUBBORN, session=False, stdout="subprocess.DEVNULL")
    child, events = python(program + "print(grandchild.pid, flush=True)\nimport os; os._exit(6)")
    error = await events.until_closed()
    assert isinstance(error, ProcessExited)
    assert error.returncode == 6
    grandchild = int(events.data)
    assert await closed_in_time(child) < 2
    assert not lives(grandchild)


def test_a_program_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn([str(tmp_path / "nothing")])


async def test_environment_and_directory_are_the_given_ones(tmp_path: Path) -> None:
    program = "import os; print(os.getcwd(), os.environ['NOTE'], 'HOME' in os.environ)"
    child = spawn([sys.executable, "-c", program], {"NOTE": "here"}, tmp_path)
    events = Events()
    child.start(events)
    await events.until_closed()
    assert events.data.decode().split() == [str(tmp_path), "here", "False"]
    with pytest.raises(MisuseError):
        child.start(events)
    await child.aclose()


def test_spawning_imports_nothing_heavy() -> None:
    program = """
import sys
from codex_acp.transport.child import spawn
heavy = {"asyncio", "anyio", "pydantic", "pydantic_core", "logging", "json", "typing"}
child = spawn([sys.executable, "-c", ""])
print(sorted(heavy & set(sys.modules)))
child.kill_tree()
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        timeout=30,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == b"[]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a pipe still holds")
@pytest.mark.parametrize(("reads", "all_taken"), [("read a", False), ("read a; read b", True)])
async def test_how_much_it_had_read_when_it_ended_is_known(reads: str, all_taken: bool) -> None:
    events = Events()
    child = spawn(["/bin/sh", "-c", f"{reads}; exit 3"])
    try:
        child.start(events)
        assert child.taken is None
        child.write(b"on")
        first = child.offered + 2
        child.write(b"e\ntwo\n")
        await events.until_closed()
        assert child.offered == first + 4
        assert child.taken == (child.offered if all_taken else first)
    finally:
        await child.aclose()


def again(program: str, folder: Path) -> tuple[ChildProcess, Events]:
    """A child that is started once more; each start leaves a file, ``first`` says which it is."""
    before = (
        "import os, sys, time\n"
        f"first = not os.listdir({str(folder)!r})\n"
        f"open(os.path.join({str(folder)!r}, str(os.getpid())), 'x')\n"
    )
    events = Events()
    child = spawn(
        [sys.executable, "-c", before + program],
        name="the child",
        on_stderr_line=events.stderr_line,
        once_more=True,
    )
    return child, events


def starts(folder: Path) -> int:
    """How often such a child was started."""
    return len(list(folder.iterdir()))


ENDS_FIRST = "if first: sys.exit('locked')\nprint(sys.stdin.readline(), flush=True)\ntime.sleep(60)"


@pytest.mark.parametrize("early", [True, False])
async def test_a_child_that_ends_without_a_word_is_started_once_more_and_given_the_same(
    tmp_path: Path, early: bool
) -> None:
    child, events = again(ENDS_FIRST, tmp_path)
    first = child.pid
    if not (early and child.write_early(b"begin\n")):
        early = False
    child.start(events)
    if not early:
        child.write(b"begin\n")
    await events.until_data(b"begin")
    assert (events.ends, child.pid != first, child.returncode) == ([], True, None)
    assert (child.offered, child.stderr_tail) == (6, "")
    os.kill(child.pid, signal.SIGKILL)
    end = await events.until_closed()
    assert isinstance(end, ProcessExited)
    assert (len(events.ends), starts(tmp_path)) == (1, 2), "and no third time"
    await child.aclose()


async def test_a_child_that_never_says_a_word_is_started_twice_and_its_end_is_told_once(
    tmp_path: Path,
) -> None:
    child, events = again("sys.exit('broken')", tmp_path)
    child.start(events)
    child.write(b"begin\n")
    end = await events.until_closed()
    assert isinstance(end, ProcessExited)
    assert str(end).count("broken") == 1
    assert starts(tmp_path) == 2
    await child.aclose()
    assert len(events.ends) == 1


async def test_a_child_that_cannot_be_started_again_is_told_as_it_ended(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nrm {program}\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    events = Events()
    child = spawn([str(program)], once_more=True)
    child.start(events)
    end = await events.until_closed()
    assert isinstance(end, ProcessExited)
    assert (end.returncode, "broken" in str(end)) == (3, True)
    await child.aclose()


@pytest.mark.parametrize("killed", [True, False])
async def test_a_child_that_is_ended_before_its_second_start_is_not_started(
    tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "AGAIN_SECONDS", 3600.0)
    child, events = again("sys.exit('broken')", tmp_path)
    child.start(events)
    with anyio.fail_after(WAIT):
        while not child._restarting:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    if killed:
        child.kill_tree()
        child._start_once_more(_never)
    await child.aclose()
    assert child._timer is None
    assert (len(events.ends), starts(tmp_path)) == (1, 1)


def _never() -> Process:
    raise AssertionError("it was started")
