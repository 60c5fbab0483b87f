"""Check each HTTP request before anything of it is believed, and let it in or refuse it.

The same for a websocket's handshake and for every request of streamable HTTP. A page in a browser
cannot come in: it tells its origin, and one whose name was bound to this machine (DNS rebinding)
tells that name as the host.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from codex_acp.adapter.network.limits import Limits, Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codex_acp.adapter.network.tokens import Token, Tokens

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
