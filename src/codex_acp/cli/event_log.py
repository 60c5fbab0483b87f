"""Writes the events of sessions as lines of the log: their events from INFO on, every message's
name at DEBUG.

The words are those of ``codex-acp-sdk transcript``; what a message holds is not logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.cli.transcript_view.terminal import tell
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.transcript.events import Entry

_MAX_TEXT = 1_000

logger = logging.getLogger(__name__)


def log_entry(entry: Entry) -> None:
    """Log one entry of the transcript."""
    told = tell(entry.event)
    level = logging.DEBUG if told.kind == "wire" else logging.INFO
    if not logger.isEnabledFor(level):
        return
    ref = entry.event.ref
    owner = (ref.session_id or ref.thread_id or "")[-8:]
    parts = (owner, f"{told.start} > {told.end}", told.kind, told.verb, told.about, told.detail)
    text = " ".join(part for part in parts if part)
    logger.log(level, "%s", visible(text[:_MAX_TEXT]))
