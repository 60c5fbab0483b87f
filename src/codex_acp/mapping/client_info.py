"""Who the ACP client is → whom Codex is told it works for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated.models import ClientInfo

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import Implementation

__all__ = ["codex_client_info"]

_HEADER_SAFE: Final = re.compile(r"[A-Za-z0-9._/-]{1,64}")
"""Codex puts the name into an HTTP header of its requests to the model."""


def codex_client_info(client: Implementation | None) -> ClientInfo | None:
    """``clientInfo`` of the ACP client for Codex; None, this library's own, if it cannot be used.

    A name that does not fit a header is not changed into another one: Codex then hears ours.
    """
    if client is None or not _HEADER_SAFE.fullmatch(client.name):
        return None
    info = ClientInfo(name=client.name, version=client.version)
    if client.title is not None:
        info.title = client.title
    return info
