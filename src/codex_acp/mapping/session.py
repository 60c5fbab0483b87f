"""Map the title, goal, usage and state of a session, the end of a prompt, and the list of sessions.

The JSON is the same in every version of ACP. Actions of other clients on the thread become notices.
Source: schema ``SessionUpdate`` and its ``StateUpdate``, ``SubagentUpdate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from codex_acp._json import text_at, value_at, without_none
from codex_acp._record import NamedTuple
from codex_acp.jsonrpc import AUTHENTICATION_REQUIRED, INTERNAL_ERROR
from codex_acp.mapping import events
from codex_acp.mapping.agent import META_KEY
from codex_acp.mapping.commands import span_words
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.messages import close_compactions, notice_events, notice_once
from codex_acp.mapping.running_calls import close_open_calls
from codex_acp.routing.display import visible, visible_controls
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownValue, WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.codex._generated import models
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.state import SessionState


def shared_update(
    event: events.SharedEvent, block_of: Callable[[Block], WireModel]
) -> dict[str, Any]:
    """Write a ``SessionUpdate`` that both versions have in common; ``block_of`` writes a block."""
    match event:
        case events.UsageChanged():
            return usage_update(event)
        case events.TitleChanged():
            return {"sessionUpdate": "session_info_update", "title": event.title}
        case events.SubAgentChanged():
            capabilities: dict[str, Any] = {"cancel": {}} if event.stoppable else {}
            update = {
                "sessionUpdate": "subagent_update",
                "sessionId": event.session_id,
                "title": event.title,
                "description": event.description,
                "state": None if event.state is None else state_of(event.state),
                "capabilities": None if event.stoppable is None else capabilities,
            }
            return without_none(update)
        case events.SessionMessage():
            return {
                "sessionUpdate": "session_message",
                "messageId": event.message_id,
                "senderSessionId": event.sender,
                "recipientSessionId": event.recipient,
                "content": [plain(block_of(part)) for part in event.content],
            }
        case _:
            assert_never(event)


def state_of(event: events.StateChanged) -> dict[str, Any]:
    """Write a ``StateUpdate``."""
    state: dict[str, Any] = {"state": event.state}
    match event.end:
        case events.PromptStop(reason=reason):
            state["stopReason"] = reason
        case events.PromptFailure(code=code, message=message, data=data):
            error = {"code": code, "message": message} | ({"data": data} if data else {})
            state |= {"stopReason": "error", "error": error}
        case None:
            pass
        case _:
            assert_never(event.end)
    if event.usage is not None:
        state["_meta"] = {META_KEY: {"usage": event.usage}}
    if event.background is not None:
        state["background"] = [
            *({"type": "terminal", "terminalId": each} for each in event.background),
            *({"type": "subagent", "sessionId": each} for each in event.sub_agents),
        ]
    return state


# The end of a prompt, from the end of its turn. A failed turn never reads as ``end_turn``.

_UNAUTHORIZED_STATUS: Final = 401
"""Status code of HTTP."""
_STOP_REASONS: dict[str, events.StopReason] = {
    "contextWindowExceeded": "max_tokens",
    "sessionBudgetExceeded": "max_turn_requests",
    "tooManyDenials": "max_turn_requests",
    "bioPolicy": "refusal",  # since Codex 0.171
    "cyberPolicy": "refusal",
    "misalignmentPolicyViolation": "refusal",
    "inferenceHookDenied": "refusal",  # since Codex 0.169
}
"""``codexErrorInfo`` → stop reason of ACP; any other value is an error."""


def end_of_turn(turn: models.Turn, last_error: models.TurnError | None) -> events.PromptEnd:
    """Return how the prompt of ``turn`` ends, unless the client has cancelled it. ``last_error`` is
    the turn's last ``error`` notification, for a failed turn without an error."""
    status = turn.status
    match status:
        case "completed":
            return events.PromptStop("end_turn")
        case "interrupted":
            return events.PromptStop("cancelled")
        case "failed":
            return failure(turn.error or last_error)
        case "inProgress":
            message = "Codex ended a turn that is in progress"
            return events.PromptFailure(INTERNAL_ERROR, message, {})
        case UnknownValue():
            message = f"Codex ended the turn with the unknown status {status!r}"
            return events.PromptFailure(INTERNAL_ERROR, message, {"status": str(status)})
        case _:
            assert_never(status)


