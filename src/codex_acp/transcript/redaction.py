"""PURE: what may not be recorded is taken out of an event (contract 5.2).

What a person typed goes, unless content was asked for; tokens and
keys go in any case, from every text but the identifiers in ``ref``, which must stay comparable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import unquote

from codex_acp._last_ones import LastOnes
from codex_acp._urls import bare_url
from codex_acp.transcript.codec import is_anchor, is_path, is_plain, looks_made
from codex_acp.transcript.events import (
    ElicitationAnswered,
    ElicitationRequested,
    SessionRef,
    TranscriptEvent,
    WireMessage,
)
from codex_acp.transcript.secrets import REDACTED, scrub, scrub_fields, secret_spans, without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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

_ALWAYS: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|credential|cookie|authori[sz]ation|webhook|signature"
    r"|(?:api|access|private|signing|auth|account|encryption|master)key|connection.?string"
)
_SAYS: Final = re.compile(
    r"(?i)auth|bearer|cert|creds|dsn|jwt|keys?|mnemonic|otp|pass|pat|pin|private|pw|pwd|salt|seed"
    r"|sig"
)
"""As one of the words of a name: ``MYSQL_PWD``, ``X-Auth``, ``sshKey``."""
_NAME_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DIRECTORY_NAMES: Final = frozenset({"OLDPWD", "PWD"})
_OF_A_FILE: Final = re.compile(r"(?i)(?:file|path|dir|directory|home|root)$")
"""The end of a name whose value is where a secret is kept, if it is a path."""
_PERSONAL: Final = frozenset({"HOME", "LOGNAME", "USER", "USERNAME"})
"""Variables that name the user and the home directory: no secrets, however they look."""
_URL: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:(?P<user>[^\s/?#]*)@)?(?P<host>[^\s/?#@]*)"
    r"(?P<path>/[^\s?#]*)?(?:\?(?P<query>[^\s#]*))?(?:#(?P<fragment>\S*))?"
)
_LONG_PART: Final = 20
"""Characters of a part of a path that may be a token, unless it is made of words."""
_ASSIGNED: Final = re.compile(r"(?s)(-{0,2}[A-Za-z_][\w.-]*)(?:=|: ?(?!//))(.+)")
_SCHEME: Final = re.compile(r"[A-Za-z-]{2,12} +(\S+)")
_TABLES: Final = frozenset({"env", "set", "headers", "http_headers", "query_params"})
"""Of Codex's configuration, whose values a client or a person chose."""
_REFERS: Final = re.compile(r"(?:^|_)env_(?:key|vars?|http_headers)$|_(?:method|store)$")
"""The end of a setting that names where a secret is, and is none."""


def secrets_in(value: object, name: str = "", *, given: bool = False) -> Iterator[str]:
    """Of settings: what is below a table or a name of secrets, arguments, addresses.

    ``given``: ``value`` is below such a table.
    """
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key == "args" and isinstance(one, list):
                yield from secrets_of_arguments([each for each in one if isinstance(each, str)])
            elif not _REFERS.search(key):
                private = given or key.lower() in _TABLES or says_secret(key)
                yield from secrets_in(one, key, given=private)
    elif isinstance(value, list):
        for one in value:
            yield from secrets_in(one, name, given=given)
    elif isinstance(value, str):
        if given:
            yield from secrets_of(name, value)
        elif (url := _URL.fullmatch(value)) is not None:
            yield from _secrets_of_url(url)


def secrets_of(name: str, value: str) -> Iterator[str]:
    """``value``, if it may be a secret; of an address only what in it may be one."""
    if says_secret(name) and not (_OF_A_FILE.search(name) and is_path(value)):
        yield from _with_its_scheme(value)
    elif (url := _URL.fullmatch(value)) is not None:
        yield from _secrets_of_url(url)
    elif name in _PERSONAL or name in _DIRECTORY_NAMES:
        return
    elif not is_plain(value) or scrub(value, len(value)) != value:
        yield from _with_its_scheme(value)


def says_secret(name: str) -> bool:
    """Whether a name says that its value is a secret: of a variable, a header, an option."""
    if name in _DIRECTORY_NAMES:
        return False
    if _surely(name):
        return True
    return any(map(_SAYS.fullmatch, _NAME_PARTS.findall(name)))


def secrets_of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Of all variables of a process, most of which nobody chose for this: by their names alone."""
    for name, value in environment.items():
        if says_secret(name) and not is_path(value) and (_surely(name) or not is_plain(value)):
            yield from _with_its_scheme(value)


def _surely(name: str) -> bool:
    return _ALWAYS.search(re.sub(r"[\W_]", "", name)) is not None


def secrets_of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Of a command line: behind options that say so, in variables and headers that are set."""
    for before, argument in pairwise(("", *arguments)):
        assigned = _ASSIGNED.fullmatch(argument)
        if before.startswith("-") and "=" not in before and says_secret(before):
            yield argument
        elif assigned is not None:
            yield from secrets_of(assigned[1], assigned[2])
        elif not argument.startswith("-") and not _is_package(argument):
            yield from secrets_of("", argument)


def _is_package(argument: str) -> bool:
    """As in ``@scope/name@1.2``, which is on half of all command lines."""
    return "://" not in argument and is_anchor(argument.lstrip("@").replace("@", "/"))


def _with_its_scheme(value: str) -> Iterator[str]:
    """As in ``Bearer abc``, of which ``abc`` is one, too."""
    yield value
    if (scheme := _SCHEME.fullmatch(value)) is not None:
        yield scheme[1]


def _secrets_of_url(url: re.Match[str]) -> Iterator[str]:
    user, query, fragment = url["user"], url["query"], url["fragment"]
    if user is not None:
        name, colon, password = user.partition(":")
        if colon:
            yield from (user, password, unquote(password))
        else:  # a token has been seen there, and so has "git"
            yield from secrets_of("", name)
    for pair in (query or "").split("&"):
        name, _, value = pair.partition("=")
        yield from secrets_of(name, value) if value else secrets_of("", name)
    for part in (url["path"] or "").split("/"):
        if looks_made(part) or (len(part) >= _LONG_PART and not is_anchor(part)):
            yield part
    if fragment and not is_anchor(fragment):
        yield fragment


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
