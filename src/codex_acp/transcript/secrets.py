"""PURE: tokens, keys and what a client gave as a secret are taken out of any text.

Owns what counts as a secret in a text. Patterns are compiled when the first text is looked at.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codex_acp.jsonrpc.message import JsonValue

REDACTED: Final = "[redacted]"
"""Stands where a secret was."""

_MAX_TEXT: Final = 4096
"""Characters of one text that are recorded: more than any reason needs, and a bound on the work."""

_SECRET_FIELD: Final = (
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|cookie|(?:user|device).?code|verifier"
    r"|(?:api|private|access).?key"
)
"""A form field with such a name has no recorded value, whatever was asked for."""

_MIN_SECRET: Final = 6
"""Characters of a value that is told as a secret; a shorter one would be in every other word."""

_MIN_BEGUN: Final = 3
"""Characters of one that are taken out where a text ends with them: the rest may follow."""

_MIN_LINE: Final = 12
"""Characters of a line of such a value that is taken out by itself: a key, no word of a text."""

_MAX_KNOWN: Final = 2000
"""Forms of values that are remembered; each session of an editor brings a handful."""


class _Known(LastOnes[str, None]):
    """The longest first when they are looked for, as one may be a part of another."""

    _ordered: tuple[str, ...] = ()

    @property
    def ordered(self) -> tuple[str, ...]:
        """Made anew when something was told or forgotten."""
        if len(self._ordered) != len(self):
            self._ordered = tuple(sorted(self, key=len, reverse=True))
        return self._ordered

    def tell(self, values: Iterable[str]) -> None:
        """Remember these."""
        self.update(dict.fromkeys(values))
        self._ordered = ()


_known: Final = _Known(_MAX_KNOWN)
"""Of the whole process, as its log is; in the order in which they were told."""


def remember_secrets(values: Iterable[str]) -> None:
    """From now on `scrub` takes these out, however they look: a client gave them as secrets."""
    for value in values:
        if len(value) >= _MIN_SECRET:
            _known.tell(spellings(value))


def spellings(value: str) -> Iterator[str]:
    """How a value may stand in a text: as it is, quoted, escaped, in a URL, and line by line."""
    from urllib.parse import quote, quote_plus  # most programs are told none

    for text in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE)):
        plain = text.encode("utf-8", "replace").decode()
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
            yield from (escaped, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), escaped))


def scrub(text: str, limit: int = _MAX_TEXT) -> str:
    """``text`` with every token, key and query string replaced by `REDACTED`.

    Of one that is longer than ``limit`` the beginning, and how much was left out.
    """
    head = text if len(text) <= limit else cut(text, limit)
    made = without(head, (*_told(head), *_looking(head)))
    return made if head is text else f"{made} [{len(text) - len(head)} more characters]"


def cut(text: str, limit: int) -> str:
    """At most the first ``limit`` characters, to the end of a word.

    Half a token is not known for one, nor is half of what was told, which may have spaces.
    """
    seen = text[: limit + max(map(len, _known.ordered[:1]), default=0)]
    spans = tuple(_told(seen))
    end = text.rfind(" ", 0, limit)
    while begun := [start for start, stop in spans if start < end < stop]:
        end = text.rfind(" ", 0, min(begun))
    return text[: max(end, 0)]


def without(text: str, spans: Iterable[tuple[int, int]], begin: int = 0) -> str:
    """``text`` from ``begin`` on, with `REDACTED` for each of ``spans``, which may overlap."""
    made, at = "", begin
    for start, end in sorted(spans):
        if end > at:
            if start >= at or not made:
                made += text[at : max(start, at)] + REDACTED
            at = end
    return made + text[at:]


def _without_told(text: str) -> str:
    for secret in _known.ordered:
        text = text.replace(secret, REDACTED)
    return text


def _told(text: str) -> Iterator[tuple[int, int]]:
    for secret in _known.ordered:
        yield from _places(secret, text)


def _places(secret: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)


def _looking(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that look like a secret: rather too many than too few."""
    from codex_acp.transcript.secret_shapes import fragments, matches  # most programs log nothing

    for found in matches(text):
        # What stays, the name before a value, is its groups.
        yield (found.end(found.lastindex) if found.lastindex else found.start()), found.end()
    yield from fragments(text)


@cache
def _begun_login() -> re.Pattern[str]:
    """The password of a URL that has not come to its ``@``; a port has digits alone."""
    return re.compile(r"(://[^\s/@?#:]*:)(?=\d*[^\s/@?#\d])[^\s/@?#]+\Z")


def secret_spans(text: str, typed: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
    """Where in ``text`` a secret stands, or at its end begins: for one that comes in pieces.

    What a person has ``typed`` is one, too.
    """
    yield from _looking(text)
    for found in _begun_login().finditer(text):
        yield found.end(1), found.end()
    for secret in (*_known, *typed):
        yield from _places(secret, text)
        first = secret[:_MIN_BEGUN]
        at = text.find(first, max(0, len(text) - len(secret) + 1))
        while at >= 0 and not secret.startswith(text[at:]):
            at = text.find(first, at + 1)
        if at >= 0:
            yield at, len(text)


def without_told(value: JsonValue) -> JsonValue:
    """``value`` without what was told as a secret: the rest, such as a link, is for the person."""
    if isinstance(value, str):
        return _without_told(value)
    if isinstance(value, list):
        return [without_told(one) for one in value]
    if isinstance(value, dict):
        return {name: without_told(one) for name, one in value.items()}
    return value


def scrub_fields(content: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields of a form, by name, scrubbed."""
    return {
        scrub(name): REDACTED
        if re.search(_SECRET_FIELD, name) and not _counts(name, value)
        else scrub_json(value)
        for name, value in content.items()
    }


def _counts(name: str, value: JsonValue) -> bool:
    """Whether it is the tokens of a model that are counted there, and no secret."""
    if re.fullmatch(r"(?i)token_?usage", name):
        return isinstance(value, dict)
    return isinstance(value, int) and re.fullmatch(r"(?i)[a-z_]*tokens", name) is not None


def scrub_json(value: JsonValue) -> JsonValue:
    """``value`` with all of its texts scrubbed, and what stands under a secret's name left out."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrub_json(one) for one in value]
    if isinstance(value, dict):
        return scrub_fields(value)
    return value
