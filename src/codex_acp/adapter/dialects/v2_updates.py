"""Tells a client that speaks ACP v2; asking it is apart: most turns ask nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.v2.updates import updates_of
from codex_acp.wire.codec import encode

if TYPE_CHECKING:
    from codex_acp.mapping.events import SessionEvent


def written(event: SessionEvent) -> list[bytes]:
    """The updates that tell of an event, as JSON."""
    return [encode(update) for update in updates_of(event)]
