"""Read and write file descriptors on an event loop, with callbacks instead of tasks.

``loop.connect_read_pipe`` would not do: it is a coroutine, refuses regular files and ``/dev/null``,
and leaves descriptors that other processes share in non-blocking mode. Imports no asyncio: the
caller passes the loop. Must not know what is at the other end of a descriptor.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

READ_SIZE = 64 * 1024
"""Bytes of one read: the capacity of a pipe on Linux, and below malloc's threshold for mmap."""

HIGH_WATER = 64 * 1024
"""Unsent bytes above which the writer reports that the peer is slow."""

LOW_WATER = 16 * 1024
"""Unsent bytes at which the writer reports that the peer has caught up."""

SMALL_READ = 16 * 1024
"""Bytes below which a read counts as small."""

QUICK_SECONDS = 0.0003
"""Seconds after the last read within which a read counts as quick."""

QUICK_READS = 16
"""Quick and small reads in a row after which the reader rests, so that the next read gets more."""

REST_SECONDS = 0.001
"""Seconds of a rest: the shortest time of an event loop's clock."""

HANG_UP_SECONDS = 0.2
"""Seconds between two checks of a paused reader whether any process can still write to it."""


class DescriptorReader:
    """Calls ``on_data`` with all data, then ``on_end`` once, with the error if any. Calls
    ``on_hang_up`` if the reader is paused and no process can write any more.

    Reads only when the descriptor is ready, so the descriptor may stay in blocking mode. Of a file
    that an event loop cannot watch (regular files, ``/dev/null``), reads a chunk in each iteration.
    Never closes the descriptor.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        fd: int,
        on_data: Callable[[bytes], None],
        on_end: Callable[[OSError | None], None],
        on_hang_up: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self._on_hang_up = on_hang_up
        self._hang_up_timer: TimerHandle | None = None
        self._rest_timer: TimerHandle | None = None
        self._quick_reads = 0
        self._last_read_at = 0.0
        self._watchable = not stat.S_ISREG(os.fstat(fd).st_mode)
        self._watching = False
        self._read_scheduled = False
        self._stopped = False
        self.ended: bool = False
        """Whether the end of the stream was read."""

    def resume(self) -> None:
        """Start to read, or continue after `pause`."""
        if self._stopped or self._watching:
            return
        self._watching = True
        self._cancel_hang_up_timer()
        if self._watchable:
            try:
                self._loop.add_reader(self._fd, self._readable)
            except (OSError, ValueError, NotImplementedError):
                self._watchable = False
        if not self._watchable and not self._read_scheduled:
            self._read_scheduled = True
            self._loop.call_soon(self._read_unwatched)

    def pause(self) -> None:
        """Read no more until `resume`."""
        if self._watching:
            self._watching = False
            if self._rest_timer is not None:
                self._rest_timer.cancel()
                self._rest_timer = None
            elif self._watchable:
                self._loop.remove_reader(self._fd)
            self._start_hang_up_timer()

    def stop(self) -> None:
        """Never read again; ``on_end`` is not called."""
        self.pause()
        self._stopped = True
        self._cancel_hang_up_timer()

    def drop(self) -> None:
        """Discard all data from now on."""
        self._on_data = ignore

    def drain(self, limit: int) -> None:
        """Deliver all data that is there, up to about ``limit`` bytes; reads must not block."""
        total = 0
        while total < limit and not self._stopped:
            size = self._read_once()
            if not size:
                return
            total += size

    def _read_once(self) -> int:
        """Read once; return the size, 0 if nothing could be read or the stream has ended."""
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return 0
        if not data:
            self._end(None)
            return 0
        self._on_data(data)
        return len(data)

    def _readable(self) -> None:
        """Read once; rest in a burst of quick and small reads."""
        size, now = self._read_once(), self._loop.time()
        is_quick = size < SMALL_READ and now - self._last_read_at <= QUICK_SECONDS
        self._quick_reads = self._quick_reads + 1 if is_quick else 0
        self._last_read_at = now
        if self._quick_reads > QUICK_READS and self._watching:
            self._loop.remove_reader(self._fd)
            self._rest_timer = self._loop.call_later(REST_SECONDS, self._watch_again)

    def _watch_again(self) -> None:
        """End the rest."""
        self._rest_timer, self._last_read_at = None, self._loop.time()
        self._loop.add_reader(self._fd, self._readable)

    def _read_unwatched(self) -> None:
        """Read once in each iteration of the loop, until paused."""
        self._read_scheduled = False
        if self._watching:
            self._read_once()
        if self._watching and not self._read_scheduled:
            self._read_scheduled = True
            self._loop.call_soon(self._read_unwatched)

    def _start_hang_up_timer(self) -> None:
        if self._on_hang_up is not None:
            self._hang_up_timer = self._loop.call_later(HANG_UP_SECONDS, self._check_hang_up)

    def _cancel_hang_up_timer(self) -> None:
        if self._hang_up_timer is not None:
            self._hang_up_timer.cancel()
            self._hang_up_timer = None

    def _check_hang_up(self) -> None:
        self._hang_up_timer = None
        import select

        half_closed = getattr(select, "POLLRDHUP", 0)  # the peer of a socket writes no more; Linux
        poll = select.poll()
        poll.register(self._fd, half_closed)
        ended = select.POLLHUP | select.POLLERR | select.POLLNVAL | half_closed
        if not any(events & ended for _, events in poll.poll(0)):
            self._start_hang_up_timer()
        elif self._on_hang_up is not None:
            self._on_hang_up()

    def _end(self, error: OSError | None) -> None:
        self.stop()
        self.ended = True
        self._on_end(error)


def ignore(_data: bytes) -> None:
    """Discard the data."""


class DescriptorWriter:
    """Writes in order without blocking the loop; keeps the bytes that the descriptor cannot take.

    ``on_pause`` is called above `HIGH_WATER`, also from within `write`; ``on_resume`` at
    `LOW_WATER`. ``on_broken`` is called once, with an error of writing, never from within `write`.
    Pipes and sockets are in non-blocking mode until `stop`; writing to files and terminals waits.
    Never closes the descriptor.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        fd: int,
        on_pause: Callable[[], None],
        on_resume: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_pause = on_pause
        self._on_resume = on_resume
        self._on_broken = on_broken
        mode = os.fstat(fd).st_mode
        self._watchable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._was_blocking = os.get_blocking(fd)
        if self._watchable:
            os.set_blocking(fd, False)
        self._kept = bytearray()
        self._paused = False
        self._stopped = False
        self.sent: int = 0
        """Bytes that the descriptor has taken."""
        self.on_empty: Callable[[], None] | None = None
        """Called each time that all kept bytes have been sent."""

    @property
    def unsent(self) -> int:
        """Number of the kept bytes, which the descriptor has not taken yet."""
        return len(self._kept)

    def write(self, data: bytes) -> None:
        """Send or keep ``data``; drop it after `stop`, which an error of writing calls, too."""
        if self._stopped:
            return
        if self._kept:
            self._kept += data
        else:
            sent = self._send(data)
            if sent == len(data) or self._stopped:
                return
            self._loop.add_writer(self._fd, self._writable)
            self._kept += memoryview(data)[sent:]
        if not self._paused and self.unsent > HIGH_WATER:
            self._paused = True
            self._on_pause()

    def stop(self) -> None:
        """Write no more, drop the unsent bytes, and restore the descriptor's blocking mode."""
        if self._stopped:
            return
        self._stopped = True
        if self._kept:
            self._loop.remove_writer(self._fd)
            self._kept.clear()
        if self._watchable and self._was_blocking:
            os.set_blocking(self._fd, True)

    def _send(self, data: bytes | bytearray) -> int:
        """Write once (all of ``data`` to files and terminals); return how many bytes were written.
        After an error, stop and report it, unless the descriptor is only full."""
        sent = 0
        try:
            with memoryview(data) as view:
                while sent < len(data):
                    sent += os.write(self._fd, view[sent:])
                    if self._watchable:
                        break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.stop()
            self._loop.call_soon(self._on_broken, error)
        self.sent += sent
        return sent

    def _writable(self) -> None:
        sent = self._send(self._kept)
        if self._stopped:
            return
        del self._kept[:sent]
        if not self._kept:
            self._loop.remove_writer(self._fd)
        if self._paused and self.unsent <= LOW_WATER:
            self._paused = False
            self._on_resume()
        if not self._kept and self.on_empty is not None:
            self.on_empty()


def read_now(fd: int) -> bytes:
    """Return the bytes of one read that does not wait; empty for a terminal or on failure."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        if os.isatty(fd) or not any(events & select.POLLIN for _, events in poll.poll(0)):
            return b""
        return os.read(fd, READ_SIZE)
    except OSError:
        return b""


def unread_bytes(fd: int) -> int | None:
    """Return how many bytes wait in the pipe whose writing end is ``fd``; None except on Linux."""
    if sys.platform != "linux":
        return None
    from fcntl import ioctl
    from termios import FIONREAD

    try:
        return int.from_bytes(ioctl(fd, FIONREAD, bytes(4)), sys.byteorder)
    except (OSError, ValueError):
        return None
