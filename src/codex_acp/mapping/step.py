"""What a row of the notification table is besides a function: a reason to ignore."""

from __future__ import annotations

from typing import NamedTuple


class Ignored(NamedTuple):
    """A notification that causes no event, and why."""

    reason: str
