"""Spawn a child process as a link: stdin and stdout carry the bytes, the end of stderr is kept.

POSIX only (Linux, macOS). Importing this module and calling `spawn` loads only a few modules of
the standard library, so that the child boots while this program still imports. ``subprocess`` is
imported only if ``posix_spawn`` cannot start the child: the import takes longer than spawning
Codex. Must not know which program the child runs.
"""

from __future__ import annotations

import os
import time

from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited, TransportError
from codex_acp.transport.descriptors import DescriptorReader, DescriptorWriter, unread_bytes
from codex_acp.transport.process_table import ExitWatch
from codex_acp.transport.process_tree import ProcessTree, new_mark, with_mark

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task, TimerHandle
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    from codex_acp.transport.link import Receiver

END_GRACE_SECONDS = 0.2
"""Seconds to wait for the later of exit and end of stdout: a grandchild may hold stdout open."""

EXIT_SECONDS = 0.2
"""Seconds for a child to exit once its stdin is closed; Codex takes about 0.1."""

FINAL_READ_LIMIT = 1024 * 1024
"""Bytes read after the exit: all that a pipe can hold. A grandchild may write without end."""

AGAIN_SECONDS = 0.3
"""Seconds before a child that ended without output is started again. The seconds that the child
lived are added, because they grow with the machine's load (`MAX_EXTRA_SECONDS` at most). If two
Codex create the databases of a new CODEX_HOME at once, one ends; this gives the other time."""

MAX_EXTRA_SECONDS = 5.0

COLLECT_SECONDS = 0.02
"""Seconds for the kernel to report the exit status of a killed process."""

POLL_SECONDS = 0.005
"""Seconds between two checks of a process that is about to end."""


