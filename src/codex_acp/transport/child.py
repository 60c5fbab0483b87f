"""A child process as a link: its stdin and stdout are the stream, its stderr is kept.

POSIX only (Linux, macOS). Importing this module and calling `spawn` load nothing but a few
modules of the standard library, so that the child boots while this program still imports.
Must not know what the child is.
"""

from __future__ import annotations

import os

from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited, TransportError
from codex_acp.transport.descriptors import DescriptorReader, DescriptorWriter, unread_bytes
from codex_acp.transport.exit_watch import ExitWatch
from codex_acp.transport.process_tree import ProcessTree
from codex_acp.transport.spawning import Process, start_process
from codex_acp.transport.stderr_tail import StderrTail

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task, TimerHandle
    from collections.abc import Callable, Mapping, Sequence

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
    """A running child as a `Link`; made by `spawn`.

    The receiver hears ``ProcessExited`` when it ended, or ``ConnectionClosed`` when it lives on
    without its stdin or stdout. Whoever spawned it must call `aclose`, even after its end: what
    the child started may still run.
    """

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
        self._taken: int | None = None
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
        """Return the name of the process for messages."""
        return self._name

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs or when it is not known."""
        return None if self._exit is None else self._exit.returncode

    @property
    def taken(self) -> int | None:
        """How many of the bytes that were ``offered`` it had read when it ended, at most.

        None while it runs, and where the system does not tell.
        """
        return self._taken

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr, at most 8 KiB."""
        return self._tail.text()

    def write_early(self, line: bytes) -> bool:
        """Write the first line before `start`, and before any event loop: it is read at boot.

        False if it is not written: it may not fit in the pipe, and nobody could wait for that.
        """
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
        """End the process and all it started; takes half a second, and what it was given to exit.

        Closes stdin, waits, sends SIGTERM, waits, sends SIGKILL; descendants included, even those
        in another session or group. Output is read and dropped meanwhile.
        """
        import asyncio

        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
            if self._reader is not None:
                self._reader.drop()
        await finish(self._closing)

    def kill_tree(self) -> None:
        """Kill the process and all it started, now and without an event loop: the last resort.

        Takes up to 0.1 s. The receiver is not told; `aclose` may still be called, and tells it.
        """
        if self._collected:
            return
        from codex_acp.transport.shutdown import kill_now

        kill_now(self._tree)
        self._collect()

    def _attach(self, loop: AbstractEventLoop) -> None:
        self._exited = loop.create_future()
        on_data = _nobody_hears if self._receiver is None else self._receiver.data_received
        if self._start_again is not None:
            on_data = self._first_heard
        for stream in (self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._writer = DescriptorWriter(
            loop, self._stdin.fileno(), self._pause, self._resume, self._writing_broke
        )
        self._reader = DescriptorReader(
            loop, self._stdout.fileno(), on_data, self._stdout_ended, self._resume
        )
        self._stderr_reader = DescriptorReader(
            loop, self._stderr.fileno(), self._tail.feed, self._stderr_ended
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
        """The process has come so far that its end is told."""
        self._start_again, self._unheard = None, b""
        on_data = _nobody_hears if self._receiver is None else self._receiver.data_received
        if self._reader is not None:
            self._reader.hand_to(on_data)
        on_data(data)

    def _pause(self) -> None:
        self._writing_paused = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def _resume(self) -> None:
        """It has caught up, or is gone."""
        if self._receiver is not None and self._writing_paused:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _stdout_ended(self, _error: OSError | None) -> None:
        self._look_for_end()

    def _stderr_ended(self, _error: OSError | None) -> None:
        self._tail.end()

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
        elif half_ended or (exited and not self._reading_paused):
            self._start_grace()

    def _start_grace(self) -> None:
        if self._grace is None:
            import asyncio

            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(END_GRACE_SECONDS, self._grace_over)

    def _grace_over(self) -> None:
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
            self._taken = None if unread is None else self._early + self._writer.sent - unread
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


def _nobody_hears(_data: bytes) -> None:
    """A child that is closed and was never used as a link."""
