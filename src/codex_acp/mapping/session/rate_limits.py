"""The account's limits: said when one is reached, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.messages.lines import say_once

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import (
        AccountRateLimitsUpdatedNotification,
        RateLimitWindow,
    )
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

__all__ = ["rate_limits_updated"]

_NO_CREDITS: Final = "The workspace has no credits left"
_WORKSPACE_LIMIT: Final = "The usage limit of the workspace is reached"

_REACHED: Final[dict[str, str]] = {
    "rate_limit_reached": "The usage limit of this account is reached",
    "workspace_owner_credits_depleted": f"{_NO_CREDITS}; add some to go on",
    "workspace_member_credits_depleted": f"{_NO_CREDITS}; ask its owner for more",
    "workspace_owner_usage_limit_reached": f"{_WORKSPACE_LIMIT}; raise it to go on",
    "workspace_member_usage_limit_reached": f"{_WORKSPACE_LIMIT}; ask its owner to raise it",
}
"""``rateLimitReachedType`` → what it means for the person."""

_MINUTES_A_DAY: Final = 24 * 60


def rate_limits_updated(
    state: SessionState, params: AccountRateLimitsUpdatedNotification
) -> SessionEvents:
    """``account/rateLimits/updated`` → a line when a limit is reached; else nothing.

    The update is sparse: one that names no limit does not mean that none is reached.
    """
    limits = params.rate_limits
    reached = limits.rate_limit_reached_type
    if reached is None:
        return ()
    text = _REACHED.get(reached, f"A limit of this account is reached: {reached}")
    if limits.limit_name:
        text = f"{text} ({limits.limit_name})"
    windows = filter(None, map(_window, (limits.primary, limits.secondary)))
    details = "\n".join(windows) or None
    return say_once(state, text, "warning", details, key=("limit", reached, limits.limit_id))


def _window(window: RateLimitWindow | None) -> str | None:
    if window is None:
        return None
    minutes = window.window_duration_mins
    if not minutes:
        return f"{window.used_percent} % used"
    if minutes % _MINUTES_A_DAY == 0:
        days = minutes // _MINUTES_A_DAY
        return f"{window.used_percent} % of {days} days used"
    hours, rest = divmod(minutes, 60)
    span = f"{hours} hours" if not rest else f"{minutes} minutes"
    return f"{window.used_percent} % of {span} used"
