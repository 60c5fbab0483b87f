"""Who the ACP client is → whom Codex is told it works for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import Implementation
    from codex_acp.codex._generated.models import ClientInfo
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["client_info_json", "codex_client_info"]

_HEADER_SAFE: Final = re.compile(r"[A-Za-z0-9._/-]{1,64}")
"""Codex puts the name into an HTTP header of its requests to the model."""


def client_info_json(name: str, version: str, title: str | None) -> dict[str, JsonValue] | None:
    """``clientInfo`` for Codex as JSON; None, this library's own, if the name cannot be used.

    A name that does not fit a header is not changed into another one: Codex then hears ours.
    """
    if not _HEADER_SAFE.fullmatch(name):
        return None
    info: dict[str, JsonValue] = {"name": name, "version": version}
    if title is not None:
        info["title"] = title
    return info


def codex_client_info(client: Implementation | None) -> ClientInfo | None:
    """`client_info_json` of the ACP client's ``clientInfo``, as a model."""
    from codex_acp.codex._generated.models import ClientInfo
    from codex_acp.wire.codec import decode

    if client is None:
        return None
    info = client_info_json(client.name, client.version, client.title)
    return None if info is None else decode(ClientInfo, info)
