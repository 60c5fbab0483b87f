"""Check the address of a peer on the network, protect its token, and make errors about the peer."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from codex_acp._record import record
from codex_acp._urls import bare_url
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


Token: TypeAlias = "str | Callable[[], str]"
"""A token, or a function that returns one for each connection."""


WEBSOCKET_SCHEMES: Final = ("ws", "wss")

HTTP_SCHEMES: Final = ("http", "https")


def check_remote_url(
    url: str, token: Token | None, wanted: str, schemes: tuple[str, ...] = WEBSOCKET_SCHEMES
) -> None:
    """Raise MisuseError unless ``url`` is valid and the token may travel to it. ``wanted`` names
    the wanted address in the message."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in schemes and parts.port != 0 else None
    except ValueError:
        host = None
    if not host:
        if "://" not in url:
            raise MisuseError(f"without a scheme it is no address of {wanted}")
        raise MisuseError(f"{bare_url(url)!r} is no address of {wanted}")
    if parts.username or parts.password:
        raise MisuseError("put the token into `token`, not into the URL")
    if isinstance(token, str):
        current_token(token)
    if token is not None and parts.scheme in ("ws", "http") and not is_loopback(host):
        raise MisuseError(
            f"the token would travel unencrypted to {host}; use {parts.scheme}s://, or a "
            "tunnel that ends on this machine (ssh -L)"
        )


def current_token(token: Token | None) -> str | None:
    """Return the token to send now; None if there is none. Raises MisuseError for a token that no
    header takes, because the error of the HTTP library would quote it."""
    if token is None:
        return None
    found = (token() if callable(token) else token).strip()
    if not (found and found.isascii() and found.isprintable()):
        raise MisuseError("the token is empty, or more than one line of ASCII characters")
    return found


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, without a look-up of names."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


CONNECT_SECONDS: Final = 10.0
"""Seconds for the connection and its handshake."""

LEAST_SECRET: Final = 6
"""Least characters of a value that is masked: shorter values occur in ordinary words."""

_LOGIN_OR_QUERY: Final = re.compile(r"(?<=://)[^\s/?#@]*@|\?[\w.%~-]+=[^\s\"'<>]*")
"""The login or the query of an address."""

_SHOWN: Final = 200
"""Most characters of a peer's text that are shown."""


def secrets_of_query(url: str) -> list[str]:
    """Return the values in the query of a peer's address, which may be tokens."""
    quoted = [pair.rpartition("=")[2] for pair in urlsplit(url).query.split("&")]
    values = {*quoted, *map(unquote, quoted)}
    return [value for value in values if len(value) >= LEAST_SECRET]


def without_secrets(quoted: object, secrets: Iterable[str | None]) -> str:
    """Return the text of a peer or an error, free of secrets and of logins and queries of URLs."""
    text = str(quoted)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[token]")
    return _LOGIN_OR_QUERY.sub("", text)


TOKEN_HINT: Final = (
    "see the server's --token-file, and pass one of its tokens by --token-file FILE or "
    "CODEX_ACP_TOKEN, in Python by token="
)
"""Where the tokens of a server of this package come from."""


@record
class RemotePeer:
    """The texts of error messages about a peer: ``kind`` is what the peer should be, ``token_hint``
    tells where its tokens come from."""

    name: str
    kind: str = "app-server"
    token_hint: str = "see its --ws-auth"

    def answered_text(self, status: int, text: str, target: str | None = None) -> str:
        """Return the text of an error about a refusal, or about a redirect to ``target``."""
        what = f"{status} {text[:_SHOWN].strip()}".strip()
        if target is not None:
            what += f" and points to {target[:_SHOWN]!r}: connect there if you trust it"
        if status in (401, 403):
            return f"{self.name} refused the token: {what}; {self.token_hint}"
        return f"{self.name} is no {self.kind}: it answered {what}"

    def unreachable_text(self, error: object) -> str:
        why = getattr(error, "strerror", None) or without_secrets(error, ())
        if "WRONG_VERSION_NUMBER" in str(error):
            why = "it speaks no TLS; http:// or ws:// may be meant"
        return f"nobody can be reached at {self.name}: {why}"

    def silent_text(self) -> str:
        return f"{self.name} did not answer within {CONNECT_SECONDS:g} s"
