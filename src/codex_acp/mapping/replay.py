"""Items of the past (``session/load``) → updates, each whole.

Must not know how they are read. The functions are those of live items: what they show in the end
is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.items import finished, started
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

_RUNNING: Final = "inProgress"


def whole_item(state: SessionState, item: ThreadItem, *, turn_running: bool) -> SessionEvents:
    """An item of a thread's history: a tool call is final in its one ``tool_call``.

    One that is in progress stays open if its turn runs; else it was cut off, and has failed.
    """
    if turn_running and _status(item) == _RUNNING:
        return started(state, item)
    return finished(state, item, live=False)


def _status(item: ThreadItem) -> object:
    if isinstance(item, UnknownVariant):
        return item.wire().get("status")
    return getattr(item, "status", None)
