"""Decide who may connect: tokens, the check of each HTTP request, and pending connections.

`AccessControl` applies the same checks to a websocket's handshake and to every request of
streamable HTTP. Web pages are refused by their ``Origin`` header. A page whose domain name resolves
to this machine (DNS rebinding) is refused by its ``Host`` header.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import os
import stat
import time
from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from codex_acp.adapter.network.limits import RateLimit
from codex_acp.errors import MisuseError
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from codex_acp.adapter.network.limits import Limits


logger = logging.getLogger(__name__)

_LOGGED_ADDRESS: Final = 100
"""Characters of a client's address that are logged."""

LOGGED_AT_ONCE: Final = 20
"""Refusals that may be logged in one burst, before `LOGGED_PER_SECOND` applies: requests without a
token must not fill the disk."""

LOGGED_PER_SECOND: Final = 0.2


class Headers(Protocol):
    """The headers of a request."""

    def get_all(self, key: str, /) -> Sequence[str]:
        """Return all values of one header; upper and lower case do not matter."""


class Refusal(Exception):
    """The error response to an HTTP request. Logs and client get ``reason``: it has no secret."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason

    @property
    def headers(self) -> list[tuple[str, str]]:
        if self.status is HTTPStatus.UNAUTHORIZED:
            return [("WWW-Authenticate", 'Bearer realm="acp"')]
        if self.status is HTTPStatus.TOO_MANY_REQUESTS:
            return [("Retry-After", "1")]
        return []


class AccessControl:
    """Checks each HTTP request of the network: path, host, origin, token and limits.

    ``path`` is the only path that is served. A request is allowed without an ``Origin`` header, or
    with an origin in ``origins``. A ``Host`` in ``hosts`` is allowed, and so are IP addresses and
    localhost."""

    def __init__(
        self,
        path: str,
        tokens: Tokens,
        limits: Limits,
        *,
        origins: Iterable[str],
        hosts: Iterable[str],
    ) -> None:
        self.path = path
        self.limits = limits
        self._tokens = tokens
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._rates: dict[str, RateLimit] = {}  # of new connections, by owner
        self._open: Counter[str] = Counter()
        """Number of open connections, by owner."""
        self._log_rate = RateLimit(LOGGED_AT_ONCE, LOGGED_PER_SECOND, time.monotonic)
        self._unlogged = 0

    def check(self, path: str, headers: Headers) -> Token:
        """Return the token in a request's headers. Raises Refusal."""
        host = only_value(headers, "Host")
        if host is None or not self._host_allowed(host):
            raise Refusal(HTTPStatus.FORBIDDEN, "the host is not allowed")
        origins = headers.get_all("Origin")
        if any(origin not in self._origins for origin in origins):
            raise Refusal(HTTPStatus.FORBIDDEN, "the origin is not allowed")
        token = self._tokens.find(only_value(headers, "Authorization"))
        if path.partition("?")[0] != self.path:
            raise Refusal(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        return token

    def allowed_origin(self, headers: Headers) -> str | None:
        """Return the request's origin if pages of this origin are allowed, else None."""
        host, origin = only_value(headers, "Host"), only_value(headers, "Origin")
        allowed = host is not None and self._host_allowed(host) and origin in self._origins
        return origin if allowed else None

    def share(self, limit: int, configured: int | None = None) -> int:
        """Return one owner's part of ``limit``: the configured one, or an equal share."""
        return self.limits.share(limit, self._tokens.owner_count, configured)

    def enter(self, owner: str) -> None:
        """Count one more connection of an owner. Raises Refusal if a limit is reached."""
        limits = self.limits
        share = self.share(limits.connections, limits.owner_connections)
        if self._open.total() >= limits.connections or self._open[owner] >= share:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open")
        rate = self._rates.get(owner)
        if rate is None:
            rate = RateLimit(limits.burst, limits.new_connections, time.monotonic)
            self._rates[owner] = rate
        if not rate.try_acquire():
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many connections are made")
        self._open[owner] += 1

    def leave(self, owner: str) -> None:
        """Stop counting a connection that has ended."""
        self._open[owner] -= 1

    def log(self, refusal: Refusal, peer: str) -> None:
        """Log a refusal; refusals above the rate limit are only counted."""
        if not self._log_rate.try_acquire():
            self._unlogged += 1
            return
        unlogged, self._unlogged = self._unlogged, 0
        note = f" ({unlogged} more were not logged)" if unlogged else ""
        logger.warning(
            "refused %s: %d, %s%s", peer[:_LOGGED_ADDRESS], refusal.status, refusal.reason, note
        )

    def _host_allowed(self, host: str) -> bool:
        """Return whether a ``Host`` header, perhaps with brackets and a port, is allowed."""
        host = host.strip().lower()
        name = host.partition(":")[0]
        if host.startswith("["):
            name, _, rest = host[1:].partition("]")
            if rest[:1] not in ("", ":"):
                name = host  # malformed: neither a known host nor an address
        if name in self._hosts or name == "localhost":
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # a page with a false domain name sends that name, and never an address


def peer_name(address: object) -> str:
    """Return a client's address and port for the log."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a socket"


def only_value(headers: Headers, name: str) -> str | None:
    """Return the value of a header, or None if the header is missing or repeated."""
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


EVERYBODY: Final = "everybody"
"""The owner of all sessions of a server without tokens, and of tokens without a name."""

MIN_TOKEN: Final = 16
"""Characters of the shortest token: a shorter token can be guessed."""

MAX_FILE: Final = 1024 * 1024
"""Bytes of a token file that are read; later bytes do not count."""


class Token(NamedTuple):
    """Owner, digest and expiry of one token, not the token itself."""

    owner: str
    digest: bytes
    """SHA-256 of the token; empty if the server needs no token."""
    expires: float | None = None
    """Seconds since 1970; None: never."""

    def valid(self, now: float) -> bool:
        return self.expires is None or now < self.expires


_NO_TOKEN: Final = Token(EVERYBODY, b"")  # of each client, if the server needs no token


class Tokens:
    """The tokens of a server. ``current`` returns them, or None if clients need no token."""

    def __init__(
        self, current: Callable[[], Sequence[Token] | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._current = current
        self._clock = clock

    @property
    def needed(self) -> bool:
        """Whether a client has to show a token."""
        return self._current() is not None

    def find(self, authorization: str | None) -> Token:
        """Return the token of an ``Authorization`` header. Raises Refusal if it is not valid. A
        wrong token takes as long as a right one: every token is compared, in constant time."""
        tokens = self._current()
        if tokens is None:
            return _NO_TOKEN
        scheme, _, value = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not value.strip():
            reason = "no token" if not authorization else "no bearer token"
            raise Refusal(HTTPStatus.UNAUTHORIZED, reason)
        digest = _digest(value.strip())
        found: Token | None = None
        for token in tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or not found.valid(self._clock()):
            reason = "a wrong token" if found is None else "an expired token"
            raise Refusal(HTTPStatus.UNAUTHORIZED, reason)
        return found

    def still_good(self, token: Token) -> bool:
        """Return whether a token is still listed, for the same owner, and has not expired."""
        tokens = self._current()
        if tokens is None:
            return token == _NO_TOKEN
        now, identity = self._clock(), (token.owner, token.digest)
        return any((each.owner, each.digest) == identity and each.valid(now) for each in tokens)

    @property
    def names(self) -> Set[str]:
        """The owners that the tokens name now; none without tokens."""
        return {token.owner for token in self._current() or ()}

    @property
    def owner_count(self) -> int:
        """Number of owners; 1 without tokens."""
        return len(self.names) or 1


def no_token() -> Tokens:
    """Return the `Tokens` of a server that lets everybody in."""
    return Tokens(lambda: None)


def fixed_token(token: str, where: str) -> Tokens:
    """Return the `Tokens` of a server with one token. Raises MisuseError if the token is too short,
    with ``where``, the place of the token, in its message."""
    tokens = (_new_token(EVERYBODY, token.strip(), where),)
    return Tokens(lambda: tokens)


class TokenFile:
    """A file of tokens, for `Tokens`. The running server reads the file again after each change.

    A line is ``TOKEN``, ``NAME TOKEN`` or ``NAME TOKEN TIME``: the owner's name, and the time at
    which the token expires, like 2027-01-31T12:00:00Z. Raises MisuseError if the file cannot be
    used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        """Time of change (nanoseconds), size and inode of the file that was read."""
        self._tokens: tuple[Token, ...] = ()
        self._read()

    def current(self) -> tuple[Token, ...]:
        """Return the file's tokens as they are now; none if the file cannot be used any more."""
        try:
            self._read()
        except MisuseError:
            self._version, self._tokens = None, ()
        return self._tokens

    def _read(self) -> None:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            msg = f"the token file {self._path!r} cannot be read: {error.strerror}"
            raise MisuseError(msg) from error
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise MisuseError(f"the token file {self._path!r} is no regular file")
            # 0o077: the rights of the group and of all others; user 0 is root
            if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
                msg = f"others can read the token file {self._path!r}: chmod 600 {self._path}"
                raise MisuseError(msg)
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version != self._version:
                self._tokens = _parse_tokens(opened.read(MAX_FILE), self._path)
                self._version = version


def _parse_tokens(content: bytes, path: str) -> tuple[Token, ...]:
    tokens = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number} of {path!r}"
        if len(words) > 3:
            raise MisuseError(f"{where} is not TOKEN, NAME TOKEN or NAME TOKEN TIME")
        owner, token = (EVERYBODY, words[0]) if len(words) == 1 else (words[0], words[1])
        expires = None
        if len(words) > 2:
            try:
                when = datetime.fromisoformat(words[2])
            except ValueError as error:
                # The message does not quote the third word: the user may have put the token there.
                msg = f"{where}: its third word is no time like 2027-01-31T12:00:00Z"
                raise MisuseError(msg) from error
            expires = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
        tokens.append(_new_token(owner, token, where, expires))
    if not tokens:
        hint = "python3 -Pc 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        raise MisuseError(f"the token file {path!r} has no token; {hint}")
    return tuple(tokens)


