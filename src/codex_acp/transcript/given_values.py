"""PURE: which of the values that a client or a configuration gives under names are secrets.

A name that says so makes any value one. Under another name a value is none if it is plainly words,
a figure or a place; when in doubt it is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from codex_acp.transcript.plain_values import is_anchor, is_path, is_plain, looks_made
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """Yield secrets of settings: below a table or a name of secrets, in arguments, in addresses.

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
    """Yield ``value``, if it may be a secret; of an address only what in it may be one."""
    if says_secret(name) and not (_OF_A_FILE.search(name) and is_path(value)):
        yield from _with_its_scheme(value)
    elif (url := _URL.fullmatch(value)) is not None:
        yield from _secrets_of_url(url)
    elif name in _PERSONAL or name in _DIRECTORY_NAMES:
        return
    elif not is_plain(value) or scrub(value, len(value)) != value:
        yield from _with_its_scheme(value)


def says_secret(name: str) -> bool:
    """Return whether a name of a variable, header or option says that its value is a secret."""
    if name in _DIRECTORY_NAMES:
        return False
    if _surely(name):
        return True
    return any(map(_SAYS.fullmatch, _NAME_PARTS.findall(name)))


def secrets_of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield secrets of all variables of a process, by their names alone: most hold none."""
    for name, value in environment.items():
        if says_secret(name) and not is_path(value) and (_surely(name) or not is_plain(value)):
            yield from _with_its_scheme(value)


def _surely(name: str) -> bool:
    return _ALWAYS.search(re.sub(r"[\W_]", "", name)) is not None


def secrets_of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield secrets of a command line: behind options that say so, in variables and headers."""
    for before, argument in pairwise(("", *arguments)):
        assigned = _ASSIGNED.fullmatch(argument)
        if before.startswith("-") and "=" not in before and says_secret(before):
            yield argument
        elif assigned is not None:
            yield from secrets_of(assigned[1], assigned[2])
        elif not argument.startswith("-") and (
            # but for a package like ``@scope/name@1.2``, which is on half of all command lines
            "://" in argument or not is_anchor(argument.lstrip("@").replace("@", "/"))
        ):
            yield from secrets_of("", argument)


def _with_its_scheme(value: str) -> Iterator[str]:
    """Yield a value, and of one like ``Bearer abc`` also ``abc``."""
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