def end_of_shown_turn(state: SessionState, turn: models.Turn) -> events.PromptEnd:
    """Return how the prompt of a turn ends, and forget the errors of the thread's turns."""
    end = end_of_turn(_without_older_error(state, turn), state.turn_errors.get(turn.id))
    state.turn_errors.clear()  # a thread runs one turn at a time
    return end


def _without_older_error(state: SessionState, turn: models.Turn) -> models.Turn:
    """Return ``turn``, as completed if it failed only with the error of an older turn. Codex ends a
    turn with the error of a turn that it could not begin, even if the later turn went well."""
    is_older = turn.id not in state.turn_errors and turn.error in state.turn_errors.values()
    if turn.status == "failed" and is_older:
        return turn.model_copy(update={"status": "completed", "error": None})
    return turn


def failure(error: models.TurnError | None) -> events.PromptEnd:
    """Return the end of a failed turn: a fitting stop reason, or an error with Codex's message."""
    if error is None:
        return events.PromptFailure(INTERNAL_ERROR, "Codex failed the turn and gave no reason", {})
    info = error.codex_error_info
    if isinstance(info, str) and info in _STOP_REASONS:
        explanation = error.message
        if error.misalignment and error.misalignment.detailed_explanation:
            explanation = f"{explanation}\n\n{error.misalignment.detailed_explanation}"
        return events.PromptStop(_STOP_REASONS[info], explanation)
    details = plain(info) if isinstance(info, WireModel) else None
    unauthorized = info == "unauthorized" or any(
        isinstance(value, dict) and value.get("httpStatusCode") == _UNAUTHORIZED_STATUS
        for value in (details.values() if isinstance(details, dict) else ())
    )
    message = visible_controls(error.message)
    data: dict[str, object] = {"message": message}
    if info is not None:
        data["codexErrorInfo"] = str(info) if details is None else details
    if error.additional_details is not None:
        data["additionalDetails"] = visible_controls(error.additional_details)
    code = AUTHENTICATION_REQUIRED if unauthorized else INTERNAL_ERROR
    return events.PromptFailure(code, message, data)


# Errors and the end of a turn.


def error(state: SessionState, params: models.ErrorNotification) -> events.SessionEvents:
    """Map ``error``: keep a final error, because the end of the turn may come without an error. An
    error after which Codex retries is shown once for each cause. Its message counts the attempts,
    so ``additionalDetails`` tell the cause."""
    turn_error = params.error
    if not params.will_retry:
        state.turn_errors[params.turn_id] = turn_error
        return ()
    details = turn_error.additional_details
    key = (params.turn_id, "retrying", details or turn_error.message)
    return notice_once(state, f"Retrying: {turn_error.message}", "warning", details, key=key)


def turn_completed(
    state: SessionState, params: models.TurnCompletedNotification
) -> events.SessionEvents:
    """Map ``turn/completed``: end the open tool calls and compactions; forget the sent texts."""
    state.sent_text.clear()
    state.thoughts.clear()
    state.plan_explanation = None
    state.review_text = None
    status = _without_older_error(state, params.turn).status
    return [
        *close_compactions(state),
        *close_open_calls(state, turn_completed=status == "completed"),
    ]


# Tokens in the context, and tokens that a turn has used.

_TOKEN_COUNTS: Final = {
    "totalTokens": "total_tokens",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "thoughtTokens": "reasoning_output_tokens",
    "cachedReadTokens": "cached_input_tokens",
    "cachedWriteTokens": "cache_write_input_tokens",
}
"""Field of ``Usage`` in ACP's unstable schema → count of Codex. Input includes the tokens read from
a cache, and output the tokens of the reasoning."""


