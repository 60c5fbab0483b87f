"""PURE: what may not be recorded is taken out of an event (contract 5.2).

What a person typed goes, unless content was asked for; tokens and
keys go in any case, from every text but the identifiers in ``ref``, which must stay comparable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from codex_acp._last_ones import LastOnes
from codex_acp._urls import bare_url
from codex_acp.transcript.events import (
    ElicitationAnswered,
    ElicitationRequested,
    SessionRef,
    TranscriptEvent,
    WireMessage,
)
from codex_acp.transcript.secrets import REDACTED, scrub, scrub_fields, secret_spans, without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codex_acp.jsonrpc.message import JsonValue

_T = TypeVar("_T")
_LONG_ANSWER: Final = 4
"""Characters from which an answer is found inside a word too; a shorter one would be anywhere."""


def redacted(event: TranscriptEvent, *, content: bool = False) -> TranscriptEvent:
    """``event`` without secrets; ``content`` keeps what was typed into forms."""
    if isinstance(event, ElicitationAnswered):
        event = _without_answer(event, keep=content)
    elif isinstance(event, ElicitationRequested) and event.url is not None:
        event = replace(event, url=bare_url(event.url))
    elif isinstance(event, WireMessage) and event.message is not None:
        event = replace(event, message=scrub_fields(event.message))
    return _scrub_object(event)


def _without_answer(event: ElicitationAnswered, *, keep: bool) -> ElicitationAnswered:
    if event.content is None:
        return event
    if keep:
        return replace(event, content=scrub_fields(event.content))
    problem = event.problem
    if problem is not None:
        # Whoever wrote it must not quote values; this makes a slip harmless.
        quoted = {text for value in event.content.values() for text in _quotes(value)}
        for text in sorted(quoted, key=len, reverse=True):
            edge = "" if len(text) >= _LONG_ANSWER else r"\b"
            problem = re.sub(edge + re.escape(text) + edge, lambda _: REDACTED, problem)
    return replace(event, content=None, problem=problem)


def _quotes(value: JsonValue) -> Iterator[str]:
    """How a value, or any value inside it, may be quoted in a text."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _quotes(key)
            yield from _quotes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _quotes(one)
    elif value is not None and value != "" and not isinstance(value, bool):
        yield from (str(value), repr(value), json.dumps(value))


def _scrub_object(value: _T) -> _T:
    """A copy of a dataclass with all texts scrubbed: a field has to be exempted, not remembered."""
    make: Callable[..., _T] = type(value)
    assert is_dataclass(value)
    names = [one.name for one in fields(value)]
    return make(**{name: _scrub_member(getattr(value, name)) for name in names})


def _scrub_member(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | SessionRef):
        return value
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, tuple):
        return tuple(_scrub_member(one) for one in value)
    if isinstance(value, Mapping):
        return value
    return _scrub_object(value)


# PURE: which of the values that a client or a configuration gives under names are secrets.


# PURE: texts that come in pieces, recorded piece by piece without a secret that spans them.

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
