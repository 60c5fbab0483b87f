"""PURE: tokens, keys and what a client gave as a secret are taken out of any text.

Owns what counts as a secret in a text. Patterns are compiled when the first text is looked at.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codex_acp.jsonrpc.message import JsonValue

REDACTED: Final = "[redacted]"
"""Stands where a secret was."""

_MAX_TEXT: Final = 4096
"""Characters of one text that are recorded: more than any reason needs, and a bound on the work."""

_SECRET_NAME: Final = (
    r"(?:api|access|private|secret|auth|signing|encryption)[_-]?key"
    r"|token|secret|password|passwd|passphrase|pwd|credentials?|signature"
)
"""Names whose value is a secret where they stand before ``=`` or ``:``."""

_PEM_KEY: Final = (
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_HEADER: Final = (
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)\b(\W{0,3}[:=]).*"
)
_PAIR: Final = (
    rf"(?i)((?:{_SECRET_NAME})[\"']?\s{{0,3}}[=:]\s{{0,3}})"
    r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s&\"',;]+)"
)
# From one "://" to the next at most, so that a text full of them takes no longer.
_URL_QUERY: Final = r"(://(?:(?!://)[^\s?#\"'<>])*+[?#])[^\s\"'<>]+"
_KNOWN_PREFIX: Final = (
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{8,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,})"
)

_SECRET_FIELD: Final = (
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|cookie"
    r"|(?:api|private|access).?key"
)
"""A form field with such a name has no recorded value, whatever was asked for."""

_MIN_SECRET: Final = 6
"""Characters of a value that is told as a secret; a shorter one would be in every other word."""

_MIN_LINE: Final = 12
"""Characters of a line of such a value that is taken out by itself: a key, no word of a text."""

_MAX_KNOWN: Final = 2000
"""Forms of values that are remembered; each session of an editor brings a handful."""

_known: dict[str, None] = {}
"""Of the whole process, as its log is; in the order in which they were told."""


def remember_secrets(values: Iterable[str]) -> None:
    """From now on `scrub` takes these out, however they look: a client gave them as secrets."""
    for value in values:
        if len(value) >= _MIN_SECRET:
            _known.update(dict.fromkeys(spellings(value)))
    while len(_known) > _MAX_KNOWN:
        del _known[next(iter(_known))]


def spellings(value: str) -> Iterator[str]:
    """How a value may stand in a text: as it is, quoted, escaped, in a URL, and line by line."""
    from urllib.parse import quote, quote_plus  # most programs are told none

    for text in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE)):
        plain = text.encode("utf-8", "replace").decode()
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
            yield from (escaped, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), escaped))


@cache
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Applied in this order. Rather too much is taken out than too little."""
    return tuple(
        (re.compile(pattern), replacement)
        for pattern, replacement in (
            (_PEM_KEY, REDACTED),  # also one that was cut off
            (_HEADER, rf"\1\2 {REDACTED}"),  # to the end of its line
            (r"(?i)\b(bearer)\s+[^\s\"',;]+", rf"\1 {REDACTED}"),
            (r"(://)[^\s/@?#]+@", rf"\1{REDACTED}@"),  # the user of a URL
            (_URL_QUERY, rf"\1{REDACTED}"),
            (r"\?(?=[\w.%~-]+=)[^\s\"'<>]+", f"?{REDACTED}"),  # a query on its own
            (_PAIR, rf"\1{REDACTED}"),  # name=value, name: value, "name": "value"
            (r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*", REDACTED),  # a JWT
            (_KNOWN_PREFIX, REDACTED),
        )
    )


def scrub(text: str, limit: int = _MAX_TEXT) -> str:
    """``text`` with every token, key and query string replaced by `REDACTED`.

    Of one that is longer than ``limit`` the beginning, and how much was left out.
    """
    text = _without_told(text)
    left_out = ""
    if len(text) > limit:
        # Cut between words: half a token is not known for one.
        head = text[:limit].rpartition(" ")[0]
        left_out = f" [{len(text) - len(head)} more characters]"
        text = head
    for pattern, replacement in _rules():
        text = pattern.sub(replacement, text)
    return text + left_out


def _without_told(text: str) -> str:
    for secret in sorted(_known, key=len, reverse=True):  # one may be a part of another
        text = text.replace(secret, REDACTED)
    return text


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
        scrub(name): REDACTED if re.search(_SECRET_FIELD, name) else scrub_json(value)
        for name, value in content.items()
    }


def scrub_json(value: JsonValue) -> JsonValue:
    """``value`` with all of its texts scrubbed, and what stands under a secret's name left out."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrub_json(one) for one in value]
    if isinstance(value, dict):
        return scrub_fields(value)
    return value
