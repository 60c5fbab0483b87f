"""PURE: texts that come in pieces, recorded piece by piece without a secret that spans them.

Owns the end of each text so far. What begins a secret can only be known for one by what follows:
of a key its first letters stay, of what was told as a secret fewer still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes
from codex_acp.transcript.secrets import REDACTED, secret_spans

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.jsonrpc.message import JsonValue

REMEMBERED: Final = 1024
"""Characters of a text that are remembered: no key is longer."""

MAX_TEXTS: Final = 200
"""Texts that are remembered at once; the oldest is forgotten."""


class Pieces:
    """Of the texts of one connection; ``typed`` is what must not be recorded besides."""

    def __init__(self, typed: Collection[str]) -> None:
        self._typed = typed
        self._ends: LastOnes[str, str] = LastOnes(MAX_TEXTS)

    def without_secrets(self, method: str | None, params: JsonValue) -> JsonValue:
        """The params of a notification, whose piece of a text has no part of a secret."""
        if not isinstance(params, dict):
            return params
        delta = params.get("delta")
        if isinstance(delta, str):  # of Codex
            about = f"{method} {params.get('threadId')} {params.get('itemId')}"
            return {**params, "delta": self._recorded(about, delta)}
        update = params.get("update")
        if not isinstance(update, dict):
            return params
        kind, content = update.get("sessionUpdate"), update.get("content")
        if not (isinstance(kind, str) and kind.endswith("_chunk") and isinstance(content, dict)):
            return params
        text = content.get("text")
        if not isinstance(text, str):
            return params
        about = f"{kind} {params.get('sessionId')} {update.get('messageId')}"
        kept = {**content, "text": self._recorded(about, text)}
        return {**params, "update": {**update, "content": kept}}

    def _recorded(self, about: str, piece: str) -> str:
        before = self._ends.get(about, "")
        text = before + piece
        self._ends[about] = text[-REMEMBERED:]
        made, at = "", len(before)
        for start, end in sorted(secret_spans(text, self._typed)):
            if end > at:
                made += text[at : max(start, at)] + REDACTED
                at = end
        return made + text[at:]
