"""PURE: what may not be recorded is taken out of an event (contract 5.2).

Owns what counts as a secret. What a person typed goes, unless content was asked for; tokens and
keys go in any case, from every text but the identifiers in ``ref``, which must stay comparable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, quote_plus, urlsplit

from codex_acp.transcript.events import (
    ElicitationAnswered,
    ElicitationRequested,
    SessionRef,
    TranscriptEvent,
    WireMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codex_acp.jsonrpc.message import JsonValue

__all__ = [
    "REDACTED",
    "bare_url",
    "redacted",
    "remember_secrets",
    "scrub",
    "scrub_json",
    "spellings",
]

REDACTED: Final = "[redacted]"
"""Stands where a secret was."""

_T = TypeVar("_T")

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

_RULES: Final = tuple(
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
"""Applied in this order. Rather too much is taken out than too little."""

_SECRET_FIELD: Final = re.compile(
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|cookie"
    r"|(?:api|private|access).?key"
)
"""A form field with such a name has no recorded value, whatever was asked for."""

_LONG_ANSWER: Final = 4
"""Characters from which an answer is found inside a word too; a shorter one would be anywhere."""

_OPAQUE: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_.~-]{20,}")
"""A segment of a path that looks made by a machine and may itself be the token."""


_MIN_SECRET: Final = 6
"""Characters of a value that is told as a secret; a shorter one would be in every other word."""

_MIN_LINE: Final = 12
"""Characters of a line of such a value that is taken out by itself: a key, no word of a text."""

_MAX_KNOWN: Final = 2000
"""Forms of values that are remembered; each session of an editor brings a handful."""

_ESCAPE: Final = re.compile("%[0-9A-F]{2}")

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
    for text in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE)):
        plain = text.encode("utf-8", "replace").decode()
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
            yield from (escaped, _ESCAPE.sub(lambda found: found[0].lower(), escaped))


def redacted(event: TranscriptEvent, *, content: bool = False) -> TranscriptEvent:
    """``event`` without secrets; ``content`` keeps what was typed into forms."""
    if isinstance(event, ElicitationAnswered):
        event = _without_answer(event, keep=content)
    elif isinstance(event, ElicitationRequested) and event.url is not None:
        event = replace(event, url=bare_url(event.url))
    elif isinstance(event, WireMessage) and event.message is not None:
        event = replace(event, message=_scrub_fields(event.message))
    return _scrub_object(event)


def scrub(text: str, limit: int = _MAX_TEXT) -> str:
    """``text`` with every token, key and query string replaced by `REDACTED`.

    Of one that is longer than ``limit`` the beginning, and how much was left out.
    """
    for secret in sorted(_known, key=len, reverse=True):  # one may be a part of another
        text = text.replace(secret, REDACTED)
    left_out = ""
    if len(text) > limit:
        # Cut between words: half a token is not known for one.
        head = text[:limit].rpartition(" ")[0]
        left_out = f" [{len(text) - len(head)} more characters]"
        text = head
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text + left_out


def bare_url(url: str) -> str:
    """Scheme, host, port and path of ``url``, without user, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return REDACTED
    if not parts.scheme or not host:
        return REDACTED
    host = f"[{host}]" if ":" in host else host
    segments = (REDACTED if _OPAQUE.fullmatch(s) else s for s in parts.path.split("/"))
    # Parameters of a segment (";jsessionid=...") are a query by another name.
    path = "/".join(segment.partition(";")[0] for segment in segments)
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def _without_answer(event: ElicitationAnswered, *, keep: bool) -> ElicitationAnswered:
    if event.content is None:
        return event
    if keep:
        return replace(event, content=_scrub_fields(event.content))
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


def _scrub_fields(content: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        scrub(name): REDACTED if _SECRET_FIELD.search(name) else scrub_json(value)
        for name, value in content.items()
    }


def scrub_json(value: JsonValue) -> JsonValue:
    """``value`` with all of its texts scrubbed, and what stands under a secret's name left out."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrub_json(one) for one in value]
    if isinstance(value, dict):
        return _scrub_fields(value)
    return value


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
