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

_SECRET_NAME: Final = (
    r"(?:api|access|account|private|secret|auth|signing|encryption)[_-]?key"
    r"|token|secret|password|passwd|passphrase|pwd|credentials?|signature"
    r"|(?:user|device)[_-]?code|code[_-]?verifier"
    r"|(?<![a-z])(?:pass|pat|auth|otp)(?==)"
)
"""Names whose value is a secret where they stand before ``=`` or ``:``."""

_OPTION: Final = (
    rf"(?i)(?<!\S)(--?(?:[\w-]{{0,40}}[_-])?(?:{_SECRET_NAME}) +)"
    r"(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|(?!-)[^\s\"',;]+)"
)
"""An option of a command line, whose value is the next word."""

_LOGIN: Final = r"(?<!\S)((?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"']+:)[^\s\"']+"
"""``curl -u name:password``."""

_HOOK: Final = r"(?i)(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s\"'<>]+"
"""Addresses that are a secret by themselves."""

_PEM_KEY: Final = (
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_HEADER: Final = (
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)\b(\W{0,3}[:=]).*"
)
_PAIR: Final = (
    rf"(?i)((?:{_SECRET_NAME})(?:\\{{0,8}}[\"'])?\s{{0,3}}(?:[=:]|%3d)\s{{0,3}})"
    r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\{1,8}[\"'][^\"'\\]*|[^\s&\"',;]+)"
)
# From one "://" to the next at most, so that a text full of them takes no longer.
_URL_QUERY: Final = (
    r"(://(?:(?!://)[^\s?#\"'<>])*+[?#])(?!(?<=#)L\d{1,7}(?:-L\d{1,7})?(?![\w%=&/+~-]))[^\s\"'<>]+"
)
"""A query or a fragment, which may hold a token; that of a line of a file does not."""
_KNOWN_PREFIX: Final = (
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{8,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,})"
)

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

_known: LastOnes[str, None] = LastOnes(_MAX_KNOWN)
"""Of the whole process, as its log is; in the order in which they were told."""


def remember_secrets(values: Iterable[str]) -> None:
    """From now on `scrub` takes these out, however they look: a client gave them as secrets."""
    for value in values:
        if len(value) >= _MIN_SECRET:
            _known.update(dict.fromkeys(spellings(value)))


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
            (
                r"\b(Basic|Digest|Token) +(?=[A-Za-z0-9+/]*[0-9+/])[A-Za-z0-9+/]{12,}=*",
                rf"\1 {REDACTED}",
            ),
            (_HOOK, rf"\1{REDACTED}"),
            (_LOGIN, rf"\1{REDACTED}"),
            (_OPTION, rf"\1{REDACTED}"),
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


@cache
def _begun_login() -> re.Pattern[str]:
    """The password of a URL that has not come to its ``@``; a port has digits alone."""
    return re.compile(r"(://[^\s/@?#:]*:)(?=\d*[^\s/@?#\d])[^\s/@?#]+\Z")


def secret_spans(text: str, typed: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
    """Where in ``text`` a secret stands, or at its end begins: for one that comes in pieces.

    What a person has ``typed`` is one, too.
    """
    for pattern in (*(rule for rule, _ in _rules()), _begun_login()):
        for found in pattern.finditer(text):
            # What a rule keeps, the name before a value, is its groups.
            yield (found.end(found.lastindex) if found.lastindex else found.start()), found.end()
    for secret in (*_known, *typed):
        at = text.find(secret)
        while at >= 0:
            yield at, at + len(secret)
            at = text.find(secret, at + 1)
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
