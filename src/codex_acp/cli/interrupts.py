"""SIGTERM and SIGHUP end a command like Ctrl-C: what it started is cleaned up first."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndSignals:
    """``with EndSignals() as ended:`` raises KeyboardInterrupt inside, for these signals, too.

    ``ended.number`` then is the signal. Only in the main thread, as Python's signals are.
    """

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        """Signal that the KeyboardInterrupt stands for."""
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Take over the signals."""
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_exc: object) -> None:
        """Give them back."""
        for number in _SIGNALS:
            before = self._before.pop(number)
            signal.signal(number, before if callable(before) else signal.SIG_DFL)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
            raise KeyboardInterrupt
        # asyncio has a way of its own to end on SIGINT, which lets tasks clean up.
        signal.raise_signal(signal.SIGINT)


# How a command ends: the exit codes that several have, and what one says that fails.

FAILED: Final = 1
"""It could not be done; an agent could not be started, died, or answered with an error."""
USAGE: Final = 2
"""Arguments that make no sense; the same as the parser's."""
SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""


def failed(command: str, error: object, code: int = USAGE) -> int:
    """Say on stderr what is wrong; the exit code."""
    print(f"codex-acp-sdk {command}: error: {error}", file=sys.stderr)
    return code
