"""One line for the person that no item of Codex carries: a decline, a warning, a notice.

Owns that it is bounded and not repeated. Must not know what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.session_events import Notice, SessionEvents, Severity
from codex_acp.routing.display import TITLE_LIMIT, shortened, still_visible

if TYPE_CHECKING:
    from codex_acp.mapping.state import SessionState

DETAILS_LIMIT: Final = 20_000
"""Characters of the details: what a hook or a server writes when it fails can be any length."""

_NO_TEXT: Final = "Codex sent a warning without a text"


def said(
    text: str, severity: Severity = "warning", details: str | None = None, *, aside: bool = False
) -> Notice:
    """A line for the person. ``text`` stands alone; ``details`` are what helps to act on it.

    Whoever wrote what they quote, all in them is made visible.
    """
    text = still_visible(text.strip()) or _NO_TEXT
    details = still_visible(details.strip()) if details else None
    return Notice(severity, text, details, aside)


def say(
    state: SessionState,
    text: str,
    severity: Severity = "warning",
    details: str | None = None,
    *,
    aside: bool = False,
) -> SessionEvents:
    """`said`, of words that Codex passes on: bounded."""
    del state
    shown = shortened(text.strip(), TITLE_LIMIT)
    more = shortened(details.strip(), DETAILS_LIMIT) if details else None
    return (said(shown, severity, more, aside=aside),)


def say_once(
    state: SessionState,
    text: str,
    severity: Severity = "warning",
    details: str | None = None,
    *,
    key: tuple[str | None, ...] = (),
    aside: bool = False,
) -> SessionEvents:
    """The same, but nothing if it was said before in this session.

    ``key`` is what makes it the same; by default that is all of its text. ``aside`` as in `Notice`.
    """
    key = key or (text, details)
    if key in state.said:
        return ()
    state.said[key] = None
    return say(state, text, severity, details, aside=aside)