def _new_token(owner: str, token: str, where: str, expires: float | None = None) -> Token:
    """Return a `Token`, and keep its text out of the logs. Raises MisuseError if it is short."""
    if len(token) < MIN_TOKEN:
        raise MisuseError(f"{where}: a token has at least {MIN_TOKEN} characters")
    remember_secrets([token])
    return Token(owner, _digest(token), expires)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


HANDSHAKE_SECONDS: Final = 10.0
"""Seconds for the TLS handshake, and again until a request has shown a token."""


class PendingConnections:
    """Connections that have shown no token yet, at most ``most``: one more aborts the oldest. Each
    is aborted after `HANDSHAKE_SECONDS`.

    A client that opens many silent connections loses these connections; a client that sends its
    request at once is served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Connection → the timer that aborts it."""

    def add(self, transport: asyncio.Transport) -> None:
        """Count a new connection, and abort the oldest if there are too many."""
        loop = asyncio.get_running_loop()
        self._waiting[transport] = loop.call_later(HANDSHAKE_SECONDS, transport.abort)
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            self.discard(oldest)
            oldest.abort()

    def discard(self, transport: asyncio.Transport) -> None:
        """Stop counting a connection that was accepted or refused, or has ended. Idempotent."""
        timer = self._waiting.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def abort_all(self) -> None:
        """Abort all pending connections, and each new connection: the server ends."""
        self._most = 0
        for transport in tuple(self._waiting):
            self.discard(transport)
            transport.abort()
