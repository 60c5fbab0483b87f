"""Make a link of this process's standard input and output, and keep stdout for the protocol.

Must not know what the bytes mean.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError
from codex_acp.transport.descriptors import DescriptorReader, DescriptorWriter, ignore

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable

    from codex_acp.transport.link import Receiver

_DRAIN_SECONDS: Final = 0.25
"""Seconds that closing waits for a slow peer to take the last answers; then they are dropped."""

_STANDARD_DESCRIPTORS: Final = 3
"""Descriptors 0, 1 and 2 stay open, because other code of this process uses them."""


def claim_stdout() -> int:
    """Keep stdout for the protocol: return a private descriptor of it, and point fd 1 at stderr.

    From then on, output of Python, of C code or of a child that inherits fd 1 goes to stderr and
    cannot corrupt the protocol; the text that ``sys.stdout`` still buffers goes there, too. Raises
    ConnectionClosed if the process was started without a stdout.
    """
    closed = ConnectionClosed(
        "standard output is closed; start this program with a pipe as its stdout"
    )
    try:
        writable = fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        # Not os.dup: it could return 2 if stderr is closed, and stray output would go there.
        protocol = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _STANDARD_DESCRIPTORS)
    except OSError as error:
        raise closed from error
    if not writable:
        os.close(protocol)
        raise closed
    try:
        os.dup2(2, 1)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        if null >= _STANDARD_DESCRIPTORS:  # else ``null`` is the number of the closed stderr
            os.close(null)
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.stdout = sys.stderr
    return protocol


class StdioLink:
    """A link over two descriptors, by default this process's stdin and stdout.

    A serving program passes ``stdout_fd=claim_stdout()``. Works on pipes, sockets, terminals,
    regular files and ``/dev/null``. The end of stdin is a clean end; bytes that are written later
    are still sent, until `aclose`. `aclose` closes the descriptors, except 0, 1 and 2. ``early``
    has the bytes that were read from stdin before.
    """

    def __init__(self, stdin_fd: int = 0, stdout_fd: int = 1, *, early: bytes = b"") -> None:
        self._early = early
        self._stdin_fd = stdin_fd
        self._stdout_fd = stdout_fd
        self._receiver: Receiver | None = None
        self._reader: DescriptorReader | None = None
        self._writer: DescriptorWriter | None = None
        self.write: Callable[[bytes], None] = ignore  # until `start`
        self._end_reported = False
        self._reading_paused = False
        self._closing: Task[None] | None = None

    def __repr__(self) -> str:
        return f"StdioLink(stdin_fd={self._stdin_fd}, stdout_fd={self._stdout_fd})"

    def start(self, receiver: Receiver) -> None:
        """Start reading. Raises ConnectionClosed if a descriptor is not open."""
        if self._receiver is not None or self._closing is not None:
            raise MisuseError("a link can be started only once")
        loop = asyncio.get_running_loop()
        try:
            self._reader = DescriptorReader(
                loop,
                self._stdin_fd,
                receiver.data_received,
                self._reading_ended,
                receiver.resume_writing,
            )
            self._writer = DescriptorWriter(
                loop,
                self._stdout_fd,
                receiver.pause_writing,
                receiver.resume_writing,
                self._writing_broke,
            )
        except OSError as error:
            msg = f"standard input or output is not open: {error.strerror}"
            raise ConnectionClosed(msg) from error
        self.write = self._writer.write
        self._receiver = receiver
        if self._early:
            loop.call_soon(self._deliver_early, receiver, self._reader)
        else:
            self._reader.resume()

    def _deliver_early(self, receiver: Receiver, reader: DescriptorReader) -> None:
        receiver.data_received(self._early)
        if not self._reading_paused:
            reader.resume()

    def pause_reading(self) -> None:
        self._reading_paused = True
        if self._reader is not None:
            self._reader.pause()

    def resume_reading(self) -> None:
        self._reading_paused = False
        if self._reader is not None:
            self._reader.resume()

    async def aclose(self) -> None:
        """Close the link; the peer gets a short time to take unsent bytes."""
        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await finish(self._closing)

    async def _close(self) -> None:
        if self._reader is not None:
            self._reader.stop()
        if self._writer is not None:
            if self._writer.unsent:
                sent = asyncio.Event()
                self._writer.on_empty = sent.set
                with suppress(TimeoutError):
                    await asyncio.wait_for(sent.wait(), _DRAIN_SECONDS)
            self._writer.stop()
        for fd in {self._stdin_fd, self._stdout_fd}:
            if fd >= _STANDARD_DESCRIPTORS:
                os.close(fd)
        self._report_end(None)

    def _reading_ended(self, error: OSError | None) -> None:
        if error is None:
            self._report_end(None)
        else:
            self._report_end(ConnectionClosed(f"cannot read standard input: {error.strerror}"))

    def _writing_broke(self, error: OSError) -> None:
        msg = f"the peer no longer reads standard output: {error.strerror}"
        self._report_end(ConnectionClosed(msg))

    def _report_end(self, error: TransportError | None) -> None:
        if self._end_reported:
            return
        self._end_reported = True
        if self._reader is not None:
            self._reader.stop()
        if self._receiver is not None:
            self._receiver.link_closed(error)
