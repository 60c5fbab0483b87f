"""The rows of the notification table that show something, and what has to be known of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, PIECES
from codex_acp.mapping.step import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

    _Row = Callable[[SessionState, Any], SessionEvents]

__all__ = ["PIECES", "QUOTES_SECRETS", "ROWS", "SHOW_FILES"]

ROWS: Final = {
    method: cast("_Row", row)
    for method, row in NOTIFICATION_HANDLERS.items()
    if not isinstance(row, Ignored)
}

SHOW_FILES: Final = frozenset({"item/started", "item/completed", "item/fileChange/patchUpdated"})
"""Notifications that may show the files of an edit whole."""

QUOTES_SECRETS: Final = "mcpServer/startupStatus/updated"
"""Its error may quote what the server was given: headers, an environment, a URL."""
