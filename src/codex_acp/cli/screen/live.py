"""One line at the bottom of a terminal that says what runs, and for how long.

Drawn when nothing was written for a moment, and taken away before anything is. Owns how that is
done. Must not know what runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

from codex_acp.cli.screen.frame import Style, columns_of, styled
from codex_acp.cli.terminal import size_of, wants_colours

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

TICK_SECONDS: Final = 0.5

ERASED: Final = "\r\x1b[2K"

FRAMES: Final = "-\\|/"


class LiveLine:
    """``write`` puts text onto ``stream``, which is a terminal that knows control sequences.

    ``text`` gives the words to show, safe already, or None while there is nothing to show.
    """

    def __init__(
        self, stream: TextIO, text: Callable[[], str | None], write: Callable[[str], None]
    ) -> None:
        self._stream = stream
        self._text = text
        self._write = write
        self._drawn = False
        self._words = ""
        self._since = 0.0
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def possible(stream: TextIO) -> bool:
        """Whether ``stream`` is a terminal on which a line can be taken back."""
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def start(self) -> None:
        """From now on, until `stop`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Take it away for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hide()

    def hide(self) -> None:
        """Take it away: something else is about to be written."""
        if self._drawn:
            self._drawn = False
            self._write(ERASED)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        words = self._text()
        if words is None:
            self.hide()
            return
        if words != self._words:
            self._words, self._since = words, time.monotonic()
        self._ticks += 1
        seconds = int(time.monotonic() - self._since)
        shown = f"{FRAMES[self._ticks % len(FRAMES)]} {words}"
        took = f" {seconds}s" if seconds else ""
        room = max(1, size_of(self._stream).columns - 1 - len(took))
        style: Style = "dim" if wants_colours(self._stream) else ""
        self._drawn = True
        self._write(f"{ERASED}{styled(clipped(shown, room) + took, style)}")


def clipped(text: str, columns: int) -> str:
    """As much of one line as fits."""
    used = 0
    for at, char in enumerate(text):
        used += columns_of(char)
        if used > columns:
            return text[:at]
    return text
