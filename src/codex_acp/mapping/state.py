"""What the mapping remembers of a session between two notifications.

Changed in place by the functions of the mapping, and by nothing else; the same notifications in
the same order always give the same state and the same updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import TurnError

__all__ = ["SessionState"]


@dataclass(slots=True)
class SessionState:
    """One session's memory: text already sent, and the last error of each running turn."""

    sent_text: dict[str, int] = field(default_factory=dict)
    """Item id → characters of it that were sent; gone when a turn of the thread completes."""

    turn_errors: dict[str, TurnError] = field(default_factory=dict)
    """Turn id → the last error that Codex will not retry; gone when the turn completes."""

    open_calls: set[str] = field(default_factory=set)
    """Tool calls that were announced and have not ended."""
