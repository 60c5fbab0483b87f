"""One line for the person that no item of Codex carries: a decline, a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import (
    AgentThoughtChunkSessionUpdate,
    NoticeSessionUpdate,
    TextContentBlock,
)

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import SessionUpdate
    from codex_acp.acp.capabilities import ClientFeatures

__all__ = ["said"]


def said(text: str, client: ClientFeatures) -> SessionUpdate:
    """A ``notice`` if the client advertised them, else a chunk of thought on a line of its own."""
    if client.notices:
        return NoticeSessionUpdate(severity="warning", title=text)
    return AgentThoughtChunkSessionUpdate(content=TextContentBlock(text=f"\n{text}\n"))