class Process:
    """A started process, with unbuffered pipes. Its environment has ``mark``, by which a
    `ProcessTree` finds its descendants."""

    def __init__(
        self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], mark: str
    ) -> None:
        self.pid = pid
        self.mark = mark
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        """Exit status, negative for a signal; None until it is collected here."""
        self._collected = False

    def poll(self) -> int | None:
        """Collect and return the exit status if the process has ended, else return None."""
        self._collect(os.WNOHANG)
        return self.returncode

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the exit and collect its status; return False after ``seconds``."""
        if seconds is None:
            self._collect(0)
            return True
        deadline = time.monotonic() + seconds
        while True:
            self._collect(os.WNOHANG)
            if self._collected or time.monotonic() >= deadline:
                return self._collected
            time.sleep(POLL_SECONDS)

    def _collect(self, options: int) -> None:
        if self._collected:
            return
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # other code has collected the status
            self._collected = True
        else:
            if pid == 0:  # the process still runs
                return
            self._collected = True
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
    """Start a process in a session of its own. Needs no event loop.

    ``env``: None for this process's own. ``name`` is for messages, by default the file name of
    ``argv[0]`` (arguments may be secret). ``on_stderr_line`` is called in the event loop with each
    line of stderr. The child has ``exit_seconds`` to exit when its stdin is closed. ``once_more``:
    if the child ends before it has written to stdout, start it a second time, with the same input.
    Raises OSError if the child cannot be started.
    """

    def start() -> Process:
        return start_process(argv, env, cwd)

    process = start()
    shown = os.path.basename(argv[0]) if name is None else name  # noqa: PTH119 - no pathlib here
    return ChildProcess(process, shown, on_stderr_line, exit_seconds, start if once_more else None)


class ChildProcess:
    """A running child as a `Link`; made by `spawn`. The link ends with ProcessExited, or with
    ConnectionClosed if the child runs on without its stdin or stdout. Call `aclose` even then:
    processes that the child started may still run."""

    # `_attach` sets these.
    _loop: AbstractEventLoop
    _reader: DescriptorReader
    _stderr_reader: DescriptorReader
    _writer: DescriptorWriter
    _exit_watch: ExitWatch
    _exited: Future[None]

    def __init__(
        self,
        process: Process,
        name: str,
        on_stderr_line: Callable[[str], None] | None,
        exit_seconds: float,
        spawn_again: Callable[[], Process] | None = None,
    ) -> None:
        self._exit_seconds = exit_seconds
        self._name = name
        self._on_stderr_line = on_stderr_line
        self._set_process(process)
        self._spawn_again = spawn_again
        """Spawns the child once more; None after its first output or its second start."""
        self._input = b""
        """All bytes written to the child, kept while it may be started once more."""
        self._receiver: Receiver | None = None
        self._is_attached = False
        """Whether the event loop reads, writes and watches the process."""
        self.offered: int = 0
        """Number of bytes that were passed to `write` and `write_early`."""
        self._early = 0
        """Number of bytes that `write_early` wrote to this process."""
        self.taken: int | None = None
        """Most of the ``offered`` bytes that the child can have read before it ended.

        None while it runs, and on systems that do not report the number.
        """
        self._reading_paused = False
        self._writing_paused = False
        self._stdin_broken = False
        self._timer: TimerHandle | None = None
        """Calls `_grace_ended` or `_start_once_more`."""
        self._restarting = False
        """Whether the child has ended and is about to be started again."""
        self._end_reported = False
        self._released = False
        """Whether the process has ended and `_release` was called."""
        self._closing: Task[None] | None = None

    def _set_process(self, process: Process) -> None:
        self._process, self._started_at = process, time.monotonic()
        self._tail = StderrTail(self._on_stderr_line)
        self._tree = ProcessTree(process.pid, process.mark)

    def __repr__(self) -> str:
        return f"ChildProcess({self._name!r}, pid={self.pid})"

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group and session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while the child runs, or if not known."""
        return self._exit_watch.returncode if self._is_attached else None

    @property
    def stderr_tail(self) -> str:
        """The end of the child's stderr, at most 8 KiB."""
        return self._tail.text()

    def write_early(self, line: bytes) -> bool:
        """Write the first line, before `start` and without an event loop; return False if the pipe
        may not take it."""
        from select import PIPE_BUF

        if self._receiver is not None or len(line) > PIPE_BUF:
            return False
        try:
            self._process.stdin.write(line)
        except OSError:
            return False  # the child has ended, which is reported after `start`
        self.offered = self._early = len(line)
        self._input = line
        return True

    def start(self, receiver: Receiver) -> None:
        if self._receiver is not None or self._closing is not None:
            raise MisuseError("a child process can be started as a link only once")
        self._receiver = receiver
        self._attach()

    def write(self, data: bytes) -> None:
        if self._is_attached:
            self.offered += len(data)
            if self._spawn_again is not None:
                self._input += data
            self._writer.write(data)

    def pause_reading(self) -> None:
        self._reading_paused = True
        if self._is_attached and self._closing is None:
            self._reader.pause()

    def resume_reading(self) -> None:
        self._reading_paused = False
        if self._is_attached and not self._end_reported:
            self._reader.resume()
            self._check_end()

    async def aclose(self) -> None:
        """End the child and all its descendants, also those in other sessions: close stdin, send
        SIGTERM, then SIGKILL. Discards the child's output. Takes the ``exit_seconds`` of `spawn`
        and half a second at most."""
        import asyncio

        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
            if self._is_attached:
                self._reader.drop()
        await finish(self._closing)

    def kill_tree(self) -> None:
        """Kill the child and all its descendants, without an event loop; takes up to 0.1 s. Does
        not report the end of the link: `aclose` does."""
        if self._released:
            return
        from codex_acp.transport.shutdown import kill_now

        kill_now(self._tree)
        self._release()

    def _attach(self) -> None:
        """Have the event loop read, write and watch the process."""
        import asyncio

        self._loop = loop = asyncio.get_running_loop()
        self._exited = loop.create_future()
        process = self._process
        pipes = (process.stdin, process.stdout, process.stderr)
        stdin, stdout, stderr = (pipe.fileno() for pipe in pipes)
        os.set_blocking(stdout, False)
        os.set_blocking(stderr, False)
        self._writer = DescriptorWriter(
            loop, stdin, self._pause_writing, self._resume_writing, self._writing_failed
        )
        on_hang_up = self._resume_writing
        self._reader = DescriptorReader(
            loop, stdout, self._deliver, lambda _: self._check_end(), on_hang_up
        )
        self._stderr_reader = DescriptorReader(
            loop, stderr, self._tail.feed, lambda _: self._tail.end()
        )
        self._exit_watch = ExitWatch(loop, process, self._process_exited)
        self._is_attached = True
        if not self._reading_paused:
            self._reader.resume()
        self._stderr_reader.resume()
        self._exit_watch.start()

    async def _close(self) -> None:
        from codex_acp.transport.shutdown import shut_down

        if self._released:
            self._report_end(None)
            return
        try:
            if not self._is_attached:
                self._attach()
            self._stop_timer()
            if not self._end_reported:
                self._reader.resume()  # discards the output, so that no process waits to write it
            await shut_down(self._tree, self._exited, self._close_stdin, self._exit_seconds)
        finally:
            if self._is_attached and self._exited.done():
                self._release()
            else:  # the child has outlived SIGKILL, or a closing event loop has cancelled this task
                self.kill_tree()
            self._report_end(None)

    def _close_stdin(self) -> None:
        self._writer.stop()
        self._process.stdin.close()

    def _release(self) -> None:
        """Collect the exit status, and close all descriptors."""
        self._released = True
        if self._is_attached:
            for part in (self._exit_watch, self._reader, self._stderr_reader, self._writer):
                part.stop()
        process = self._process
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        if process.wait(COLLECT_SECONDS):  # else the process hangs in the kernel, despite SIGKILL
            self._tree.root_collected()

    def _deliver(self, data: bytes) -> None:
        """Deliver output; a child that has written output is not started again."""
        self._spawn_again, self._input = None, b""
        if self._receiver is not None:
            self._receiver.data_received(data)

    def _pause_writing(self) -> None:
        self._writing_paused = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def _resume_writing(self) -> None:
        """Resume the receiver's writing, because the child has caught up or is gone."""
        if self._receiver is not None and self._writing_paused:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _writing_failed(self, _error: OSError) -> None:
        self._stdin_broken = True
        self._resume_writing()
        self._check_end()

    def _process_exited(self, collected: bool) -> None:
        self._tree.refresh()  # find the rest of the group while its id cannot be reused
        if collected:
            self._tree.root_collected()
        if not self._exited.done():
            self._exited.set_result(None)
        self._resume_writing()
        self._check_end()

    def _check_end(self) -> None:
        """Report the end after both exit and end of stdout; after one of them, wait a moment."""
        if self._end_reported or self._restarting or self._closing is not None:
            return
        exited = self._exited.done()
        half_ended = self._reader.ended or self._stdin_broken
        if exited and self._reader.ended:
            self._report_exit()
        elif self._timer is None and (half_ended or (exited and not self._reading_paused)):
            self._timer = self._loop.call_later(END_GRACE_SECONDS, self._grace_ended)

    def _grace_ended(self) -> None:
        self._timer = None
        if self._end_reported or self._closing is not None:
            return
        if self._exited.done():
            if self._reading_paused and not self._reader.ended:
                return  # data may wait; `resume_reading` checks again
            self._reader.drain(FINAL_READ_LIMIT)
            self._report_exit()
        else:
            lost = "stdout" if self._reader.ended else "stdin"
            self._report_end(ConnectionClosed(f"{self._name} closed its {lost} but still runs"))

    def _report_exit(self) -> None:
        """Report the exit, unless the child is to be started again."""
        self._stderr_reader.drain(FINAL_READ_LIMIT)
        if self._spawn_again is not None:
            self._stop_timer()
            self._restarting = True
            pause = AGAIN_SECONDS + min(time.monotonic() - self._started_at, MAX_EXTRA_SECONDS)
            self._timer = self._loop.call_later(pause, self._start_once_more, self._spawn_again)
            return
        unread = unread_bytes(self._process.stdin.fileno())
        self.taken = None if unread is None else self._early + self._writer.sent - unread
        self._report_end(ProcessExited(self._name, self.returncode, self._tail.text()))

    def _start_once_more(self, start: Callable[[], Process]) -> None:
        import logging

        self._timer, self._spawn_again = None, None
        if self._released:  # by `kill_tree`
            return
        exit_error = ProcessExited(self._name, self.returncode, self._tail.text())
        self.kill_tree()
        try:
            self._set_process(start())
        except OSError:
            self._report_end(exit_error)
            return
        logging.getLogger(__name__).info("started once more: %s", exit_error)
        self._restarting = self._released = self._stdin_broken = False
        self._attach()
        earlier_input, self._input, self._early = self._input, b"", 0
        self._writer.write(earlier_input)

    def _report_end(self, error: TransportError | None) -> None:
        if self._end_reported:
            return
        self._end_reported = True
        self._stop_timer()
        if self._is_attached:
            self._reader.stop()
        if self._receiver is not None:
            self._receiver.link_closed(error)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


