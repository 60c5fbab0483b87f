"""A client's own gateway to the model, and the threads that go through it.

Source: ACP ``SetProviderRequest`` (unstable), and ``_meta.gateway`` of the official adapter's
login; Codex ``modelProvider`` and ``config`` of ``thread/start``, ``model_providers`` of its
configuration. Nothing of it is written into that: it travels with each thread that is opened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from codex_acp._json import object_at, text_at
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping


PROVIDER: Final = "openai"
"""The one provider that a client may route: that of Codex itself."""

API_TYPE: Final = "openai"
"""The protocol that Codex speaks with it: OpenAI's, by its responses."""

GATEWAY_PROVIDER: Final = "custom-gateway"
"""Name that Codex stores with a thread; the official adapter uses it, too."""

OPENAI_URL: Final = "https://api.openai.com/v1"

MAX_URL: Final = 2_000
MAX_HEADERS: Final = 64
MAX_HEADER: Final = 16_384
"""Characters of one header's value; servers take less."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")


class Gateway(NamedTuple):
    """Where the model is asked, and what is sent along."""

    base_url: str
    headers: dict[str, str]
    name: str


def gateway_of(
    base_url: object, headers: object, name: str = "The client's gateway", *, where: str = ""
) -> Gateway:
    """Check a client's gateway. Raises RpcError -32602, which quotes no header's value."""
    if not isinstance(base_url, str) or not base_url or len(base_url) > MAX_URL:
        raise _wrong(f"{where}baseUrl: has to be an address")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        raise _wrong(f"{where}baseUrl: is no address") from None
    del port
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.netloc.split("@")[-1]):
        raise _wrong(f"{where}baseUrl: has to be an http or https address")
    if "@" in parts.netloc:
        raise _wrong(f"{where}baseUrl: must not hold a user or a password; send a header")
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise _wrong(f"{where}baseUrl: holds what an address cannot hold")
    given = {} if headers is None else headers
    if not isinstance(given, dict) or len(given) > MAX_HEADERS:
        raise _wrong(f"{where}headers: has to be an object of at most {MAX_HEADERS} texts")
    for key, value in given.items():
        if not isinstance(key, str) or not _HEADER_NAME.fullmatch(key):
            raise _wrong(f"{where}headers: one has a name that HTTP does not allow")
        if not isinstance(value, str) or len(value) > MAX_HEADER:
            raise _wrong(f"{where}headers.{key}: has to be a text, and not that long")
        if not _HEADER_VALUE.fullmatch(value):
            raise _wrong(f"{where}headers.{key}: holds what a header cannot hold")
    return Gateway(base_url, dict(given), name)


def through(params: Mapping[str, JsonValue], gateway: Gateway) -> dict[str, JsonValue]:
    """Params of ``thread/start``, ``resume`` or ``fork`` whose turns go through it."""
    headers: dict[str, JsonValue] = dict(gateway.headers)
    provider: JsonValue = {
        "name": gateway.name,
        "base_url": gateway.base_url,
        "http_headers": headers,
        "wire_api": "responses",
        "requires_openai_auth": False,
    }
    return _with_provider(params, provider)


def as_configured(params: Mapping[str, JsonValue], read: JsonValue) -> dict[str, JsonValue]:
    """Params of a thread whose stored provider is the gateway's name: it means the configured one.

    Without an address it is OpenAI's, by whatever login there is.
    """
    tables = object_at(read, "config", "model_providers")
    configured = object_at(tables, native_provider(read))
    native: JsonValue = {key: value for key, value in configured.items() if value is not None} or {
        "name": "OpenAI",
        "wire_api": "responses",
        "requires_openai_auth": True,
    }
    return _with_provider(params, native)


def _with_provider(params: Mapping[str, JsonValue], provider: JsonValue) -> dict[str, JsonValue]:
    config = dict(object_at(params, "config"))
    providers = config.get("model_providers")
    if isinstance(providers, dict):
        config["model_providers"] = {**providers, GATEWAY_PROVIDER: provider}
    else:  # a whole table would hide what else there is of providers
        config[f"model_providers.{GATEWAY_PROVIDER}"] = provider
    return {**params, "modelProvider": GATEWAY_PROVIDER, "config": config}


def native_provider(read: JsonValue) -> str:
    """The provider that is configured, by the answer of ``config/read``."""
    return text_at(read, "config", "model_provider") or PROVIDER


def native_base_url(read: JsonValue) -> str:
    """Where Codex asks by itself, by the answer of ``config/read``; without a password."""
    base_url = text_at(read, "config", "model_providers", native_provider(read), "base_url")
    try:
        parts = urlsplit(base_url or OPENAI_URL)
    except ValueError:
        return OPENAI_URL
    return urlunsplit(parts._replace(netloc=parts.netloc.split("@")[-1]))


def _wrong(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message)
