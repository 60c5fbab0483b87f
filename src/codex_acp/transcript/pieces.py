"""PURE: texts that come in pieces, recorded piece by piece without a secret that spans them.

Owns the end of each text so far. What begins a secret can only be known for one by what follows:
of a key its first letters stay, of what was told as a secret fewer still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes
from codex_acp.transcript.secrets import secret_spans, without

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.jsonrpc.message import JsonValue

REMEMBERED: Final = 1024
"""Characters of a text that are remembered; of a longer secret its beginning is among them."""

BEGINNING: Final = 128
"""Of them those before and behind where a longer secret has begun."""

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
        spans = list(secret_spans(text, self._typed))
        self._ends[about] = _end(text, min((a for a, b in spans if b == len(text)), default=None))
        return without(text, spans, len(before))


def _end(text: str, begun: int | None) -> str:
    """Return the end of ``text`` to remember, from where an unfinished secret has ``begun``."""
    if begun is None or begun >= len(text) - REMEMBERED:
        return text[-REMEMBERED:]
    return text[max(0, begun - BEGINNING) : begun + BEGINNING] + text[2 * BEGINNING - REMEMBERED :]
