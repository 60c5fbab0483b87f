"""Decide who may connect: tokens, the check of each HTTP request, and pending connections.

`AccessControl` checks a websocket's handshake and every request of streamable HTTP alike. A page in
a browser is refused: its request names the page's origin, and if the page has bound its name to
this machine (DNS rebinding), the request names that name as the host.
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

from codex_acp.adapter.network.limits import Limits, RateLimit
from codex_acp.errors import MisuseError
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence


logger = logging.getLogger(__name__)

MAX_SHOWN: Final = 100
"""Characters of a client's address that are logged."""

LOGGED_AT_ONCE: Final = 20
"""Refusals that are logged at once, and then `LOGGED_PER_SECOND`: requests without a token must not
fill the disk."""

LOGGED_PER_SECOND: Final = 0.2


class Headers(Protocol):
    """The headers of a request; names are found in any case."""

    def get_all(self, key: str, /) -> Sequence[str]:
        """Return all values of one name."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is answered with an error."""

    status: HTTPStatus
    reason: str
    """Logged, and sent to the client: contains nothing secret."""

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
        self._rates: dict[str, RateLimit] = {}
        self._open: Counter[str] = Counter()
        """Connections, by owner."""
        self._log_rate = RateLimit(LOGGED_AT_ONCE, LOGGED_PER_SECOND, clock)
        self._unlogged = 0

    def check(self, path: str, headers: Headers) -> Token | Refusal:
        """Return the token that a request has shown, or the refusal of the request."""
        host = only_value(headers, "Host")
        if host is None or not self._host_allowed(host):
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
        """Return the origin of a page that is allowed; None if the request comes from none."""
        host, origin = only_value(headers, "Host"), only_value(headers, "Origin")
        allowed = host is not None and self._host_allowed(host) and origin in self._origins
        return origin if allowed else None

    def share(self, limit: int, own: int | None = None) -> int:
        """Return how much of a common limit one owner may use: ``own`` if that is set."""
        return self.limits.share(limit, self._tokens.owners, own)

    def enter(self, owner: str) -> Refusal | None:
        """Count one more connection of an owner; return a refusal if there is no room for it."""
        limits = self.limits
        share = self.share(limits.connections, limits.owner_connections)
        if self._open.total() >= limits.connections or self._open[owner] >= share:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open")
        rate = self._rates.get(owner)
        if rate is None:
            rate = self._rates[owner] = RateLimit(limits.burst, limits.new_connections, self._clock)
        if not rate.try_acquire():
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many connections are made")
        self._open[owner] += 1
        return None

    def leave(self, owner: str) -> None:
        """Count a connection no longer that `enter` has counted: it has ended."""
        self._open[owner] -= 1

    def log(self, refusal: Refusal, peer: str) -> None:
        """Log a refusal; of very many log only their number."""
        if not self._log_rate.try_acquire():
            self._unlogged += 1
            return
        more, self._unlogged = self._unlogged, 0
        besides = f" ({more} more were not logged)" if more else ""
        logger.warning(
            "refused %s: %d, %s%s", peer[:MAX_SHOWN], refusal.status, refusal.reason, besides
        )

    def _host_allowed(self, host: str) -> bool:
        """Return whether a host, perhaps with brackets and a port, may be named."""
        host = host.strip().lower()
        name = host.partition(":")[0]
        if host.startswith("["):
            name, _, behind = host[1:].partition("]")
            if behind[:1] not in ("", ":"):
                name = host
        if name in self._hosts or name == "localhost":
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # an address, which needs no DNS: no page can have bound it to this machine


def peer_name(address: object) -> str:
    """Return address and port of a client, for the log."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a socket"


def only_value(headers: Headers, name: str) -> str | None:
    """Return the value of a header; None where it is missing or comes more than once."""
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


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
        """Return whether the token has not expired."""
        return self.expires is None or now < self.expires


class Tokens:
    """The tokens of a server. ``current`` returns those listed now, None if none is needed."""

    def __init__(
        self, current: Callable[[], Sequence[Token] | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._current = current
        self._clock = clock

    @property
    def needed(self) -> bool:
        """Whether a client has to show a token."""
        return self._current() is not None

    def find(self, authorization: str | None) -> Token | str:
        """Return the token of an ``Authorization`` header, or the reason why it is refused.

        A wrong token takes as long as a right one: every token is compared, in constant time.
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
        """Return whether a token is still listed, for the same owner, and has not expired."""
        tokens = self._current()
        if tokens is None:
            return not token.digest
        now = self._clock()
        return any(each[:2] == token[:2] and each.valid(now) for each in tokens)

    @property
    def owners(self) -> int:
        """The number of owners; 1 without tokens."""
        return len({token.owner for token in self._current() or ()}) or 1

    @property
    def several_owners(self) -> bool:
        """Whether more than one owner uses the server."""
        return self.owners > 1