FIRST_FREE_DESCRIPTOR = 3
"""The first descriptor behind standard input, output and error."""

OPEN_DESCRIPTORS = "/dev/fd"
"""Directory with one entry for each open descriptor of this process, on Linux and macOS."""

IGNORED_BY_PYTHON = (13, 25)
"""SIGPIPE and SIGXFSZ on Linux and macOS: a child gets their defaults back. Numbers, because
importing ``signal`` takes longer than starting the process."""


def start_process(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Process:
    """Start the program ``argv[0]``. Raises OSError if it cannot be started."""
    mark = new_mark()
    marked_env = with_mark(env, mark)
    # `posix_spawn` neither changes the working directory nor searches PATH.
    if cwd is None and os.path.dirname(argv[0]):  # noqa: PTH120 - no pathlib here
        try:
            return _posix_spawn(argv, marked_env, mark)
        except _CannotSpawn:
            pass
    import subprocess

    process = subprocess.Popen(
        argv,
        env=marked_env,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None and stderr is not None  # noqa: PT018 - all PIPE
    process.returncode = 0  # so that Popen neither collects the status nor warns: Process does
    return Process(process.pid, stdin, stdout, stderr, mark)


class _CannotSpawn(Exception):
    """``posix_spawn`` cannot be used in this case, or on this system."""


def _posix_spawn(argv: Sequence[str], env: Mapping[str, str], mark: str) -> Process:
    child_ends: list[int] = []
    own_ends: list[int] = []
    try:
        for number in range(FIRST_FREE_DESCRIPTOR):
            read, write = os.pipe()
            child_ends.append(write if number else read)
            own_ends.append(read if number else write)
        if min(child_ends + own_ends) < FIRST_FREE_DESCRIPTOR:
            raise _CannotSpawn  # a standard stream is closed here: a pipe got its number
        actions: list[tuple[int, ...]]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(child_ends)]
        actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
        pid = os.posix_spawn(
            argv[0], list(argv), env, file_actions=actions, setsid=True, setsigdef=IGNORED_BY_PYTHON
        )
    except BaseException as error:
        for fd in own_ends:
            os.close(fd)
        if isinstance(error, NotImplementedError):  # an old system cannot make a session this way
            raise _CannotSpawn from None
        raise
    finally:
        for fd in child_ends:
            os.close(fd)
    stdin, stdout, stderr = own_ends
    return Process(
        pid,
        open(stdin, "wb", buffering=0),  # noqa: PTH123 - a descriptor, which the file now owns
        open(stdout, "rb", buffering=0),  # noqa: PTH123
        open(stderr, "rb", buffering=0),  # noqa: PTH123
        mark,
    )


def _inheritable() -> list[int]:
    """Return the descriptors that a child would inherit. Raises _CannotSpawn."""
    try:
        open_descriptors = map(int, os.listdir(OPEN_DESCRIPTORS))  # noqa: PTH208 - no pathlib here
    except OSError:
        raise _CannotSpawn from None
    found = []
    for fd in open_descriptors:
        try:
            if fd >= FIRST_FREE_DESCRIPTOR and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            continue  # the descriptor of the listing itself, which is closed now
    return found


TAIL_SIZE = 8 * 1024
"""Bytes kept for error messages: enough for a panic with its backtrace."""

LINE_SIZE = 8 * 1024
"""Most bytes of a line that the callback gets: this bounds the memory."""


class StderrTail:
    """Keeps the last 8 KiB of stderr, and passes each line to ``on_line`` if it is given."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._tail = b""
        self._is_cut = False
        self._line = b""
        self._skips = False
        """Whether the rest of the current line is dropped, because its beginning was passed on."""

    def feed(self, data: bytes) -> None:
        self._is_cut = self._is_cut or len(self._tail) + len(data) > TAIL_SIZE
        self._tail = (self._tail + data)[-TAIL_SIZE:]
        if self._on_line is None:
            return
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            self._pass_on(line)
        if len(self._line) > LINE_SIZE:
            self._pass_on(self._line)
            self._skips = True
        if self._skips:
            self._line = b""

    def end(self) -> None:
        """Pass on the last line, which has no line break."""
        if self._line:
            self._pass_on(self._line)
            self._line = b""

    def text(self) -> str:
        """Return the tail as plain text. A cut tail begins at the next line, because half a secret
        would not be recognised and masked."""
        tail = self._tail
        if self._is_cut:
            tail = tail.partition(b"\n" if b"\n" in tail[:-1] else b" ")[2]
        return _decoded(tail).strip()

    def _pass_on(self, line: bytes) -> None:
        skips, self._skips = self._skips, False
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
