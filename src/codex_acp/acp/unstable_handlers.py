"""Table type for the requests of an agent that only the unstable schema has.

A subset of the generated table for ``v1_unstable``: its other rows are the stable methods, whose
models here are those of ``v1``. A test holds it against the registry. Loads no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v1_unstable.models import (
        ArchiveSessionRequest,
        ArchiveSessionResponse,
        AuthStatusRequest,
        AuthStatusResponse,
        DisableProviderRequest,
        DisableProviderResponse,
        ForkSessionRequest,
        ForkSessionResponse,
        ListProvidersRequest,
        ListProvidersResponse,
        SessionStatusRequest,
        SessionStatusResponse,
        SetProviderRequest,
        SetProviderResponse,
        SetSessionTitleRequest,
        SetSessionTitleResponse,
        UnarchiveSessionRequest,
        UnarchiveSessionResponse,
    )

__all__ = ["UnstableAgentRequestHandlers"]

UnstableAgentRequestHandlers = TypedDict(
    "UnstableAgentRequestHandlers",
    {
        "auth/status": "Callable[[AuthStatusRequest], Awaitable[AuthStatusResponse]]",
        "providers/disable": (
            "Callable[[DisableProviderRequest], Awaitable[DisableProviderResponse]]"
        ),
        "providers/list": "Callable[[ListProvidersRequest], Awaitable[ListProvidersResponse]]",
        "providers/set": "Callable[[SetProviderRequest], Awaitable[SetProviderResponse]]",
        "session/archive": "Callable[[ArchiveSessionRequest], Awaitable[ArchiveSessionResponse]]",
        "session/fork": "Callable[[ForkSessionRequest], Awaitable[ForkSessionResponse]]",
        "session/set_title": (
            "Callable[[SetSessionTitleRequest], Awaitable[SetSessionTitleResponse]]"
        ),
        "session/status": "Callable[[SessionStatusRequest], Awaitable[SessionStatusResponse]]",
        "session/unarchive": (
            "Callable[[UnarchiveSessionRequest], Awaitable[UnarchiveSessionResponse]]"
        ),
    },
    total=False,
)
"""Requests that an agent may offer beyond the stable ones. A row that is missing: not offered."""
