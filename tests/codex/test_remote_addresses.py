"""Addresses and tokens of remote app-servers: what is refused before anything is connected."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from importlib import util

import pytest

from codex_acp.codex import CodexClient, signed_bearer_token
from codex_acp.codex.connection.launch import remote_link
from codex_acp.errors import MisuseError
from codex_acp.transport import websocket


@pytest.mark.parametrize(
    "url", ["http://x", "ws://", "localhost:80", "unix://relative", "unix://", "ws:///path", ""]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MisuseError):
        remote_link(url)


@pytest.mark.parametrize("url", ["ws://example.com:1", "ws://192.168.0.7:1", "ws://127.0.0.1.x:1"])
@pytest.mark.attack("network")
def test_a_token_never_travels_unencrypted_to_another_machine(url: str) -> None:
    with pytest.raises(MisuseError, match="unencrypted"):
        remote_link(url, "sesame")
    remote_link(url)  # without one it may


@pytest.mark.parametrize(
    "url",
    ["ws://127.0.0.1:1", "ws://localhost:1", "ws://[::1]:1", "wss://example.com", "unix:///x"],
)
def test_where_a_token_may_go(url: str) -> None:
    remote_link(url, "sesame")


def test_a_token_in_the_address_is_refused() -> None:
    with pytest.raises(MisuseError, match="token"):
        remote_link("wss://user:secret@example.com")


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "find_spec", lambda _name: None)
    assert util.find_spec("websockets")
    with pytest.raises(MisuseError, match=r"codex-acp-sdk\[remote\]"):
        CodexClient.connect_to("ws://127.0.0.1:1")


def test_a_signed_token_is_a_jwt_with_the_claims() -> None:
    token = signed_bearer_token(b" key\n", issuer="us", audience="codex", lifetime=60, now=1000.9)
    head, body, signature = token.split(".")

    def part(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    assert json.loads(part(head)) == {"alg": "HS256", "typ": "JWT"}
    assert json.loads(part(body)) == {
        "iat": 1000,
        "nbf": 1000,
        "exp": 1060,
        "iss": "us",
        "aud": "codex",
    }
    signed = hmac.new(b"key", f"{head}.{body}".encode(), hashlib.sha256).digest()
    assert part(signature) == signed
