"""The account's limits: said when one is reached, each once, and told with the use of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.agent.capabilities import META_KEY
from codex_acp.mapping.events.session_events import RateLimit, SessionEvents, UsageChanged
from codex_acp.mapping.messages.lines import say_once
from codex_acp.mapping.prompt.reports import span_words

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.state import SessionState

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


def rate_limits_updated(
    state: SessionState, params: models.AccountRateLimitsUpdatedNotification
) -> SessionEvents:
    """``account/rateLimits/updated`` → the limits that have changed, beside the use of the context,
    once that is known; and a line when a limit is reached.

    The update is sparse: one that names no limit does not mean that none is reached.
    """
    return (*_noted(state, params.rate_limits), *_said(state, params.rate_limits))


def _noted(state: SessionState, limits: models.RateLimitSnapshot) -> SessionEvents:
    limit_id = limits.limit_id or "codex"
    before = state.rate_limits.get(limit_id)
    now = _merged(before or RateLimit(limit_id), limits)
    if now in (before, RateLimit(limit_id)):
        return ()
    state.rate_limits[limit_id] = now
    if state.context_usage is None:
        return ()  # the update of the context has it
    return (UsageChanged(*state.context_usage, tuple(state.rate_limits.values())),)


def _merged(limit: RateLimit, news: models.RateLimitSnapshot) -> RateLimit:
    """Merge news into a limit: absent fields stay, but "reached" held only when it was sent."""
    windows = [w for w in (news.primary, news.secondary) if w is not None]
    credit = news.credits
    spans = ((w.used_percent, w.window_duration_mins, w.resets_at) for w in windows)
    return RateLimit(
        limit.id,
        news.limit_name or limit.name,
        limit.plan if news.plan_type is None else str(news.plan_type),
        tuple(spans) if windows else limit.windows,
        limit.balance if credit is None else credit.balance,
        limit.unlimited if credit is None else credit.unlimited,
        news.rate_limit_reached_type and str(news.rate_limit_reached_type),
    )


def usage_update(usage: UsageChanged) -> dict[str, JsonValue]:
    """``usage_update`` of either version; the limits below this agent's key of its ``_meta``.

    What is not known is left out. There is no cost: Codex tells none of a session.
    """
    update: dict[str, JsonValue] = {
        "sessionUpdate": "usage_update", "used": usage.used, "size": usage.size,
    }  # fmt: skip
    if usage.limits:
        update["_meta"] = {META_KEY: {"rateLimits": [_written(limit) for limit in usage.limits]}}
    return update


def _written(limit: RateLimit) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {"id": limit.id}
    texts = {"name": limit.name, "planType": limit.plan, "reached": limit.reached}
    shown |= {key: value for key, value in texts.items() if value is not None}
    spans: list[JsonValue] = []
    for used, minutes, resets_at in limit.windows:
        span: dict[str, JsonValue] = {"usedPercent": used}
        known = {"windowMinutes": minutes, "resetsAt": resets_at}
        spans.append(span | {key: value for key, value in known.items() if value is not None})
    if spans:
        shown["windows"] = spans
    if limit.unlimited or limit.balance is not None:
        credit: dict[str, JsonValue] = {"unlimited": limit.unlimited}
        shown["credits"] = credit if limit.balance is None else credit | {"balance": limit.balance}
    return shown


def _said(state: SessionState, limits: models.RateLimitSnapshot) -> SessionEvents:
    reached = limits.rate_limit_reached_type
    if reached is None:
        return ()
    text = _REACHED.get(reached, f"A limit of this account is reached: {reached}")
    if limits.limit_name:
        text = f"{text} ({limits.limit_name})"
    windows = filter(None, map(_window, (limits.primary, limits.secondary)))
    details = "\n".join(windows) or None
    return say_once(state, text, "warning", details, key=("limit", reached, limits.limit_id))


def _window(window: models.RateLimitWindow | None) -> str | None:
    if window is None:
        return None
    minutes = window.window_duration_mins
    return f"{window.used_percent} %{f' of {span_words(minutes)}' if minutes else ''} used"
