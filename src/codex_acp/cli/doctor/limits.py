"""Limits of checks: a program that hangs, and a file system that does, end no later than this."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CHECK_SECONDS: Final = 10.0
"""For looking at files: a local disk takes none, a network disk that has stopped all of it."""

MAX_OUTPUT: Final = 64 * 1024

_T = TypeVar("_T")


WHOLE_SECONDS: Final = 60.0
"""For all checks together but that of a turn; a healthy machine takes three."""


class Deadline:
    """The end of all checks together, so that none begins with its own limit behind it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, most: float) -> float:
        """Return the seconds that a check may take, of the ``most`` that it has by itself."""
        return max(0.0, min(most, self._end - time.monotonic()))


class TooSlow(Exception):
    """A check took longer than its limit."""


class Done(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    """Of both streams."""


class _Result(Generic[_T]):
    """Value or error of a thread."""

    value: _T
    error: BaseException | None = None


def within(seconds: float, check: Callable[[], _T]) -> _T:
    """Run ``check`` in a thread that is left behind if it takes longer; return its value.

    Raises TooSlow, or what ``check`` raises.
    """
    result = _Result[_T]()

    def run() -> None:
        try:
            result.value = check()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            result.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TooSlow
    if result.error is not None:
        raise result.error
    return result.value


def run_program(argv: Sequence[str], env: Mapping[str, str], cwd: str, seconds: float) -> Done:
    """Run a program to its end, and end it and its group with the limit.

    Its output goes to a file: a pipe would be held open by whatever it left behind. Raises
    OSError if it cannot be started, TooSlow.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TooSlow from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        output.seek(0)
        return Done(status, output.read(MAX_OUTPUT).decode(errors="replace"))
