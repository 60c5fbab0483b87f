"""The tokens that clients of the network show, and whose they are.

A file with one token a line, or with a name in front of it and a time behind it: ``NAME TOKEN
2027-01-31T12:00:00Z``. It is read again when it has changed, so that tokens can be exchanged while
the server runs. A token is never logged, and compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import MisuseError
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOKEN_VARIABLE: Final = "CODEX_ACP_TOKEN"
"""A token in place of a file."""

EVERYBODY: Final = "everybody"
"""The owner of all sessions where there is one token, or none."""

MIN_TOKEN: Final = 16
"""Characters: fewer can be guessed."""

MAX_FILE: Final = 1024 * 1024
"""Bytes of a file of tokens."""


class Token(NamedTuple):
    """Owner, digest and expiry of one token, not the token itself."""

    owner: str
    digest: bytes
    expires: float | None = None
    """Seconds since 1970."""

    def valid(self, now: float) -> bool:
        """Whether it is good at this time."""
        return self.expires is None or now < self.expires


class Tokens:
    """``current`` gives the tokens as they are now, None where none is needed."""

    def __init__(
        self, current: Callable[[], Sequence[Token] | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._current = current
        self._clock = clock

    @property
    def needed(self) -> bool:
        """Whether a client has to show one."""
        return self._current() is not None

    def find(self, authorization: str | None) -> Token | str:
        """The token of an ``Authorization`` header, or why there is none that counts.

        Takes as long for a wrong one as for a right one: every token is compared.
        """
        tokens = self._current()
        if tokens is None:
            return Token(EVERYBODY, b"")
        scheme, _, value = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not value.strip():
            return "no token" if not authorization else "no bearer token"
        shown = _digest(value.strip())
        found: Token | None = None
        for token in tokens:
            if hmac.compare_digest(token.digest, shown):
                found = token
        if found is None:
            return "a wrong token"
        return found if found.valid(self._clock()) else "an expired token"

    def still_good(self, token: Token) -> bool:
        """Whether a token that was good is so now, of the same owner, as the tokens are now."""
        tokens = self._current()
        if tokens is None:
            return not token.digest
        now = self._clock()
        return any(each[:2] == token[:2] and each.valid(now) for each in tokens)

    @property
    def owners(self) -> int:
        """How many owners there are."""
        return len({token.owner for token in self._current() or ()}) or 1

    @property
    def several_owners(self) -> bool:
        """Whether there are sessions of one that another must not see."""
        return self.owners > 1


def no_token() -> Tokens:
    """Whoever comes is let in."""
    return Tokens(lambda: None)


def fixed_token(token: str) -> Tokens:
    """One token. Raises MisuseError if it is too short."""
    tokens = (Token(EVERYBODY, _digest(_long_enough(token.strip(), TOKEN_VARIABLE))),)
    return Tokens(lambda: tokens)


class TokenFile:
    """A file of tokens; `current` is for `Tokens`. Raises MisuseError if it cannot be used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()
        self._read()

    def current(self) -> tuple[Token, ...]:
        """As the file has them now; none of a file that has become useless."""
        try:
            self._read()
        except MisuseError:
            self._read_at, self._tokens = None, ()
        return self._tokens

    def _read(self) -> None:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            msg = f"the token file {self._path!r} cannot be read: {error.strerror}"
            raise MisuseError(msg) from error
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            self._check(found)
            read_at = (found.st_mtime_ns, found.st_size, found.st_ino)
            if read_at != self._read_at:
                self._tokens = _parsed(opened.read(MAX_FILE), self._path)
                self._read_at = read_at

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise MisuseError(f"the token file {self._path!r} is no regular file")
        if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
            msg = f"others can read the token file {self._path!r}: chmod 600 {self._path}"
            raise MisuseError(msg)


def _parsed(content: bytes, path: str) -> tuple[Token, ...]:
    tokens = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number} of {path!r}"
        if len(words) > 3:
            raise MisuseError(f"{where} is not TOKEN, NAME TOKEN or NAME TOKEN TIME")
        owner, token = (EVERYBODY, words[0]) if len(words) == 1 else (words[0], words[1])
        expires = _time(words[2], where) if len(words) > 2 else None
        tokens.append(Token(owner, _digest(_long_enough(token, where)), expires))
    if not tokens:
        made = "python3 -Pc 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        raise MisuseError(f"the token file {path!r} has no token; {made}")
    return tuple(tokens)


def _time(text: str, where: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        # Without the text: whoever mixes up the words has the token there.
        msg = f"{where}: its third word is no time like 2027-01-31T12:00:00Z"
        raise MisuseError(msg) from error
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def _long_enough(token: str, where: str) -> str:
    if len(token) < MIN_TOKEN:
        raise MisuseError(f"{where}: a token has at least {MIN_TOKEN} characters")
    remember_secrets([token])
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
