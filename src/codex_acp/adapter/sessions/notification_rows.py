"""The rows of the notification table that show something, and what has to be known of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS
from codex_acp.mapping.step import Ignored
from codex_acp.transcript.secrets import scrub_json, without_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

    _Row = Callable[[SessionState, Any], SessionEvents]

__all__ = ["ROWS", "SHOW_FILES", "WITHOUT_SECRETS"]

ROWS: Final = {
    method: cast("_Row", row)
    for method, row in NOTIFICATION_HANDLERS.items()
    if not isinstance(row, Ignored)
}

SHOW_FILES: Final = frozenset({"item/started", "item/completed", "item/fileChange/patchUpdated"})
"""Notifications that may show the files of an edit whole."""

WITHOUT_SECRETS: Final[dict[str, Callable[[JsonValue], JsonValue]]] = {
    "mcpServer/startupStatus/updated": scrub_json,
    "warning": without_told,
    "guardianWarning": without_told,
    "configWarning": without_told,
    "deprecationNotice": without_told,
}
"""What Codex says in its own words may quote what a client gave: headers, an environment, a URL."""
