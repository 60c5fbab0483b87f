"""Joining an app-server that runs already: its address, and the token that it asks for.

Owns what a URL means and where a token may travel. Source: ``codex app-server --help``:
``--listen ws://IP:PORT`` and ``unix://PATH``, ``--ws-auth capability-token`` and
``signed-bearer-token``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Final

from codex_acp._urls import bare_url
from codex_acp.errors import MisuseError
from codex_acp.transport.remote_address import Token, check_remote_url, token_getter

if TYPE_CHECKING:
    from codex_acp.transport.websocket import WebSocketLink

UNIX_PREFIX: Final = "unix://"

TOKEN_LIFETIME_SECONDS: Final = 300.0
"""A token is looked at when the connection is made; the clocks of two machines may differ."""


def remote_link(url: str, token: Token | None = None) -> WebSocketLink:
    """A link to the app-server at ``url``: ``ws://``, ``wss://`` or ``unix://PATH``.

    Raises MisuseError for any other URL, for a token that would travel unencrypted to another
    machine, and if the package websockets is missing.
    """
    from codex_acp.transport.websocket import WebSocketLink

    if url.startswith(UNIX_PREFIX):
        path = url.removeprefix(UNIX_PREFIX)
        if not path.startswith("/"):
            message = f"{url!r} must name the socket with its full path: unix:///run/codex.sock"
            raise MisuseError(message)
        return WebSocketLink("ws://localhost/", unix_path=path, name=url, token=token_getter(token))
    check_remote_url(url, token, "an app-server: ws://HOST:PORT, wss://... or unix://...")
    return WebSocketLink(url, name=bare_url(url), token=token_getter(token))


def signed_bearer_token(
    secret: str | bytes,
    *,
    issuer: str | None = None,
    audience: str | None = None,
    lifetime: float = TOKEN_LIFETIME_SECONDS,
    now: float | None = None,
) -> str:
    """A token for ``--ws-auth signed-bearer-token``: a JWT, signed with the shared secret (HS256).

    ``secret`` is what the server's ``--ws-shared-secret-file`` holds, without surrounding blanks;
    ``issuer`` and ``audience`` are needed if the server has ``--ws-issuer`` and ``--ws-audience``.
    ``lifetime`` is in seconds from ``now``, by default this moment. For a program that connects
    again later: ``token=lambda: signed_bearer_token(secret)``.
    """
    key = (secret.encode() if isinstance(secret, str) else secret).strip()
    start = int(time.time() if now is None else now)
    claims: dict[str, object] = {"iat": start, "nbf": start, "exp": start + max(1, int(lifetime))}
    if issuer is not None:
        claims["iss"] = issuer
    if audience is not None:
        claims["aud"] = audience
    signed = f"{_segment({'alg': 'HS256', 'typ': 'JWT'})}.{_segment(claims)}"
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{_base64(signature)}"


def _segment(value: dict[str, object]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