def token_usage_updated(
    state: SessionState, params: models.ThreadTokenUsageUpdatedNotification
) -> events.SessionEvents:
    """Map ``thread/tokenUsage/updated`` if the size of the context is known. The last request has
    all tokens of the context; 0 means that the model server has not counted them. The total is for
    `turn_usage`."""
    usage = params.token_usage
    before, state.total_usage = state.total_usage, usage.total
    used, size = usage.last.total_tokens, usage.model_context_window or 0
    if used <= 0 or size <= 0:
        return ()
    if (used, size) == state.context_usage and usage.total == before:
        return ()
    state.context_usage = (used, size)
    return (_usage_changed(state, used, size),)


def _usage_changed(state: SessionState, used: int, size: int) -> events.UsageChanged:
    """Return the tokens in the context, with the total and the limits that Codex has reported."""
    limits = tuple(state.rate_limits.values())
    return events.UsageChanged(used, size, limits, turn_usage(None, state.total_usage))


def turn_usage(
    before: models.TokenUsageBreakdown | None, after: models.TokenUsageBreakdown | None
) -> dict[str, JsonValue] | None:
    """Return the tokens used between two values of ``state.total_usage``, as the ``usage`` of a
    prompt's answer; None if Codex reported none. Never negative, although a reverted thread has a
    smaller total."""
    if after is None or after is before:
        return None
    return {
        name: max(getattr(after, count) - getattr(before, count, 0), 0)
        for name, count in _TOKEN_COUNTS.items()
    }


# The account's limits: sent with the tokens; a notice once for each limit that is reached.

_NO_CREDITS: Final = "The workspace has no credits left"
_WORKSPACE_LIMIT: Final = "The usage limit of the workspace is reached"
_REACHED: Final[dict[str, str]] = {
    "rate_limit_reached": "The usage limit of this account is reached",
    "workspace_owner_credits_depleted": f"{_NO_CREDITS}; add some to go on",
    "workspace_member_credits_depleted": f"{_NO_CREDITS}; ask its owner for more",
    "workspace_owner_usage_limit_reached": f"{_WORKSPACE_LIMIT}; raise it to go on",
    "workspace_member_usage_limit_reached": f"{_WORKSPACE_LIMIT}; ask its owner to raise it",
}
"""``rateLimitReachedType`` → text for the person."""


def rate_limits_updated(
    state: SessionState, params: models.AccountRateLimitsUpdatedNotification
) -> events.SessionEvents:
    """Map ``account/rateLimits/updated``: changed limits, and a notice if one is reached. Changed
    limits are sent with the tokens in the context, once these are known. Codex leaves out unchanged
    fields, so a missing ``rateLimitReachedType`` does not mean that no limit is reached."""
    news = params.rate_limits
    shown: list[events.SessionEvent] = []
    empty = events.RateLimit(news.limit_id or "codex")
    before = state.rate_limits.get(empty.id, empty)
    limit = _updated_limit(before, news)
    if limit not in (before, empty):
        state.rate_limits[limit.id] = limit
        if state.context_usage is not None:
            shown.append(_usage_changed(state, *state.context_usage))
    reached = news.rate_limit_reached_type
    if reached is None:
        return shown
    text = _REACHED.get(reached, f"A limit of this account is reached: {reached}")
    if news.limit_name:
        text = f"{text} ({news.limit_name})"
    details = []
    for window in (news.primary, news.secondary):
        if window is not None:
            minutes = window.window_duration_mins
            span = f" of {span_words(minutes)}" if minutes else ""
            details.append(f"{window.used_percent} %{span} used")
    key = ("limit", reached, news.limit_id)
    return [*shown, *notice_once(state, text, "warning", "\n".join(details) or None, key=key)]


def _updated_limit(limit: events.RateLimit, news: models.RateLimitSnapshot) -> events.RateLimit:
    """Return a limit with the fields of ``news``; absent fields stay, except ``reached``."""
    windows = tuple(
        (window.used_percent, window.window_duration_mins, window.resets_at)
        for window in (news.primary, news.secondary)
        if window is not None
    )
    credit = news.credits
    return events.RateLimit(
        limit.id,
        news.limit_name or limit.name,
        limit.plan if news.plan_type is None else str(news.plan_type),
        windows or limit.windows,
        limit.balance if credit is None else credit.balance,
        limit.unlimited if credit is None else credit.unlimited,
        news.rate_limit_reached_type and str(news.rate_limit_reached_type),
    )


