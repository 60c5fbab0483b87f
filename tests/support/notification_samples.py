"""Notifications as Codex sends them, in the cases that make a difference to the mapping.

Those of an item's tool call are not here, and none that Codex is asked not to send.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Json = dict[str, Any]

THREAD: Final = {"threadId": "thread"}
TURN: Final = {**THREAD, "turnId": "turn"}
ITEM: Final = {**TURN, "itemId": "item"}


class Sample(NamedTuple):
    """One notification, behind those that have to come before it."""

    case: str
    method: str
    params: Json
    before: tuple[tuple[str, Json], ...] = ()


def started(item: Json) -> tuple[str, Json]:
    """``item/started``."""
    return "item/started", {**TURN, "startedAtMs": 1, "item": item}


def completed(item: Json) -> tuple[str, Json]:
    """``item/completed``."""
    return "item/completed", {**TURN, "completedAtMs": 2, "item": item}


def _item(case: str, item: Json, *before: tuple[str, Json]) -> Sample:
    return Sample(case, *completed(item), before)


def _error(message: str, *, retry: bool, **more: Any) -> Json:
    return {**TURN, "error": {"message": message, **more}, "willRetry": retry}


def _turn(status: str) -> Json:
    return {**THREAD, "turn": {"id": "turn", "items": [], "status": status}}


def _review(status: str, **more: Any) -> Json:
    return {
        **TURN,
        "reviewId": "review",
        "targetItemId": "item",
        "startedAtMs": 1,
        "action": {
            "type": "command",
            "command": "touch made",
            "cwd": "/project",
            "source": "shell",
        },
        "review": {"status": status, **more},
    }


def _reviewed(status: str, **more: Any) -> Json:
    return {**_review(status, **more), "completedAtMs": 2, "decisionSource": "agent"}


def hook(status: str, *entries: tuple[str, str], message: str | None = None) -> Json:
    """The params of ``hook/completed``."""
    return {
        **TURN,
        "run": {
            "id": "run",
            "eventName": "preToolUse",
            "executionMode": "sync",
            "handlerType": "command",
            "scope": "turn",
            "sourcePath": "/project/.codex/hooks.json",
            "displayOrder": 0,
            "startedAt": 1,
            "status": status,
            "statusMessage": message,
            "entries": [{"kind": kind, "text": text} for kind, text in entries],
        },
    }


def _goal(status: str) -> Json:
    goal = {
        **THREAD,
        "objective": "Make the tests pass",
        "status": status,
        "tokensUsed": 7,
        "timeUsedSeconds": 1,
        "createdAt": 1,
        "updatedAt": 1,
    }
    return {**TURN, "goal": goal}


def _tokens(total: int) -> Json:
    return {
        "totalTokens": total,
        "inputTokens": total - 20,
        "cachedInputTokens": 100,
        "outputTokens": 20,
        "reasoningOutputTokens": 5,
    }


def _usage(window: int | None) -> Json:
    usage = {"last": _tokens(1_000), "total": _tokens(5_000), "modelContextWindow": window}
    return {**TURN, "tokenUsage": usage}


def _mcp(status: str, **more: Any) -> Json:
    return {**THREAD, "name": "notes", "status": status, **more}


_MESSAGE: Final = {"type": "agentMessage", "id": "item", "text": "Hello there."}
_DELTA: Final = ("item/agentMessage/delta", {**ITEM, "delta": "Hello"})
_SUMMARY: Final = (
    "item/reasoning/summaryTextDelta",
    {**ITEM, "summaryIndex": 0, "delta": "**First** I look."},
)
_COMPACTION: Final = {"type": "contextCompaction", "id": "item"}
_PLAN: Final = {
    **TURN,
    "explanation": "Two steps will do.",
    "plan": [{"step": "Look", "status": "inProgress"}, {"step": "Mend", "status": "pending"}],
}

SAMPLES: Final[tuple[Sample, ...]] = (
    # Messages, thoughts and plans.
    Sample("", *_DELTA),
    _item("what the deltas left", _MESSAGE, _DELTA),
    _item("another text than that of the deltas", {**_MESSAGE, "text": "Good day."}, _DELTA),
    _item(
        "with a question that nobody waits for",
        {
            **_MESSAGE,
            "delivery": "async",
            "questions": [{"title": "Which color?", "options": ["Red", "Blue"]}],
        },
        _DELTA,
    ),
    _item(
        "of the client itself",
        {"type": "userMessage", "id": "item", "content": [{"type": "text", "text": "Go."}]},
    ),
    _item(
        "of another client",
        {
            "type": "userMessage",
            "id": "item",
            "clientId": "elsewhere",
            "content": [
                {"type": "text", "text": "Look at this"},
                {"type": "image", "url": "data:image/png;base64,iVBORw0="},
                {"type": "localImage", "path": "/project/a b.png"},
                {"type": "audio", "url": "data:audio/wav;base64,UklGRg=="},
                {"type": "skill", "name": "mend", "path": "/skills/mend/SKILL.md"},
                {"type": "mention", "name": "notes", "path": "app://notes"},
            ],
        },
    ),
    Sample("", *_SUMMARY),
    Sample(
        "the next part",
        "item/reasoning/summaryTextDelta",
        {**ITEM, "summaryIndex": 1, "delta": "**Then** I mend."},
        (_SUMMARY,),
    ),
    Sample("", "item/reasoning/textDelta", {**ITEM, "contentIndex": 0, "delta": "Hm."}),
    Sample(
        "behind a summary",
        "item/reasoning/textDelta",
        {**ITEM, "contentIndex": 0, "delta": "Hm."},
        (_SUMMARY,),
    ),
    _item(
        "what the deltas left",
        {"type": "reasoning", "id": "item", "summary": ["**First** I look.", "**Then** I mend."]},
        _SUMMARY,
    ),
    Sample("", "item/plan/delta", {**ITEM, "delta": "# Plan"}),
    _item(
        "what the deltas left",
        {"type": "plan", "id": "item", "text": "# Plan\n1. Look"},
        ("item/plan/delta", {**ITEM, "delta": "# Plan"}),
    ),
    Sample("", "turn/plan/updated", _PLAN),
    Sample(
        "the explanation unchanged", "turn/plan/updated", _PLAN, (("turn/plan/updated", _PLAN),)
    ),
    # Compaction, reviews and hooks.
    Sample("", *started(_COMPACTION)),
    _item("", _COMPACTION, started(_COMPACTION)),
    _item("that was not seen to start", _COMPACTION),
    Sample(
        "with a compaction under way",
        "turn/completed",
        _turn("interrupted"),
        (started(_COMPACTION),),
    ),
    _item("", {"type": "enteredReviewMode", "id": "entered", "review": "current changes"}),
    _item("", {"type": "exitedReviewMode", "id": "exited", "review": "No findings."}),
    _item(
        "the review once more",
        {**_MESSAGE, "text": "No findings."},
        completed({"type": "exitedReviewMode", "id": "exited", "review": "No findings."}),
    ),
    Sample("", "item/autoApprovalReview/started", _review("inProgress")),
    Sample(
        "approved",
        "item/autoApprovalReview/completed",
        _reviewed("approved", riskLevel="low", userAuthorization="high", rationale="Asked for."),
        (("item/autoApprovalReview/started", _review("inProgress")),),
    ),
    Sample(
        "denied",
        "item/autoApprovalReview/completed",
        _reviewed("denied", riskLevel="high", rationale="Nobody asked for it."),
        (("item/autoApprovalReview/started", _review("inProgress")),),
    ),
    Sample("not seen to start", "item/autoApprovalReview/completed", _reviewed("timedOut")),
    Sample("", "autoApprovalReview/strictReviewRequired", {**TURN, "startedAtMs": 1}),
    _item(
        "",
        {
            "type": "hookPrompt",
            "id": "item",
            "fragments": [{"hookRunId": "run", "text": "Run the tests first."}],
        },
    ),
    Sample("ended well", "hook/completed", hook("completed", ("context", "for the model"))),
    Sample("ended well, warns", "hook/completed", hook("completed", ("warning", "Slow disk."))),
    Sample("blocked", "hook/completed", hook("blocked", ("feedback", "Not on a Friday."))),
    Sample("failed", "hook/completed", hook("failed", message="exit status 1")),
    Sample("stopped", "hook/completed", hook("stopped", ("stop", "Enough."))),
    # The session as a whole.
    Sample("", "thread/tokenUsage/updated", _usage(272_000)),
    Sample("window unknown", "thread/tokenUsage/updated", _usage(None)),
    Sample("", "thread/name/updated", {**THREAD, "threadName": "Mend the tests"}),
    Sample("cleared", "thread/name/updated", {**THREAD, "threadName": None}),
    Sample("", "thread/goal/updated", _goal("active")),
    Sample(
        "only its tokens",
        "thread/goal/updated",
        _goal("active"),
        (("thread/goal/updated", _goal("active")),),
    ),
    Sample(
        "reached",
        "thread/goal/updated",
        _goal("complete"),
        (("thread/goal/updated", _goal("active")),),
    ),
    Sample("", "thread/goal/cleared", THREAD, (("thread/goal/updated", _goal("active")),)),
    Sample("without a goal", "thread/goal/cleared", THREAD),
    Sample("", "thread/archived", THREAD),
    Sample("", "thread/unarchived", THREAD),
    Sample("", "thread/deleted", THREAD),
    Sample("", "thread/reverted", THREAD),
    # The end of a turn, and errors.
    Sample("", "turn/completed", _turn("completed")),
    Sample(
        "Codex tries again",
        "error",
        _error("Reconnecting... 1/5", retry=True, additionalDetails="stream disconnected"),
    ),
    Sample(
        "Codex tries again, for the same cause",
        "error",
        _error("Reconnecting... 2/5", retry=True, additionalDetails="stream disconnected"),
        (
            (
                "error",
                _error("Reconnecting... 1/5", retry=True, additionalDetails="stream disconnected"),
            ),
        ),
    ),
    Sample("final: the end of the turn says it", "error", _error("Bad request", retry=False)),
    # News.
    Sample("", "warning", {**THREAD, "message": "Unknown model made-up"}),
    Sample(
        "again",
        "warning",
        {**THREAD, "message": "Unknown model made-up"},
        (("warning", {**THREAD, "message": "Unknown model made-up"}),),
    ),
    Sample("without a thread", "warning", {"message": "The disk is full"}),
    Sample("", "guardianWarning", {**THREAD, "message": "Too many denials in this turn"}),
    Sample("", "deprecationNotice", {"summary": "old is deprecated", "details": "Use new."}),
    Sample(
        "",
        "configWarning",
        {
            "summary": "Unknown key",
            "details": "It is ignored.",
            "path": "/home/.codex/config.toml",
            "range": {"start": {"line": 3, "column": 1}, "end": {"line": 3, "column": 9}},
        },
    ),
    Sample(
        "",
        "model/rerouted",
        {**TURN, "fromModel": "big", "toModel": "small", "reason": "highRiskCyberActivity"},
    ),
    Sample("", "model/verification", {**TURN, "verifications": ["trustedAccessForCyber"]}),
    Sample(
        "",
        "model/safetyBuffering/updated",
        {
            **TURN,
            "model": "big",
            "reasons": ["policy"],
            "useCases": ["agent"],
            "showBufferingUi": True,
            "fasterModel": "small",
        },
    ),
    Sample(
        "not to be shown",
        "model/safetyBuffering/updated",
        {**TURN, "model": "big", "reasons": [], "useCases": [], "showBufferingUi": False},
    ),
    Sample(
        "",
        "modelProvider/authRecoveryStarted",
        {**TURN, "provider": "corp", "message": "Renewing the sign-in"},
    ),
    Sample(
        "",
        "modelProvider/authRecoveryCompleted",
        {**TURN, "provider": "corp", "message": "The sign-in was renewed"},
    ),
    Sample(
        "reached",
        "account/rateLimits/updated",
        {
            "rateLimits": {
                "limitId": "codex",
                "rateLimitReachedType": "rate_limit_reached",
                "primary": {"usedPercent": 100, "windowDurationMins": 300},
                "secondary": {"usedPercent": 40, "windowDurationMins": 10_080},
            }
        },
    ),
    Sample("not reached", "account/rateLimits/updated", {"rateLimits": {"limitId": "codex"}}),
    Sample("ready", "mcpServer/startupStatus/updated", _mcp("ready")),
    Sample("failed", "mcpServer/startupStatus/updated", _mcp("failed", error="no such program")),
    Sample(
        "sign-in needed",
        "mcpServer/startupStatus/updated",
        _mcp("failed", error="401", failureReason="reauthenticationRequired"),
    ),
)
