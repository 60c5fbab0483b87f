"""Check each HTTP request before anything of it is believed, and let it in or refuse it.

The same for a websocket's handshake and for every request of streamable HTTP. A page in a browser
cannot come in: it tells its origin, and one whose name was bound to this machine (DNS rebinding)
tells that name as the host.
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
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from codex_acp.adapter.network.limits import Limits, Rate
from codex_acp.errors import MisuseError
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence


logger = logging.getLogger(__name__)

MAX_SHOWN: Final = 100
"""Characters of what a stranger sent that are logged."""

LOGGED_AT_ONCE: Final = 20
"""Refusals that are logged, and then `LOGGED_PER_SECOND`: a stranger must not fill the disk."""

LOGGED_PER_SECOND: Final = 0.2


class Headers(Protocol):
    """The headers of a request; names are found in any case."""

    def get_all(self, key: str, /) -> Sequence[str]:
        """All values of one name."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is answered with an error."""

    status: HTTPStatus
    reason: str
    """For the log and for whoever sent it: it has nothing secret in it."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of the response."""
        if self.status is HTTPStatus.UNAUTHORIZED:
            return [("WWW-Authenticate", 'Bearer realm="acp"')]
        if self.status is HTTPStatus.TOO_MANY_REQUESTS:
            return [("Retry-After", "1")]
        return []


class AccessControl:
    """Checks each HTTP request of the network: path, host, origin, token and limits.

    ``path`` is the endpoint's. ``origins`` may come from a browser; a request without an origin
    may come, too. ``hosts`` are allowed besides addresses and localhost.
    """

    def __init__(
        self,
        path: str,
        tokens: Tokens,
        limits: Limits | None = None,
        *,
        origins: Iterable[str] = (),
        hosts: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.limits: Limits = limits or Limits()
        self._tokens = tokens
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._clock = clock
        self._rates: dict[str, Rate] = {}
        self._open: Counter[str] = Counter()
        """Connections, by owner."""
        self._log_rate = Rate(LOGGED_AT_ONCE, LOGGED_PER_SECOND, clock)
        self._unlogged = 0

    def check(self, path: str, headers: Headers) -> Token | Refusal:
        """The token that lets a request in, or why it is refused."""
        host = only_value(headers, "Host")
        if host is None or not self._may_be(host):
            return Refusal(HTTPStatus.FORBIDDEN, "the host is not allowed")
        origins = headers.get_all("Origin")
        if any(origin not in self._origins for origin in origins):
            return Refusal(HTTPStatus.FORBIDDEN, "the origin is not allowed")
        authorization = headers.get_all("Authorization")
        found = self._tokens.find(authorization[0] if len(authorization) == 1 else None)
        if isinstance(found, str):
            return Refusal(HTTPStatus.UNAUTHORIZED, found)
        if path.partition("?")[0] != self.path:
            return Refusal(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        return found

    def allowed_origin(self, headers: Headers) -> str | None:
        """The origin of a page that may come in, if a request is one's."""
        host, origin = only_value(headers, "Host"), only_value(headers, "Origin")
        allowed = host is not None and self._may_be(host) and origin in self._origins
        return origin if allowed else None

    def share(self, limit: int, own: int | None = None) -> int:
        """How much of a limit for all one owner may have: ``own`` if that was said."""
        return self.limits.share(limit, self._tokens.owners, own)

    def enter(self, owner: str) -> Refusal | None:
        """Count one more connection of an owner, or say why there is no room for it."""
        most, limits = self._open.total(), self.limits
        share = self.share(limits.connections, limits.owner_connections)
        if most >= limits.connections or self._open[owner] >= share:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open")
        rate = self._rates.get(owner)
        if rate is None:
            rate = self._rates[owner] = Rate(limits.burst, limits.new_connections, self._clock)
        if not rate.take():
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many connections are made")
        self._open[owner] += 1
        return None

    def left(self, owner: str) -> None:
        """A connection that has entered has ended."""
        self._open[owner] -= 1

    def log(self, refusal: Refusal, who: str) -> None:
        """Note that somebody was refused; of very many only how many."""
        if not self._log_rate.take():
            self._unlogged += 1
            return
        more, self._unlogged = self._unlogged, 0
        besides = f" ({more} more were not logged)" if more else ""
        logger.warning(
            "refused %s: %d, %s%s", who[:MAX_SHOWN], refusal.status, refusal.reason, besides
        )

    def _may_be(self, host: str) -> bool:
        name = _host_name(host)
        if name in self._hosts or name == "localhost":
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # no name, so nobody can have bound it to this machine


def only_value(headers: Headers, name: str) -> str | None:
    """The value of a header that may be there once."""
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


def _host_name(host: str) -> str:
    """Without the port, and without the brackets of an IPv6 address."""
    host = host.strip().lower()
    if host.startswith("["):
        name, _, behind = host[1:].partition("]")
        return name if behind[:1] in ("", ":") else host
    return host.partition(":")[0]


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


HANDSHAKE_SECONDS: Final = 10.0
"""For the TLS handshake, and for the whole request of a websocket's."""


class AcceptedConnection(asyncio.Protocol):
    """A new connection, until the protocol that will serve it is known.

    ``take`` gets the connection and the bytes it has sent. It returns whether another protocol
    serves the connection from now on; if not, it needs more bytes.
    """

    def __init__(
        self,
        pending: PendingConnections,
        tls: ssl.SSLContext | None,
        take: Callable[[asyncio.Transport, bytes], bool],
    ) -> None:
        self._pending = pending
        self._tls = tls
        self._take = take
        self._sent = b""
        self._ready: asyncio.Transport | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Begin with a connection. It counts as pending also during its TLS handshake."""
        loop = asyncio.get_running_loop()
        transport.set_protocol(self)
        self._pending.add(transport)
        self._raw = transport
        self._limit = loop.call_later(HANDSHAKE_SECONDS, transport.abort)
        if self._tls is None:
            self._is_ready(transport)
        else:
            self._securing = loop.create_task(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._raw, self, tls, server_side=True)
        except (OSError, RuntimeError) as error:  # that of TLS is an OSError
            logger.debug("a TLS handshake has failed: %s", error)
            self.connection_lost(None)
            self._raw.abort()
            return
        if secured is not None:
            self._pending.discard(self._raw)
            self._pending.add(secured)
            self._is_ready(secured)

    def _is_ready(self, transport: asyncio.Transport) -> None:
        self._ready = transport
        self._look()

    def data_received(self, data: bytes) -> None:
        """Collect the first bytes of the connection."""
        self._sent += data
        self._look()

    def _look(self) -> None:
        if self._ready is not None and self._take(self._ready, self._sent):
            self._limit.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that ended before it was served."""
        del exc
        self._limit.cancel()
        self._pending.discard(self._raw)
        if self._ready is not None:
            self._pending.discard(self._ready)


class PendingConnections:
    """Connections that have shown no token yet: at most ``most``, the oldest is aborted.

    So somebody who opens many silent connections loses their own ones, and a client that sends its
    request at once comes in.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.Transport, None] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Count a new connection, and abort the oldest if there are too many."""
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def discard(self, transport: asyncio.Transport) -> None:
        """Count a connection no longer: it was let in or refused, or has ended. Idempotent."""
        self._waiting.pop(transport, None)

    def abort_all(self) -> None:
        """Abort all: the server ends."""
        for transport in tuple(self._waiting):
            transport.abort()
