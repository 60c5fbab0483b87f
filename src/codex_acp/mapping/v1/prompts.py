"""How a prompt has ended, as ACP v1's answer to ``session/prompt``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.mapping.agent.capabilities import META_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import PromptStop


def prompt_response(stop: PromptStop, usage: Mapping[str, JsonValue] | None) -> PromptResponse:
    """The answer; ``usage`` is of the unstable schema, and so stands in ``_meta``."""
    response = PromptResponse(stop_reason=stop.reason)
    if usage is not None:
        response.meta = {META_KEY: {"usage": usage}}
    return response
