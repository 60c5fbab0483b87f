"""A child process as a link: its stdin and stdout are the stream, its stderr is kept.

POSIX only (Linux, macOS). Importing this module and calling `spawn` load nothing but a few
modules of the standard library, so that the child boots while this program still imports.
``subprocess`` takes longer to import than Codex to be spawned: it is used where ``posix_spawn``
cannot do what is asked. Must not know what the child is.
"""

from __future__ import annotations

import os
import time

from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited, TransportError
from codex_acp.transport.descriptors import (
    DescriptorReader,
    DescriptorWriter,
    ignore,
    unread_bytes,
)
from codex_acp.transport.process_table import ExitWatch
from codex_acp.transport.process_tree import ProcessTree, new_mark, with_mark

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task, TimerHandle
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    from codex_acp.transport.link import Receiver

END_GRACE_SECONDS = 0.2
"""Between the exit and the end of stdout, in either order: a grandchild may hold stdout open."""

EXIT_SECONDS = 0.2
"""For a child to exit by itself once its stdin is closed; Codex takes about 100 ms."""

FINAL_READ_LIMIT = 1024 * 1024
"""Bytes read at the very end: the largest pipe, so that all the child wrote is delivered while a
grandchild that keeps writing cannot hold this side up."""

AGAIN_SECONDS = 0.3
"""Before a process that ended without a word is started once more. Of two Codex that make the
databases of a new CODEX_HOME at once, one ends; the other has made them by then."""

COLLECT_SECONDS = 0.02
"""For the kernel to give the status of a process that was killed."""


class Process:
    """A process that was started, with unbuffered pipes; ``mark`` is in its environment."""

    def __init__(
        self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], mark: str
    ) -> None:
        self.pid = pid
        self.mark = mark
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        """Exit status, negative for a signal; None while it is not collected, or if another did."""
        self._gone = False

    def poll(self) -> int | None:
        """Collect its exit status from the kernel if it has ended."""
        self._collect(os.WNOHANG)
        return self.returncode

    def wait(self, seconds: float | None = None) -> bool:
        """Collect its exit status when it ends; False if it has not within ``seconds``."""
        if seconds is None:
            self._collect(0)
            return True
        deadline = time.monotonic() + seconds
        while True:
            self._collect(os.WNOHANG)
            if self._gone or time.monotonic() >= deadline:
                return self._gone
            time.sleep(POLL_SECONDS)

    def _collect(self, options: int) -> None:
        if self._gone:
            return
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # somebody else has collected it
            self._gone = True
        else:
            if pid == 0:
                return
            self._gone = True
            self.returncode = os.waitstatus_to_exitcode(status)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    on_stderr_line: Callable[[str], None] | None = None,
    exit_seconds: float = EXIT_SECONDS,
    once_more: bool = False,
) -> ChildProcess:
    """Start a process in a session of its own; synchronous, before any event loop.

    ``env`` None means this process's own; ``name`` stands for it in messages, by default the
    file name of ``argv[0]`` (arguments may hold secrets). ``on_stderr_line`` is called on the
    loop with each line of its stderr. ``exit_seconds`` is what it is given to exit by itself when
    its stdin is closed. ``once_more``: if it ends before it has written anything to stdout, it is
    started a second time, and is given what was written to the first one.
    Raises OSError if it cannot be started.
    """

    def start() -> Process:
        return start_process(argv, env, cwd)

    process = start()
    shown = os.path.basename(argv[0]) if name is None else name  # noqa: PTH119 - no pathlib here
    return ChildProcess(process, shown, on_stderr_line, exit_seconds, start if once_more else None)