def no_token() -> Tokens:
    """Return the `Tokens` of a server that lets everybody in."""
    return Tokens(lambda: None)


def fixed_token(token: str, where: str) -> Tokens:
    """Return the `Tokens` of a server with one token, that stands at ``where``.

    Raises MisuseError if it is too short.
    """
    tokens = (Token(EVERYBODY, _digest(_long_enough(token.strip(), where))),)
    return Tokens(lambda: tokens)


class TokenFile:
    """A file of tokens, for `Tokens`; it is read again after each change, while the server runs.

    Each line is ``TOKEN``, ``NAME TOKEN`` or ``NAME TOKEN 2027-01-31T12:00:00Z``: the owner's name
    and the time at which the token expires. Raises MisuseError if the file cannot be used.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()
        self._read()

    def current(self) -> tuple[Token, ...]:
        """Return the file's tokens as they are now; none if the file cannot be used any more."""
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
            if not stat.S_ISREG(found.st_mode):
                raise MisuseError(f"the token file {self._path!r} is no regular file")
            if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
                msg = f"others can read the token file {self._path!r}: chmod 600 {self._path}"
                raise MisuseError(msg)
            read_at = (found.st_mtime_ns, found.st_size, found.st_ino)
            if read_at != self._read_at:
                self._tokens = _parsed(opened.read(MAX_FILE), self._path)
                self._read_at = read_at


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
        expires = None
        if len(words) > 2:
            try:
                when = datetime.fromisoformat(words[2])
            except ValueError as error:
                # Without the text: if the words were mixed up, it is the token.
                msg = f"{where}: its third word is no time like 2027-01-31T12:00:00Z"
                raise MisuseError(msg) from error
            expires = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
        tokens.append(Token(owner, _digest(_long_enough(token, where)), expires))
    if not tokens:
        made = "python3 -Pc 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        raise MisuseError(f"the token file {path!r} has no token; {made}")
    return tuple(tokens)


def _long_enough(token: str, where: str) -> str:
    if len(token) < MIN_TOKEN:
        raise MisuseError(f"{where}: a token has at least {MIN_TOKEN} characters")
    remember_secrets([token])
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


HANDSHAKE_SECONDS: Final = 10.0
"""Seconds for the TLS handshake and the first request of a connection."""


class AcceptedConnection(asyncio.Protocol):
    """A new connection, until the protocol that will serve it is known.

    ``choose_protocol`` gets the connection and the bytes it has sent. It returns whether another
    protocol serves the connection from now on; if not, it needs more bytes.
    """

    def __init__(
        self,
        pending: PendingConnections,
        tls: ssl.SSLContext | None,
        choose_protocol: Callable[[asyncio.Transport, bytes], bool],
    ) -> None:
        self._pending = pending
        self._tls = tls
        self._choose_protocol = choose_protocol
        self._sent = b""
        self._ready: asyncio.Transport | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Start with a connection, which counts as pending also during its TLS handshake."""
        loop = asyncio.get_running_loop()
        transport.set_protocol(self)
        self._pending.add(transport)
        self._raw = transport
        self._deadline = loop.call_later(HANDSHAKE_SECONDS, transport.abort)
        if self._tls is None:
            self._ready = transport
            self._try_protocols()
        else:
            self._securing = loop.create_task(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._raw, self, tls, server_side=True)
        except (OSError, RuntimeError) as error:  # ssl.SSLError is an OSError
            logger.debug("a TLS handshake has failed: %s", error)
            self.connection_lost(None)
            self._raw.abort()
            return
        if secured is not None:
            self._pending.discard(self._raw)
            self._pending.add(secured)
            self._ready = secured
            self._try_protocols()

    def data_received(self, data: bytes) -> None:
        """Collect the first bytes of the connection."""
        self._sent += data
        self._try_protocols()

    def _try_protocols(self) -> None:
        if self._ready is not None and self._choose_protocol(self._ready, self._sent):
            self._deadline.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that ended before it was served."""
        del exc
        self._deadline.cancel()
        self._pending.discard(self._raw)
        if self._ready is not None:
            self._pending.discard(self._ready)


class PendingConnections:
    """Connections that have shown no token yet: at most ``most``; one more aborts the oldest.

    A client that opens many silent connections loses its own ones, and a client that sends its
    request at once is served.
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
        """Abort all pending connections: the server ends."""
        for transport in tuple(self._waiting):
            transport.abort()
