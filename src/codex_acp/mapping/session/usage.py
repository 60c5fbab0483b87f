"""Tokens: how full the context is, and what one turn has used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.session_events import SessionEvents, UsageChanged

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.state import SessionState


_COUNTED: Final = {
    "totalTokens": "total_tokens",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "thoughtTokens": "reasoning_output_tokens",
    "cachedReadTokens": "cached_input_tokens",
    "cachedWriteTokens": "cache_write_input_tokens",
}
"""``Usage`` of ACP's unstable schema → Codex's count: ``input`` holds those read from a cache,
``output`` the reasoning."""


def token_usage_updated(
    state: SessionState, params: models.ThreadTokenUsageUpdatedNotification
) -> SessionEvents:
    """``thread/tokenUsage/updated`` → ``usage_update``, if the size of the context is known.

    The last request's tokens are what the context holds now; none means that the model server
    has not counted them. The total is kept for `turn_usage`.
    """
    usage = params.token_usage
    state.total_usage = usage.total
    used, size = usage.last.total_tokens, usage.model_context_window or 0
    if used <= 0 or size <= 0 or (used, size) == state.context_usage:
        return ()
    state.context_usage = (used, size)
    return (UsageChanged(used, size, tuple(state.rate_limits.values())),)


def turn_usage(
    before: models.TokenUsageBreakdown | None, after: models.TokenUsageBreakdown | None
) -> dict[str, JsonValue] | None:
    """Return the tokens used between two values of ``state.total_usage``, as the ``usage`` of a
    prompt's answer; None if nothing was reported.

    Never negative: a thread that was reverted counts on from less.
    """
    if after is None or after is before:
        return None
    return {
        name: max(getattr(after, count) - getattr(before, count, 0), 0)
        for name, count in _COUNTED.items()
    }
