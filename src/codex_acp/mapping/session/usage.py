"""Tokens: how full the context is, and what one turn has used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codex_acp.mapping.events.session_events import UsageChanged

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import (
        ThreadTokenUsageUpdatedNotification,
        TokenUsageBreakdown,
    )
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState


class TurnUsage(NamedTuple):
    """Tokens of one turn; ``input`` holds those read from a cache, ``output`` the reasoning."""

    total: int
    input: int
    output: int
    reasoning: int
    cached_read: int
    cached_write: int

    def wire(self) -> dict[str, JsonValue]:
        """As ``Usage`` of ACP's unstable schema, the ``usage`` of an answer to a prompt."""
        return {
            "totalTokens": self.total,
            "inputTokens": self.input,
            "outputTokens": self.output,
            "thoughtTokens": self.reasoning,
            "cachedReadTokens": self.cached_read,
            "cachedWriteTokens": self.cached_write,
        }


def token_usage_updated(
    state: SessionState, params: ThreadTokenUsageUpdatedNotification
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
    before: TokenUsageBreakdown | None, after: TokenUsageBreakdown | None
) -> TurnUsage | None:
    """What was used between two values of ``state.total_usage``; None if nothing was reported.

    Never negative: a thread that was reverted counts on from less.
    """
    if after is None or after is before:
        return None
    return TurnUsage(
        *(max(now - then, 0) for now, then in zip(_counts(after), _counts(before), strict=True))
    )


def _counts(usage: TokenUsageBreakdown | None) -> tuple[int, ...]:
    if usage is None:
        return (0,) * len(TurnUsage._fields)
    return (
        usage.total_tokens,
        usage.input_tokens,
        usage.output_tokens,
        usage.reasoning_output_tokens,
        usage.cached_input_tokens,
        usage.cache_write_input_tokens,
    )
