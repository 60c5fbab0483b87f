"""PURE: find the secrets among the named values that a client or a configuration gives.

Under a name such as ``TOKEN`` any value is a secret. Under another name, a value is no secret if it
is plainly words, a figure or a path. In doubt, a value is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from codex_acp.transcript.plain_values import is_path, is_plain, is_slug, looks_random
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SURE_NAME: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|credential|cookie|authori[sz]ation|webhook|signature"
    r"|(?:api|access|private|signing|auth|account|encryption|master)key|connection.?string"
)
"""Part of a name (without ``_`` and ``-``) under which any value is a secret."""
_NAME_WORD: Final = re.compile(
    r"(?i)auth|bearer|cert|creds|dsn|jwt|keys?|mnemonic|otp|pass|pat|pin|private|pw|pwd|salt|seed"
    r"|sig"
)
"""Word of a name under which a value is a secret: ``MYSQL_PWD``, ``X-Auth``, ``sshKey``. In an
environment, a plain value under such a name is no secret."""
_NAME_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""A word of a name, also in camel case."""
_DIRECTORY_NAMES: Final = frozenset({"OLDPWD", "PWD"})
_FILE_NAME: Final = re.compile(r"(?i)(?:file|path|dir|directory|home|root)$")
"""End of a name under which a path is no secret: the path only leads to a secret."""
_PERSONAL: Final = frozenset({"HOME", "LOGNAME", "USER", "USERNAME"})
"""Variables with the name and home of the user, which are no secrets even if they look so."""
_URL: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:(?P<user>[^\s/?#]*)@)?(?P<host>[^\s/?#@]*)"
    r"(?P<path>/[^\s?#]*)?(?:\?(?P<query>[^\s#]*))?(?:#(?P<fragment>\S*))?"
)
_LONG_PART: Final = 20
"""Characters of a part of a path that may be a token, unless it is made of words."""
_ASSIGNMENT: Final = re.compile(r"(?s)(-{0,2}[A-Za-z_][\w.-]*)(?:=|: ?(?!//))(.+)")
"""``NAME=VALUE`` or ``NAME: VALUE``."""
_SCHEME: Final = re.compile(r"[A-Za-z-]{2,12} +(\S+)")
"""A value with the name of its scheme, like ``Bearer abc``."""
_TABLES: Final = frozenset({"env", "set", "headers", "http_headers", "query_params"})
"""Tables of Codex's configuration with values that may be secrets under any name."""
_REFERENCE: Final = re.compile(r"(?:^|_)env_(?:key|vars?|http_headers)$|_(?:method|store)$")
"""End of the name of a setting that says where a secret is, and does not contain the secret."""


def secrets_in(value: object, name: str = "", *, may_be_secret: bool = False) -> Iterator[str]:
    """Yield the secrets of settings: in `_TABLES`, under names of secrets, in arguments and URLs.
    ``may_be_secret``: ``value`` is in such a table or under such a name."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            if key == "args" and isinstance(member, list):
                yield from secrets_of_arguments([arg for arg in member if isinstance(arg, str)])
            elif not _REFERENCE.search(key):
                may_be = may_be_secret or key.lower() in _TABLES or names_secret(key)
                yield from secrets_in(member, key, may_be_secret=may_be)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(item, name, may_be_secret=may_be_secret)
    elif isinstance(value, str):
        if may_be_secret:
            yield from secrets_of(name, value)
        elif (url := _URL.fullmatch(value)) is not None:
            yield from _secrets_of_url(url)


def secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield ``value`` if it may be a secret; if it is a URL, yield its secret parts alone."""
    if names_secret(name) and not (_FILE_NAME.search(name) and is_path(value)):
        yield from _with_and_without_scheme(value)
    elif (url := _URL.fullmatch(value)) is not None:
        yield from _secrets_of_url(url)
    elif name in _PERSONAL or name in _DIRECTORY_NAMES:
        return
    elif not is_plain(value) or scrub(value, limit=len(value)) != value:
        yield from _with_and_without_scheme(value)


def names_secret(name: str) -> bool:
    """Return whether the value of a variable, header or option with this name is a secret."""
    if name in _DIRECTORY_NAMES:
        return False
    if _surely_names_secret(name):
        return True
    return any(map(_NAME_WORD.fullmatch, _NAME_PARTS.findall(name)))


def secrets_of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in the environment of a process, only under names of secrets."""
    for name, value in environment.items():
        if not names_secret(name) or is_path(value):
            continue
        if _surely_names_secret(name) or not is_plain(value):
            yield from _with_and_without_scheme(value)


def _surely_names_secret(name: str) -> bool:
    return _SURE_NAME.search(re.sub(r"[\W_]", "", name)) is not None


def secrets_of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the secrets of a command line: after options for secrets, in variables and headers."""
    for previous, argument in pairwise(("", *arguments)):
        assignment = _ASSIGNMENT.fullmatch(argument)
        if previous.startswith("-") and "=" not in previous and names_secret(previous):
            yield argument
        elif assignment is not None:
            yield from secrets_of(assignment[1], assignment[2])
        elif not argument.startswith("-"):
            # A package such as ``@scope/name@1.2``, frequent on command lines, is no secret.
            is_package = "://" not in argument and is_slug(argument.lstrip("@").replace("@", "/"))
            if not is_package:
                yield from secrets_of("", argument)


def _with_and_without_scheme(value: str) -> Iterator[str]:
    """Yield a value; for a value such as ``Bearer abc`` also ``abc``."""
    yield value
    if (scheme := _SCHEME.fullmatch(value)) is not None:
        yield scheme[1]


def _secrets_of_url(url: re.Match[str]) -> Iterator[str]:
    user, query, fragment = url["user"], url["query"], url["fragment"]
    if user is not None:
        name, colon, password = user.partition(":")
        if colon:
            yield from (user, password, unquote(password))
        else:  # the user may be a token, or a name such as "git"
            yield from secrets_of("", name)
    for pair in (query or "").split("&"):
        name, _, value = pair.partition("=")
        yield from secrets_of(name, value) if value else secrets_of("", name)
    for part in (url["path"] or "").split("/"):
        if looks_random(part) or (len(part) >= _LONG_PART and not is_slug(part)):
            yield part
    if fragment and not is_slug(fragment):
        yield fragment
