"""Tells a client that speaks ACP v1; asking it is apart: most turns ask nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.mapping.events import Notice
from codex_acp.mapping.v1.updates import updates_of
from codex_acp.wire.codec import encode

if TYPE_CHECKING:
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.mapping.events import SessionEvent

logger = logging.getLogger(__name__)


def written(event: SessionEvent, client: ClientFeatures) -> list[bytes]:
    """The updates that tell of an event, as JSON."""
    updates = updates_of(event, client)
    if not updates and isinstance(event, Notice):
        logger.warning("Codex says: %s", event.title)
    return [encode(update) for update in updates]
