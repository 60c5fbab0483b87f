"""What is said at the handshake with an app-server, as JSON: it must not wait for any model.

Source: the app-server's README, "Initialization"; ``InitializeParams``, ``InitializeResponse``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from codex_acp._version import __version__
from codex_acp.codex._generated.methods import CLIENT_REQUESTS, MODELS

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import (
        ClientInfo,
        InitializeCapabilities,
        InitializeResponse,
    )
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["CLIENT_NAME", "initialize_params", "read_answer", "user_agent_of"]

CLIENT_NAME: Final = "codex_acp_sdk"
"""``clientInfo.name`` unless the program gives its own; Codex puts it into its user agent."""


def initialize_params(
    client_info: ClientInfo | dict[str, JsonValue] | None,
    capabilities: InitializeCapabilities | None,
    opt_out_notifications: tuple[str, ...],
) -> dict[str, JsonValue]:
    """The params of ``initialize``; see `CodexClient` for the defaults."""
    info: JsonValue = {"name": CLIENT_NAME, "version": __version__}
    if client_info is not None:
        info = client_info if isinstance(client_info, dict) else _plain(client_info)
    can: dict[str, JsonValue] = {"experimentalApi": True}
    if capabilities is not None:
        can = _plain(capabilities)
    if opt_out_notifications:
        can["optOutNotificationMethods"] = list(opt_out_notifications)
    return {"clientInfo": info, "capabilities": can}


def user_agent_of(answer: JsonValue) -> str:
    """What the server calls itself. Raises InvalidPayload if its answer does not say it."""
    user_agent = answer.get("userAgent") if isinstance(answer, dict) else None
    return user_agent if isinstance(user_agent, str) else read_answer(answer).user_agent


def read_answer(answer: JsonValue) -> InitializeResponse:
    """The answer as a model. Raises InvalidPayload."""
    name = CLIENT_REQUESTS["initialize"].result
    assert name is not None
    return cast("InitializeResponse", MODELS.decode(name, answer, "the result of initialize"))


def _plain(model: ClientInfo | InitializeCapabilities) -> dict[str, JsonValue]:
    from codex_acp.wire.codec import plain

    return cast("dict[str, JsonValue]", plain(model))
