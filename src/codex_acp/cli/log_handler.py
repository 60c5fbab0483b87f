"""Write the log's records without secrets and without blocking.

Owns the format of a line, the count of repeated records, and the text of a session's event. Loaded
after the start of Codex.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codex_acp._glyphs import CONTROL_CODES
from codex_acp._record import record
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
"""Time after a record in which its repeats are only counted."""
MAX_REMEMBERED: Final = 64
"""Most written records whose repeats are counted; one fault causes a few records in turn."""
CLOSE_SECONDS: Final = 0.25
"""Time to write the last lines when the process ends."""
_CODES: Final = {**CONTROL_CODES, ord("\n"): "\n  "}
"""Control character → its replacement. A further line is indented: it cannot look like a record."""


@record
class _WrittenRecord:
    """A record that was written."""

    at: float
    """Time of the record, in seconds since 1970."""
    first_line: str
    repeats: int = 0
    """Number of equal records since, which were not written."""


class LogHandler(logging.Handler):
    """Writes records to the descriptor ``to`` (of the file ``path``, or stderr), or calls ``to``
    with each record's text. Never blocks, never raises."""

    def __init__(self, to: int | Callable[[str], None], path: str | None = None) -> None:
        super().__init__()
        self._path = path
        self._knows_secrets = False
        self._written: OrderedDict[int, _WrittenRecord] = OrderedDict()
        """Hash of a record without its time → the record, the oldest first."""
        self._lines: LineWriter | None = None
        self._put: Callable[[str], None]
        if isinstance(to, int):
            gap = "[{} records are missing here: they could not be written]\n".format
            self._lines = LineWriter(to, self._encode, self._on_loss, gap=gap)
            self._put = self._lines.put
        else:
            self._put = lambda line: to(self._encode(line).decode())
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def emit(self, record: LogRecord) -> None:
        """Format a record now, since its arguments may change; then queue or count the text."""
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - the str() of an argument may raise any error
            record.msg = f"a record of {record.pathname}:{record.lineno} is not to be shown: "
            record.msg += type(error).__name__
            record.args = record.exc_info = record.exc_text = record.stack_info = None
            text = self.format(record)
        if len(text) > MAX_RECORD:
            self._remember_environment()  # the cut must split no secret
            text = f"{cut(text, MAX_RECORD)} [...]"
        text_after_time = text.partition(record.name)[2]
        key = hash((record.name, record.levelno, text_after_time))
        earlier = self._written.get(key)
        if earlier is not None and 0 <= record.created - earlier.at < REPEAT_SECONDS:
            earlier.repeats += 1
            return
        self._written.pop(key, None)
        note = f" [{earlier.repeats} more since the last]" if earlier and earlier.repeats else ""
        self._forget_older(record.created)
        self._written[key] = _WrittenRecord(record.created, text.partition("\n")[0])
        self._put(f"{text}{note}\n")

    def close(self) -> None:
        """Write the waiting lines within `CLOSE_SECONDS`; later records are dropped."""
        for written in self._written.values():
            self._log_repeats(written)
        self._written.clear()
        if self._lines is not None:
            self._lines.close(CLOSE_SECONDS)
        super().close()

    def _encode(self, text: str) -> bytes:
        """Return a record's bytes without secrets; `LineWriter` calls this method in a thread."""
        self._remember_environment()
        shown = scrub(text.removesuffix("\n"), MAX_RECORD + 1024).translate(_CODES)
        return f"{shown}\n".encode(errors="backslashreplace")

    def _remember_environment(self) -> None:
        if not self._knows_secrets:
            # Imported late: most processes log nothing.
            from codex_acp.transcript.given_values import secrets_of_environment

            remember_secrets(secrets_of_environment(os.environ))
            self._knows_secrets = True

    def _forget_older(self, now: float) -> None:
        """Forget old records, and make room for one more; log how often each was repeated."""
        while self._written:
            oldest = next(iter(self._written.values()))
            if len(self._written) < MAX_REMEMBERED and now - oldest.at < REPEAT_SECONDS:
                return
            self._written.popitem(last=False)
            self._log_repeats(oldest)

    def _log_repeats(self, written: _WrittenRecord) -> None:
        if written.repeats:
            self._put(f"{written.first_line} [{written.repeats} more of it]\n")

    def _on_loss(self, reason: str) -> None:
        if self._path is not None:
            complain(
                f"codex-acp-sdk: the log {self._path} takes no line ({reason}); what is lost is "
                "counted there when it does"
            )


_MAX_EVENT_TEXT = 1_000
"""Characters of an event in the log."""
logger = logging.getLogger(__name__)


def log_entry(entry: Entry) -> None:
    """Log an event of a transcript at INFO, but a message of the wire at DEBUG."""
    from codex_acp.cli.transcript_lines import describe
    from codex_acp.routing.display import visible

    event = describe(entry.event)
    level = logging.DEBUG if event.kind == "wire" else logging.INFO
    if not logger.isEnabledFor(level):
        return
    ref = entry.event.ref
    short_id = (ref.session_id or ref.thread_id or "")[-8:]
    parties = f"{event.sender} > {event.receiver}"
    parts = filter(None, (short_id, parties, event.kind, event.verb, event.about, event.detail))
    logger.log(level, "%s", visible(" ".join(parts)[:_MAX_EVENT_TEXT]))
