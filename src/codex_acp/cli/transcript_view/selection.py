"""PURE: which events of a transcript are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codex_acp.cli.transcript_view.telling import Told
    from codex_acp.transcript.events import Entry

_AGO: Final = re.compile(r"(\d{1,9})\s*([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Selection:
    """An event is shown if it fits every member that is set; of one member, any word will do."""

    sessions: tuple[str, ...] = ()
    """Beginnings of the ids of sessions or threads."""
    kinds: tuple[str, ...] = ()
    """Kinds (``approval``), or types (``approval.refused``)."""
    decided: tuple[str, ...] = ()
    since: str | None = None
    """As the transcript writes a time."""
    until: str | None = None

    def fits(self, entry: Entry, told: Told, *, wire: bool = False) -> bool:
        """Whether it is shown. Of the wire only what is asked for as a kind, or all by ``wire``."""
        ref = entry.event.ref
        if self.sessions and not any(
            owner is not None and owner.startswith(self.sessions)
            for owner in (ref.session_id, ref.thread_id)
        ):
            return False
        if wire and told.kind == "wire":
            pass
        elif self.kinds:
            if told.kind not in self.kinds and entry.event.type not in self.kinds:
                return False
        elif told.kind == "wire":
            return False
        if self.decided and not set(self.decided) & set(told.decided):
            return False
        # The times of a transcript have one form, so they compare as texts.
        if self.since is not None and entry.time < self.since:
            return False
        return self.until is None or entry.time <= self.until


def moment(text: str, now: datetime) -> str:
    """A time as the transcript writes it: from one in ISO 8601, or from ``10m`` (ago; s, m, h, d).

    Without a zone it is UTC, as in the transcript. Raises ValueError for anything else.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        try:
            when = now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        except OverflowError as error:
            raise ValueError(text) from error
    else:
        when = datetime.fromisoformat(text.strip())
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    written = when.astimezone(UTC).isoformat(timespec="milliseconds")
    return written.removesuffix("+00:00") + "Z"
