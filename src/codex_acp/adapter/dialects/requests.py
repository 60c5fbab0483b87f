"""Requests as whoever does them reads them: of either version of ACP, by the fields of both.

For type checkers alone: nothing of a version is loaded by who names one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.jsonrpc.message import JsonValue

    NewSession = v1.NewSessionRequest | v2.NewSessionRequest
    ForkSession = v1.ForkSessionRequest | v2.ForkSessionRequest
    ResumeSession = v1.LoadSessionRequest | v1.ResumeSessionRequest | v2.ResumeSessionRequest
    ListSessions = v1.ListSessionsRequest | v2.ListSessionsRequest
    SetProvider = v1.SetProviderRequest | v2.SetProviderRequest
    DisableProvider = v1.DisableProviderRequest | v2.DisableProviderRequest
    SetTitle = v1.SetSessionTitleRequest | v2.SetSessionTitleRequest

    Json = dict[str, JsonValue]
    """An answer, which each version makes its own model of."""
