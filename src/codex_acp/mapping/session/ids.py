"""The id of a session, which is that of its thread: Codex knows it under several spellings.

Source: ``Uuid::parse_str`` of Rust's ``uuid``, through which Codex reads ``threadId``.
"""

from __future__ import annotations

import re
from typing import Final

_HYPHENATED: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_SPELLING: Final = re.compile(
    rf"(?i:(?:urn:uuid:)?({_HYPHENATED})|\{{({_HYPHENATED})\}}|([0-9a-f]{{32}}))"
)


def canonical_id(session_id: str) -> str:
    """The id as Codex itself writes it; what is no UUID is as it was."""
    found = _SPELLING.fullmatch(session_id)
    if found is None:
        return session_id
    digits = next(filter(None, found.groups())).lower().replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
