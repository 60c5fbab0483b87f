"""Define the row of the notification table for a notification that the mapping ignores."""

from __future__ import annotations

from typing import NamedTuple


class Ignored(NamedTuple):
    """Reason why a notification causes no event."""

    reason: str
