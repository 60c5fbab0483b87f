"""Reading and writing of file descriptors on an event loop, pushing, without tasks.

Used instead of ``loop.connect_read_pipe`` because that is a coroutine, refuses regular files and
``/dev/null``, and leaves descriptors that other processes share in non-blocking mode. Imports no
asyncio: the loop is handed in. Must not know whose descriptors these are.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

READ_SIZE = 64 * 1024
"""Bytes a read: the capacity of a pipe on Linux, and below malloc's threshold for mmap."""

HIGH_WATER = 64 * 1024
"""Unsent bytes above which the writer reports that the peer is slow."""

LOW_WATER = 16 * 1024
"""Unsent bytes at which it reports that the peer has caught up."""

LITTLE = 16 * 1024
"""Bytes of a read below which the next one may be worth a wait."""

QUICK_SECONDS = 0.0003
"""How soon behind the last read the next one is quick."""

QUICK_READS = 16
"""Quick reads in a row that brought little, after which the reader waits for more."""

REST_SECONDS = 0.001
"""How long it waits then: an event loop's clock knows no shorter time."""

HANG_UP_SECONDS = 0.2
"""How often a reader that is paused looks whether anybody can still write."""


class DescriptorReader:
    """Pushes what can be read to ``on_data``, then calls ``on_end`` once, with the error if any.

    Also reads what an event loop cannot watch (regular files, ``/dev/null``), a chunk an
    iteration. Does not own the descriptor and does not change its blocking mode: a read follows
    only on readiness. ``on_hang_up`` is called when it is paused and nobody can write any more.
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
        self.on_data: Callable[[bytes], None] = on_data
        """Called with what is read from now on."""
        self._on_end = on_end
        self._on_hang_up = on_hang_up
        self._look: TimerHandle | None = None
        self._rest: TimerHandle | None = None
        self._quick_reads = 0
        self._last_read = 0.0
        self._watchable = not stat.S_ISREG(os.fstat(fd).st_mode)
        self._watching = False
        self._scheduled = False
        self._stopped = False
        self.ended: bool = False
        """Whether the end of the stream was read."""

    def resume(self) -> None:
        """Start to read, or go on after `pause`."""
        if self._stopped or self._watching:
            return
        self._watching = True
        self._look_no_more()
        if self._watchable:
            try:
                self._loop.add_reader(self._fd, self._readable)
            except (OSError, ValueError, NotImplementedError):
                self._watchable = False
        if not self._watchable and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._read_on)

    def pause(self) -> None:
        """Read no more until `resume`."""
        if self._watching:
            self._watching = False
            if self._rest is not None:
                self._rest.cancel()
                self._rest = None
            elif self._watchable:
                self._loop.remove_reader(self._fd)
            self._look_later()

    def stop(self) -> None:
        """Read no more at all; ``on_end`` is not called."""
        self.pause()
        self._stopped = True
        self._look_no_more()

    def drop(self) -> None:
        """Deliver nothing more of what is read."""
        self.on_data = ignore

    def drain(self, limit: int) -> None:
        """Deliver what is there now, up to about ``limit`` bytes; the descriptor must not block."""
        taken = 0
        while taken < limit and not self._stopped:
            size = self._ready()
            if not size:
                return
            taken += size

    def _ready(self) -> int:
        """One read; gives its size, 0 when there was nothing or the stream ended."""
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
        self.on_data(data)
        return len(data)

    def _readable(self) -> None:
        """Read once; in a burst of little pieces, wait a millisecond for more of them at once."""
        size, now = self._ready(), self._loop.time()
        quick = size < LITTLE and now - self._last_read <= QUICK_SECONDS
        self._quick_reads = self._quick_reads + 1 if quick else 0
        self._last_read = now
        if self._quick_reads > QUICK_READS and self._watching:
            self._loop.remove_reader(self._fd)
            self._rest = self._loop.call_later(REST_SECONDS, self._watch_again)

    def _watch_again(self) -> None:
        self._rest, self._last_read = None, self._loop.time()
        self._loop.add_reader(self._fd, self._readable)

    def _read_on(self) -> None:
        self._scheduled = False
        if self._watching:
            self._ready()
        if self._watching and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._read_on)

    def _look_later(self) -> None:
        if self._on_hang_up is not None:
            self._look = self._loop.call_later(HANG_UP_SECONDS, self._look_for_hang_up)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_for_hang_up(self) -> None:
        self._look = None
        import select

        half = getattr(select, "POLLRDHUP", 0)  # a socket whose peer has shut down writing; Linux
        asked = select.poll()
        asked.register(self._fd, half)
        ended = select.POLLHUP | select.POLLERR | select.POLLNVAL | half
        if not any(events & ended for _, events in asked.poll(0)):  # what was written may be unread
            self._look_later()
        elif self._on_hang_up is not None:
            self._on_hang_up()

    def _end(self, error: OSError | None) -> None:
        self.stop()
        self.ended = True
        self._on_end(error)


def ignore(_data: bytes) -> None:
    """Drop what nobody reads or takes."""


class DescriptorWriter:
    """Writes in order without blocking the loop, keeping what the descriptor does not take.

    ``on_pause`` and ``on_resume`` report the water marks, from within `write` or later;
    ``on_broken`` reports once, never from within `write`, that nobody reads any more.
    Pipes and sockets are put in non-blocking mode until `stop`; anything else (files, terminals)
    is written at once. Does not own the descriptor.
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
        self._kept: bytes | bytearray = b""
        self._begin = 0
        """Where what is unsent begins: to cut off each piece that was sent would copy the rest."""
        self._paused = False
        self._stopped = False
        self.sent: int = 0
        """Bytes that the descriptor has taken."""
        self.on_empty: Callable[[], None] | None = None
        """Called each time that everything kept has been sent."""

    @property
    def unsent(self) -> int:
        """Bytes accepted and not yet taken by the descriptor."""
        return len(self._kept) - self._begin

    def write(self, data: bytes) -> None:
        """Send or keep ``data``; dropped after `stop` and once broken."""
        if self._stopped:
            return
        if not self._kept:
            try:
                sent = os.write(self._fd, data) if self._watchable else self._write_all(data)
            except OSError as error:
                sent = self._not_taken(error)
            self.sent += sent
            if sent == len(data) or self._stopped:
                return
            self._loop.add_writer(self._fd, self._ready)
            self._kept, self._begin = data, sent
        else:
            if isinstance(self._kept, bytes) or self._begin > len(self._kept) // 2:
                self._kept = bytearray(memoryview(self._kept)[self._begin :])
                self._begin = 0
            self._kept += data
        if not self._paused and self.unsent > HIGH_WATER:
            self._paused = True
            self._on_pause()

    def stop(self) -> None:
        """Write no more, drop what is unsent, and give the descriptor back as it was."""
        if self._stopped:
            return
        self._stopped = True
        if self._kept:
            self._loop.remove_writer(self._fd)
            self._kept, self._begin = b"", 0
        if self._watchable and self._was_blocking:
            os.set_blocking(self._fd, True)

    def _write_all(self, data: bytes) -> int:
        sent = 0
        try:
            while sent < len(data):
                sent += os.write(self._fd, data[sent:])
        except OSError as error:
            self._not_taken(error)
        return sent

    def _not_taken(self, error: OSError) -> int:
        """The descriptor is full, or broken: it takes nothing."""
        if not isinstance(error, BlockingIOError | InterruptedError):
            self.stop()
            self._loop.call_soon(self._on_broken, error)
        return 0

    def _ready(self) -> None:
        with memoryview(self._kept) as kept, kept[self._begin :] as unsent:
            try:
                sent = os.write(self._fd, unsent)
            except OSError as error:
                sent = self._not_taken(error)
        if self._stopped:
            return
        self.sent += sent
        self._begin += sent
        if not self.unsent:
            self._kept, self._begin = b"", 0
            self._loop.remove_writer(self._fd)
        if self._paused and self.unsent <= LOW_WATER:
            self._paused = False
            self._on_resume()
        if not self._kept and self.on_empty is not None:
            self.on_empty()


def read_now(fd: int) -> bytes:
    """Return the bytes of one read that does not wait; none of a terminal or on failure."""
    import select

    asked = select.poll()
    asked.register(fd, select.POLLIN)
    try:
        if os.isatty(fd) or not any(events & select.POLLIN for _, events in asked.poll(0)):
            return b""
        return os.read(fd, READ_SIZE)
    except OSError:
        return b""


def unread_bytes(fd: int) -> int | None:
    """Return the bytes in a pipe that wait to be read, seen from its writing end; Linux, else
    None."""
    if sys.platform != "linux":
        return None
    from fcntl import ioctl
    from termios import FIONREAD

    try:
        return int.from_bytes(ioctl(fd, FIONREAD, bytes(4)), sys.byteorder)
    except (OSError, ValueError):
        return None