def usage_update(usage: events.UsageChanged) -> dict[str, JsonValue]:
    """Write a ``usage_update``, with the limits in ``_meta`` under this agent's key. The tokens of
    the whole session have no field in the schema: they are in ``_meta.usage``, where acpx reads
    them. Unknown values are left out, and so is the cost, which Codex does not report."""
    limits = {"rateLimits": [_limit_json(limit) for limit in usage.limits]}
    meta = without_none({"usage": usage.total, META_KEY: limits if usage.limits else None})
    return without_none(
        {
            "sessionUpdate": "usage_update",
            "used": usage.used,
            "size": usage.size,
            "_meta": meta or None,
        }
    )


def _limit_json(limit: events.RateLimit) -> dict[str, JsonValue]:
    windows = [
        without_none({"usedPercent": used, "windowMinutes": minutes, "resetsAt": resets_at})
        for used, minutes, resets_at in limit.windows
    ]
    has_credits = limit.unlimited or limit.balance is not None
    credit = without_none({"unlimited": limit.unlimited, "balance": limit.balance})
    shown = {
        "id": limit.id,
        "name": limit.name,
        "planType": limit.plan,
        "reached": limit.reached,
        "windows": windows or None,
        "credits": credit if has_credits else None,
    }
    return without_none(shown)


_GOAL: Final[dict[str, tuple[str, events.Severity]]] = {
    "active": ("Goal", "info"),
    "paused": ("Goal paused", "info"),
    "blocked": ("Goal blocked", "warning"),
    "usageLimited": ("Goal stopped by the usage limit", "warning"),
    "budgetLimited": ("Goal stopped: its token budget is used up", "warning"),
    "complete": ("Goal reached", "info"),
}
"""Status of a goal → text and severity of its notice."""


def thread_name_updated(
    state: SessionState, params: models.ThreadNameUpdatedNotification
) -> events.SessionEvents:
    """Map ``thread/name/updated``: the session's title; without a name it is cleared."""
    name = params.thread_name
    state.has_title = True
    return (events.TitleChanged(None if name is None else visible(name)),)


def goal_updated(
    state: SessionState, params: models.ThreadGoalUpdatedNotification
) -> events.SessionEvents:
    """Map ``thread/goal/updated`` to a notice if the goal or its status has changed: Codex also
    sends it after each count of tokens."""
    goal = params.goal
    goal_and_status = (goal.objective, str(goal.status))
    if goal_and_status == state.goal:
        return ()
    state.goal = goal_and_status
    words, severity = _GOAL.get(goal.status, (f"Goal {goal.status}", "info"))
    return notice_events(f"{words}: {goal.objective}", severity)


def goal_cleared(state: SessionState, _params: object) -> events.SessionEvents:
    """Map ``thread/goal/cleared`` to a notice; Codex also sends it for a thread without a goal."""
    if state.goal is None:
        return ()
    state.goal = None
    return notice_events("The goal was cleared", "info")


def thread_archived(_state: SessionState, _params: object) -> events.SessionEvents:
    """Map ``thread/archived`` of another client: a request of this client closes the session."""
    return notice_events("This session was archived", "warning")


def thread_unarchived(_state: SessionState, _params: object) -> events.SessionEvents:
    """Map ``thread/unarchived``."""
    return notice_events("This session was taken out of the archive", "info")


def thread_deleted(_state: SessionState, _params: object) -> events.SessionEvents:
    """Map ``thread/deleted`` of another client: a request of this client closes the session."""
    return notice_events("This session was deleted; what is said now is not kept", "warning")


def thread_reverted(_state: SessionState, _params: object) -> events.SessionEvents:
    """Map ``thread/reverted``: the client still shows what the model has forgotten."""
    text = "This session was taken back to an earlier point; the model forgets what came after"
    return notice_events(text, "warning")


