"""Define the rows of the notification table that are no function: reasons to ignore."""

from __future__ import annotations

from typing import NamedTuple


class Ignored(NamedTuple):
    """A notification that causes no event, and why."""

    reason: str