class ChildProcess:
    """A running child as a `Link`; made by `spawn`. The receiver hears ``ProcessExited``, or
    ``ConnectionClosed`` when it lives on without its stdin or stdout. Call `aclose` even after its
    end: what the child started may still run."""

    def __init__(
        self,
        process: Process,
        name: str,
        on_stderr_line: Callable[[str], None] | None,
        exit_seconds: float,
        start_again: Callable[[], Process] | None = None,
    ) -> None:
        self._exit_seconds = exit_seconds
        self._name = name
        self._on_stderr_line = on_stderr_line
        self._take(process)
        self._start_again = start_again
        """Starts it once more; None as soon as it has written anything, or was started again."""
        self._unheard = b""
        """Bytes written so far, kept while the process may be started once more."""
        self._receiver: Receiver | None = None
        self._writer: DescriptorWriter | None = None
        self.offered: int = 0
        """Bytes that were given to be written to its stdin."""
        self._early = 0
        self.taken: int | None = None
        """How many of the bytes that were ``offered`` it had read when it ended, at most.

        None while it runs, and where the system does not tell.
        """
        self._reader: DescriptorReader | None = None
        self._stderr_reader: DescriptorReader | None = None
        self._exit: ExitWatch | None = None
        self._exited: Future[None] | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._stdin_broken = False
        self._grace: TimerHandle | None = None
        self._waits = False
        """Whether it has ended and is about to be started again."""
        self._told = False
        self._collected = False
        self._closing: Task[None] | None = None

    def _take(self, process: Process) -> None:
        self._process = process
        self._tail = StderrTail(self._on_stderr_line)
        self._tree = ProcessTree(process.pid, process.mark)
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    def __repr__(self) -> str:
        return f"ChildProcess({self._name!r}, pid={self.pid})"

    @property
    def pid(self) -> int:
        """The process id; the same as the id of its group and session."""
        return self._process.pid

    @property
    def name(self) -> str:
        return self._name

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs or when it is not known."""
        return None if self._exit is None else self._exit.returncode

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr, at most 8 KiB."""
        return self._tail.text()

    def write_early(self, line: bytes) -> bool:
        """Write the first line before `start` and before any event loop; False if it may not fit in
        the pipe."""
        from select import PIPE_BUF

        if self._receiver is not None or len(line) > PIPE_BUF:
            return False
        try:
            self._stdin.write(line)
        except OSError:
            return False  # it has ended already, which `start` will tell
        self.offered = self._early = len(line)
        self._unheard = line
        return True

    def start(self, receiver: Receiver) -> None:
        import asyncio

        if self._receiver is not None or self._closing is not None:
            raise MisuseError("a child process can be started as a link only once")
        self._receiver = receiver
        self._attach(asyncio.get_running_loop())

    def write(self, data: bytes) -> None:
        if self._writer is not None:
            self.offered += len(data)
            if self._start_again is not None:
                self._unheard += data
            self._writer.write(data)

    def pause_reading(self) -> None:
        self._reading_paused = True
        if self._reader is not None and self._closing is None:
            self._reader.pause()

    def resume_reading(self) -> None:
        self._reading_paused = False
        if self._reader is not None and not self._told:
            self._reader.resume()
            self._look_for_end()

    async def aclose(self) -> None:
        """End the process and all it started, descendants in other sessions included: close stdin,
        SIGTERM, SIGKILL. Takes half a second besides what it was given to exit; output is read and
        dropped."""
        import asyncio

        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
            if self._reader is not None:
                self._reader.drop()
        await finish(self._closing)

    def kill_tree(self) -> None:
        """Kill the process and all it started, now and without an event loop; takes up to 0.1 s.
        The receiver is not told: `aclose` may still be called, and tells it."""
        if self._collected:
            return
        from codex_acp.transport.shutdown import kill_now

        kill_now(self._tree)
        self._collect()

    def _attach(self, loop: AbstractEventLoop) -> None:
        self._exited = loop.create_future()
        on_data = ignore if self._receiver is None else self._receiver.data_received
        if self._start_again is not None:
            on_data = self._first_heard
        for stream in (self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._writer = DescriptorWriter(
            loop, self._stdin.fileno(), self._pause, self._resume, self._writing_broke
        )
        self._reader = DescriptorReader(
            loop, self._stdout.fileno(), on_data, lambda _: self._look_for_end(), self._resume
        )
        self._stderr_reader = DescriptorReader(
            loop, self._stderr.fileno(), self._tail.feed, lambda _: self._tail.end()
        )
        self._exit = ExitWatch(loop, self._process, self._process_exited)
        if not self._reading_paused:
            self._reader.resume()
        self._stderr_reader.resume()
        self._exit.start()

    async def _close(self) -> None:
        import asyncio

        from codex_acp.transport.shutdown import shut_down

        if self._collected:
            self._tell_end(None)
            return
        try:
            if self._exited is None:
                self._attach(asyncio.get_running_loop())
            self._stop_grace()
            if self._reader is not None and not self._told:
                self._reader.resume()  # and drop what comes, so that nobody waits to write it
            if self._exited is not None:
                await shut_down(self._tree, self._exited, self._close_stdin, self._exit_seconds)
        finally:
            if self._exit_seen():
                self._collect()
            else:  # it outlived SIGKILL, or this task was cancelled by a loop that is closing
                self.kill_tree()
            self._tell_end(None)

    def _close_stdin(self) -> None:
        if self._writer is not None:
            self._writer.stop()
        self._stdin.close()

    def _exit_seen(self) -> bool:
        return self._exited is not None and self._exited.done()

    def _collect(self) -> None:
        """Take the exit status from the kernel and give back every descriptor."""
        self._collected = True
        if self._exit is not None:
            self._exit.stop()
        for endpoint in (self._reader, self._stderr_reader, self._writer):
            if endpoint is not None:
                endpoint.stop()
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        if self._process.wait(COLLECT_SECONDS):
            self._tree.root_collected()  # else even SIGKILL waits for it: it hangs in the kernel

    def _first_heard(self, data: bytes) -> None:
        """Tell the end of the process from now on, in place of starting it again."""
        self._start_again, self._unheard = None, b""
        on_data = ignore if self._receiver is None else self._receiver.data_received
        if self._reader is not None:
            self._reader.on_data = on_data
        on_data(data)

    def _pause(self) -> None:
        self._writing_paused = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def _resume(self) -> None:
        """Resume the writer: the process has caught up, or is gone."""
        if self._receiver is not None and self._writing_paused:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _writing_broke(self, _error: OSError) -> None:
        self._stdin_broken = True
        self._resume()
        self._look_for_end()

    def _process_exited(self, collected: bool) -> None:
        # Note now who is left of its group: its id is still its own.
        self._tree.refresh()
        if collected:
            self._tree.root_collected()
        if self._exited is not None and not self._exited.done():
            self._exited.set_result(None)
        self._resume()
        self._look_for_end()

    def _look_for_end(self) -> None:
        """Tell the end when exit and end of stdout have both come; else wait a little for both."""
        if self._told or self._waits or self._closing is not None or self._reader is None:
            return
        exited = self._exit_seen()
        half_ended = self._reader.ended or self._stdin_broken
        if exited and self._reader.ended:
            self._tell_exit()
        elif self._grace is None and (half_ended or (exited and not self._reading_paused)):
            import asyncio

            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(END_GRACE_SECONDS, self._end_grace)

    def _end_grace(self) -> None:
        self._grace = None
        if self._told or self._closing is not None or self._reader is None:
            return
        if self._exit_seen():
            if self._reading_paused and not self._reader.ended:
                return  # data may wait; resume_reading looks again
            self._reader.drain(FINAL_READ_LIMIT)
            self._tell_exit()
        else:
            lost = "stdout" if self._reader.ended else "stdin"
            self._tell_end(ConnectionClosed(f"{self._name} closed its {lost} but still runs"))

    def _tell_exit(self) -> None:
        if self._stderr_reader is not None:
            self._stderr_reader.drain(FINAL_READ_LIMIT)
        if self._start_again is not None:
            import asyncio

            self._stop_grace()
            self._waits = True
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(AGAIN_SECONDS, self._begin_again, self._start_again)
            return
        if self._writer is not None:
            unread = unread_bytes(self._stdin.fileno())
            self.taken = None if unread is None else self._early + self._writer.sent - unread
        self._tell_end(ProcessExited(self._name, self.returncode, self._tail.text()))

    def _begin_again(self, start: Callable[[], Process]) -> None:
        import asyncio
        import logging

        self._grace, self._start_again = None, None
        if self._collected:  # by `kill_tree`
            return
        ended = ProcessExited(self._name, self.returncode, self._tail.text())
        self.kill_tree()
        try:
            self._take(start())
        except OSError:
            self._tell_end(ended)
            return
        logging.getLogger(__name__).info("started once more: %s", ended)
        self._waits = self._collected = self._stdin_broken = False
        self._attach(asyncio.get_running_loop())
        unheard, self._unheard, self._early = self._unheard, b"", 0
        if self._writer is not None:
            self._writer.write(unheard)

    def _tell_end(self, error: TransportError | None) -> None:
        if self._told:
            return
        self._told = True
        self._stop_grace()
        if self._reader is not None:
            self._reader.stop()
        if self._receiver is not None:
            self._receiver.link_closed(error)

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None


POLL_SECONDS = 0.005
"""Between two looks at a process that is to end any moment."""

FIRST_FREE_DESCRIPTOR = 3
"""Below are standard input, output and error, which the child's pipes become."""

OPEN_DESCRIPTORS = "/dev/fd"
"""A directory with one entry for each open descriptor of who lists it, on Linux and macOS alike."""

IGNORED_BY_PYTHON = (13, 25)
"""SIGPIPE and SIGXFSZ, on Linux and macOS alike: a child begins with their defaults. By number,
since the module that names them takes longer to import than the process to start."""


def start_process(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Process:
    """Start ``argv[0]``, a path. Raises OSError if it cannot be started."""
    tree = new_mark()
    marked = with_mark(env, tree)
    if cwd is None and os.path.dirname(argv[0]):  # noqa: PTH120 - no pathlib here
        try:
            return _spawned(argv, marked, tree)
        except _CannotSpawn:
            pass
    import subprocess

    process = subprocess.Popen(
        argv,
        env=marked,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None and stderr is not None  # noqa: PT018 - see PIPE
    process.returncode = 0  # Popen need not look after it, nor warn: whoever gets it does
    return Process(process.pid, stdin, stdout, stderr, tree)


class _CannotSpawn(Exception):
    """``posix_spawn`` is not for this case, or not on this system."""


def _spawned(argv: Sequence[str], env: Mapping[str, str], tree: str) -> Process:
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for number in range(FIRST_FREE_DESCRIPTOR):
            read, write = os.pipe()
            theirs.append(write if number else read)
            ours.append(read if number else write)
        if min(theirs + ours) < FIRST_FREE_DESCRIPTOR:  # this program itself has none of its own
            raise _CannotSpawn
        actions: list[tuple[int, ...]]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)]
        actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
        pid = os.posix_spawn(
            argv[0], list(argv), env, file_actions=actions, setsid=True, setsigdef=IGNORED_BY_PYTHON
        )
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, NotImplementedError):  # an old system cannot make a session this way
            raise _CannotSpawn from None
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    stdin, stdout, stderr = ours
    return Process(
        pid,
        open(stdin, "wb", buffering=0),  # noqa: PTH123 - a descriptor, owned by what it makes
        open(stdout, "rb", buffering=0),  # noqa: PTH123
        open(stderr, "rb", buffering=0),  # noqa: PTH123
        tree,
    )