# The list of sessions, from the threads that Codex has stored.

PAGE: Final = 50
"""Sessions per page: as many as a person looks through at once."""
MAX_TITLE: Final = 120
"""Characters of a title, which may be made of a first prompt that has a whole file."""
SOURCES: Final[tuple[JsonValue, ...]] = ("cli", "vscode", "exec", "appServer")
"""Sources of threads that a person began, in any program; threads of sub-agents have others."""
ARCHIVE: Final = "archived:"
"""Prefix of the client's cursor in the archive, if the list has the other sessions first."""
ARCHIVE_FOLDER: Final = "archived_sessions"
"""Folder of Codex's home with the archived threads: no field of a thread says that it is archived.
"""


class ListPage(NamedTuple):
    """A page of the list of sessions. Codex lists its archive or all other threads, never both."""

    archived: bool
    """Whether the page is one of the archive."""
    cursor: str | None
    """Codex's cursor."""
    then_archive: bool
    """Whether the list has the archive after the last page of the other threads."""

    def next(self, cursor: str | None) -> str | None:
        """Return the client's cursor for the next page; ``cursor`` is Codex's. None: last page."""
        if not self.then_archive:
            return cursor
        if self.archived:
            return None if cursor is None else ARCHIVE + cursor
        return ARCHIVE if cursor is None else cursor


def list_page(archived: str | None, cursor: str | None) -> ListPage | None:
    """Return the page for the filter ``archived`` and the client's cursor; None: unknown filter."""
    if archived in (None, "exclude", "only"):
        return ListPage(archived == "only", cursor, then_archive=False)
    if archived != "include":
        return None
    if cursor is None or not cursor.startswith(ARCHIVE):
        return ListPage(archived=False, cursor=cursor, then_archive=True)
    return ListPage(archived=True, cursor=cursor.removeprefix(ARCHIVE) or None, then_archive=True)


def list_params(cwd: str | None, page: ListPage) -> dict[str, JsonValue]:
    """Return the params of ``thread/list``: newest threads first, of every model provider."""
    params = {
        "limit": PAGE,
        "sortKey": "updated_at",
        "sourceKinds": [*SOURCES],
        "modelProviders": [],
        "archived": page.archived,
        "cwd": cwd,
        "cursor": page.cursor,
    }
    return without_none(params)


def is_archived(thread: JsonValue) -> bool:
    """Return whether a thread of ``thread/read`` is in the archive."""
    path = text_at(thread, "path") or ""
    return path.replace("\\", "/").split("/")[-2:-1] == [ARCHIVE_FOLDER]


def session_info(
    thread: JsonValue, updated: str | None, *, archived: bool = False
) -> dict[str, JsonValue] | None:
    """Return the ``SessionInfo`` of a thread; None without id or cwd. ``updated`` is ISO 8601."""
    thread_id, cwd = text_at(thread, "id"), text_at(thread, "cwd")
    if thread_id is None or cwd is None:
        return None
    info: dict[str, JsonValue] = {"sessionId": thread_id, "cwd": cwd, "archived": archived}
    return info | without_none({"title": title_of(thread), "updatedAt": updated})


def updated_at(thread: JsonValue) -> float | None:
    """Return the time of a thread's last change, in seconds since 1970."""
    seconds = value_at(thread, "updatedAt")
    return seconds if type(seconds) in (int, float) else None


def prompt_title(prompt: Sequence[Block]) -> str | None:
    """Return the title that Codex will list for a thread with this first prompt, if any."""
    text = next((block.text for block in prompt if isinstance(block, TextBlock)), "")
    return None if text.startswith("/") else title_of({"preview": text})


def title_of(thread: JsonValue) -> str | None:
    """Return the name that a person gave the thread, else the first line of the first prompt."""
    for key in ("name", "preview"):
        text = text_at(thread, key)
        if text and text.strip():
            line = visible(text.strip().splitlines()[0].rstrip())
            return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
    return None
