"""The log's lines: made, freed of secrets, and written where nobody has to wait for them.

Owns what a line looks like, that the same one again and again is one with a count, and how an
event of a session reads as a line. Loaded behind the start of Codex.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codex_acp.cli.process import complain
from codex_acp.transcript.secrets import cut, remember_secrets, scrub
from codex_acp.transcript.writer import LineWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import LogRecord

    from codex_acp.transcript.events import Entry

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_RECORD: Final = 32 * 1024
"""Characters of one record: a long traceback, not a whole message of 64 MiB."""
REPEAT_SECONDS: Final = 60.0
"""For so long a record that was written is only counted when it comes again."""
MAX_REMEMBERED: Final = 64
"""Records that are told from others; a fault that repeats itself alternates between a few."""
CLOSE_SECONDS: Final = 0.25
"""For what still waits when the process ends."""
_CONTROLS: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)},
    ord("\n"): "\n  ",  # a line that a peer wrote must not look like one of the log's own
}


class _Written:
    """A record that was written, and how often it has come since."""

    __slots__ = ("at", "head", "repeats")

    def __init__(self, at: float, head: str) -> None:
        self.at = at
        self.head = head
        self.repeats = 0


class _Shown:
    """Lines for whoever shows them in an order of its own; see `LineWriter`."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def put(self, line: str) -> None:
        self._show(_encoded(line).decode())

    def close(self, seconds: float) -> None:
        """Do nothing: what was handed over is shown already."""


class LogHandler(logging.Handler):
    """Writes to a descriptor, named ``path`` (None: stderr), or has a function show lines. Never
    waits, never raises."""

    def __init__(self, to: int | Callable[[str], None], path: str | None = None) -> None:
        super().__init__()
        self._path = path
        self._knows_secrets = False
        self._written: OrderedDict[int, _Written] = OrderedDict()
        self._lines: LineWriter | _Shown
        if isinstance(to, int):
            self._lines = LineWriter(to, _encoded, self._lost, gap=_gap)
        else:
            self._lines = _Shown(to)
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def emit(self, record: LogRecord) -> None:
        """Hand the record over as text: its arguments may change, and hold what is large."""
        if not self._knows_secrets:
            self._knows_secrets = True
            from codex_acp.transcript.given_values import secrets_of_environment  # most log nothing

            remember_secrets(secrets_of_environment(os.environ))
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - whatever an argument does when it is shown
            record.msg = f"a record of {record.pathname}:{record.lineno} is not to be shown: "
            record.msg += type(error).__name__
            record.args = record.exc_info = record.exc_text = record.stack_info = None
            text = self.format(record)
        if len(text) > MAX_RECORD:
            text = f"{cut(text, MAX_RECORD)} [...]"
        key = hash((record.name, record.levelno, text.partition(record.name)[2]))
        known = self._written.get(key)
        if known is not None and 0 <= record.created - known.at < REPEAT_SECONDS:
            known.repeats += 1
            return
        before = self._written.pop(key, None)
        note = f" [{before.repeats} more since the last]" if before and before.repeats else ""
        self._forget_older(record.created)
        self._written[key] = _Written(record.created, text.partition("\n")[0])
        self._lines.put(f"{text}{note}\n")

    def close(self) -> None:
        """Write what waits, as far as somebody takes it now; later records are dropped."""
        for written in self._written.values():
            self._log_repeats(written)
        self._written.clear()
        self._lines.close(CLOSE_SECONDS)
        super().close()

    def _forget_older(self, now: float) -> None:
        """Forget records that have not come again for long, or are too many; log their counts."""
        while self._written:
            oldest = next(iter(self._written.values()))
            if len(self._written) < MAX_REMEMBERED and now - oldest.at < REPEAT_SECONDS:
                return
            self._written.popitem(last=False)
            self._log_repeats(oldest)

    def _log_repeats(self, written: _Written) -> None:
        if written.repeats:
            self._lines.put(f"{written.head} [{written.repeats} more of it]\n")

    def _lost(self, reason: str) -> None:
        if self._path is not None:
            complain(
                f"codex-acp-sdk: the log {self._path} takes no line ({reason}); what is lost is "
                "counted there when it does"
            )


def _gap(lost: int) -> str:
    return f"[{lost} records are missing here: they could not be written]\n"


def _encoded(text: str) -> bytes:
    shown = scrub(text.removesuffix("\n"), MAX_RECORD + 1024).translate(_CONTROLS)
    return f"{shown}\n".encode(errors="backslashreplace")


_MAX_TEXT = 1_000

logger = logging.getLogger(__name__)


def log_entry(entry: Entry) -> None:
    """Log an event in the words of ``codex-acp-sdk transcript``: at INFO, a message's name at
    DEBUG."""
    from codex_acp.cli.transcript_lines import tell
    from codex_acp.routing.display import visible

    told = tell(entry.event)
    level = logging.DEBUG if told.kind == "wire" else logging.INFO
    if not logger.isEnabledFor(level):
        return
    ref = entry.event.ref
    owner = (ref.session_id or ref.thread_id or "")[-8:]
    parts = (owner, f"{told.start} > {told.end}", told.kind, told.verb, told.about, told.detail)
    text = " ".join(part for part in parts if part)
    logger.log(level, "%s", visible(text[:_MAX_TEXT]))