def _inheritable() -> list[int]:
    """Return the inherited descriptors that a child would inherit. Raises _CannotSpawn."""
    try:
        names = os.listdir(OPEN_DESCRIPTORS)  # noqa: PTH208 - no pathlib here
    except OSError:
        raise _CannotSpawn from None
    found = []
    for name in names:
        try:
            if int(name) >= FIRST_FREE_DESCRIPTOR and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue  # that of the listing itself
    return found


TAIL_SIZE = 8 * 1024
"""Bytes kept for error messages: enough for a panic with its backtrace."""

LINE_SIZE = 8 * 1024
"""Bytes of a line that the callback gets, so that memory is bounded."""


class StderrTail:
    """Keeps the last 8 KiB, and gives each whole line to ``on_line`` if there is one."""

    __slots__ = ("_is_cut", "_line", "_on_line", "_skips", "_tail")

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._tail = b""
        self._is_cut = False
        self._line = b""
        self._skips = False

    def feed(self, data: bytes) -> None:
        self._is_cut = self._is_cut or len(self._tail) + len(data) > TAIL_SIZE
        self._tail = (
            (self._tail + data)[-TAIL_SIZE:] if len(data) < TAIL_SIZE else data[-TAIL_SIZE:]
        )
        if self._on_line is None:
            return
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            self._give(line)
        if len(self._line) > LINE_SIZE:
            self._give(self._line)
            self._skips = True
        if self._skips:
            self._line = b""

    def end(self) -> None:
        """Take the rest for a line: the stream has ended."""
        if self._line:
            self._give(self._line)
            self._line = b""

    def text(self) -> str:
        """Return the tail as plain text from the beginning of a line on: half a secret is known to
        nobody."""
        tail = self._tail
        if self._is_cut:
            tail = tail.partition(b"\n" if b"\n" in tail[:-1] else b" ")[2]
        return _decoded(tail).strip()

    def _give(self, line: bytes) -> None:
        skips, self._skips = self._skips, False  # the rest of a line that was given before
        if self._on_line is None or skips:
            return
        if len(line) > LINE_SIZE:
            line = line[:LINE_SIZE].rpartition(b" ")[0]
        try:
            self._on_line(_decoded(line.rstrip(b"\r")))
        except Exception:
            import logging

            logging.getLogger(__name__).exception("the callback for a line of stderr failed")


def _decoded(data: bytes) -> str:
    from codex_acp._glyphs import plain_text

    return plain_text(data.decode(errors="replace"))
