"""One line for the person that no item of Codex carries: a decline, a warning, a notice.

Owns how it is sent and that it is not repeated. Must not know what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from codex_acp.acp._generated.v1.models import (
    AgentThoughtChunkSessionUpdate,
    NoticeSessionUpdate,
    TextContentBlock,
)
from codex_acp.routing.display import TITLE_LIMIT, as_code, fenced, shortened, still_visible

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import SessionUpdate
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["Severity", "say", "say_once", "said", "thought_line"]

Severity: TypeAlias = Literal["info", "warning", "error"]
"""How a ``notice`` is to be presented."""

MAX_REMEMBERED: Final = 256
"""Lines that are not repeated; a session has a handful, and a hostile server has no limit."""

DETAILS_LIMIT: Final = 20_000
"""Characters of the details: what a hook or a server writes when it fails can be any length."""

_NO_TEXT: Final = "Codex sent a warning without a text"


def said(
    text: str,
    client: ClientFeatures,
    severity: Severity = "warning",
    details: str | None = None,
) -> SessionUpdate:
    """A ``notice`` if the client advertised them, else a chunk of thought on a line of its own.

    ``text`` stands alone; ``details`` are what helps to act on it. Whoever wrote what they quote:
    a notice is plain text, in which all is made visible; a thought is Markdown, and they are code.
    """
    text = still_visible(text.strip()) or _NO_TEXT
    details = still_visible(details.strip()) if details else None
    if not client.notices:
        return thought_line("\n".join(_markdown(part) for part in (text, details) if part))
    if details:
        return NoticeSessionUpdate(severity=severity, title=text, description=details)
    return NoticeSessionUpdate(severity=severity, title=text)


def thought_line(text: str) -> AgentThoughtChunkSessionUpdate:
    """A chunk of thought that belongs to no item, on lines of its own."""
    return AgentThoughtChunkSessionUpdate(content=TextContentBlock(text=f"\n{text}\n"))


def say(
    state: SessionState, text: str, severity: Severity = "warning", details: str | None = None
) -> Updates:
    """`said` to the session's client, of words that Codex passes on: bounded."""
    shown = shortened(text.strip(), TITLE_LIMIT)
    more = shortened(details.strip(), DETAILS_LIMIT) if details else None
    return (said(shown, state.client, severity, more),)


def _markdown(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > 1 and any(as_code(line) != line for line in lines):
        return fenced(text)
    return "\n".join(map(as_code, lines))


def say_once(
    state: SessionState,
    text: str,
    severity: Severity = "warning",
    details: str | None = None,
    *,
    key: tuple[str | None, ...] = (),
) -> Updates:
    """The same, but nothing if it was said before in this session.

    ``key`` is what makes it the same; by default that is all of its text.
    """
    key = key or (text, details)
    if key in state.said:
        return ()
    state.said[key] = None
    if len(state.said) > MAX_REMEMBERED:
        del state.said[next(iter(state.said))]
    return say(state, text, severity, details)
