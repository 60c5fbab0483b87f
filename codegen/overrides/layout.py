"""Name the groups of hot methods, whose models load together.

Order matters: a definition that several groups use lives in the first of them.
"""

CODEX_HOT: dict[str, tuple[str, ...]] = {
    "handshake": ("initialize", "initialized"),
    "turn": (
        "turn/start",
        "turn/interrupt",
        "turn/started",
        "turn/completed",
        "item/started",
        "item/completed",
        "item/agentMessage/delta",
        "item/commandExecution/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/plan/delta",
        "item/reasoning/summaryTextDelta",
        "item/reasoning/textDelta",
        "thread/tokenUsage/updated",
        "error",
        "warning",
        "configWarning",
    ),
    "begin": ("thread/start", "thread/started", "thread/status/changed"),
    "requests": (
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
        "serverRequest/resolved",
    ),
    "skills": ("skills/list",),
    "notices": (  # what may come in any session: one of them must not load all of thread/*
        "account/rateLimits/updated",
        "model/rerouted",
        "thread/archived",
        "thread/closed",
        "thread/deleted",
        "thread/goal/cleared",
        "thread/goal/updated",
        "thread/name/updated",
        "thread/reverted",
        "thread/unarchived",
    ),
}

ACP_HOT: dict[str, tuple[str, ...]] = {
    "handshake": ("initialize",),
    "turn": ("session/prompt", "session/update", "session/cancel"),
    "begin": ("session/new",),
    "requests": ("session/request_permission", "elicitation/create", "elicitation/complete"),
}
