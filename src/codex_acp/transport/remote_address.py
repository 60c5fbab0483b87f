"""The address of a peer that runs already, and where a token for it may travel."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from codex_acp._urls import bare_url
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

Token: TypeAlias = "str | Callable[[], str]"
"""A token, or a function that gives one each time a connection is made."""


SOCKETS: Final = ("ws", "wss")
"""The schemes of a websocket's address, the encrypted one last."""

HTTP: Final = ("http", "https")


def check_remote_url(
    url: str, token: Token | None, what: str, schemes: tuple[str, ...] = SOCKETS
) -> None:
    """Raise MisuseError unless ``url`` has one of the schemes, and the token may travel to it.

    ``what`` says what should be there, and how its addresses look.
    """
    try:
        parts = urlsplit(url)
        readable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        readable = False
    if not readable or not parts.hostname:
        raise MisuseError(f"{bare_url(url)!r} is no address of {what}")
    if parts.username or parts.password:
        raise MisuseError("put the token into `token`, not into the URL")
    if token is not None and parts.scheme in ("ws", "http") and not is_loopback(parts.hostname):
        raise MisuseError(
            f"the token would travel unencrypted to {parts.hostname}; use {parts.scheme}s://, or a "
            "tunnel that ends on this machine (ssh -L)"
        )


def token_getter(token: Token | None) -> Callable[[], str] | None:
    """Return a function that gives the current token; None without a token."""
    if token is None or callable(token):
        return token
    fixed = token
    return lambda: fixed


def is_loopback(host: str) -> bool:
    """Whether it is this machine; a name is not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
