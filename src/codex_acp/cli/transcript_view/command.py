"""``codex-acp-sdk transcript``: reads the file, and shows or writes what was chosen of it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codex_acp.cli.interrupts import FAILED, failed
from codex_acp.cli.terminal import rows_of
from codex_acp.cli.transcript_view.lines import Line, follow, read
from codex_acp.cli.transcript_view.page_data import page_data, page_text, write_page
from codex_acp.cli.transcript_view.terminal import Rows, tell
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.cli.transcript_view.arguments import TranscriptOptions


def transcript(options: TranscriptOptions) -> int:
    """Show the transcript, or write its page; the exit code."""
    try:
        if options.html is not None:
            return _write_page(options, options.html)
        return _show(options, follow(options.file) if options.follow else read(options.file))
    except MisuseError as error:
        return failed("transcript", error)


def _show(options: TranscriptOptions, lines: Iterable[Line | None]) -> int:
    rows = Rows(sys.stdout)
    for line in lines:
        if line is None:
            sys.stdout.flush()
        elif line.entry is None:
            if options.json:
                rows.unread += 1
            else:
                rows.unreadable(line)
        else:
            told = tell(line.entry.event)
            if not options.selection.fits(line.entry, told):
                continue
            if options.json:
                sys.stdout.write(line.text + "\n")
            else:
                rows.event(line.entry, told)
    sys.stdout.flush()
    if not options.json:
        sys.stderr.write("\n".join(rows_of(rows.summary(), sys.stderr)) + "\n")
    elif rows.unread:
        sys.stderr.write(f"{rows.unread} lines could not be read\n")
    return FAILED if rows.unread else 0


def _write_page(options: TranscriptOptions, out: str) -> int:
    with suppress(OSError, ValueError):
        if Path(out).samefile(options.file):
            message = f"the page {out!r} would take the place of the transcript; name another file"
            raise MisuseError(message)
    data = page_data(read(options.file), options.selection)
    write_page(out, page_text(options.file, data))
    unread = f"; {data.unread} lines could not be read" if data.unread else ""
    sys.stderr.write(f"{len(data.rows)} events in {out}{unread}\n")
    return FAILED if data.unread else 0
