"""How the generated tree is cut: which methods are hot, so that their models load together.

Order matters: a definition used by several groups lives in the first of them.
"""

CODEX_HOT: dict[str, tuple[str, ...]] = {
    "handshake": ("initialize", "initialized"),
    "turn": (
        "thread/start",
        "turn/start",
        "turn/interrupt",
        "thread/started",
        "thread/status/changed",
        "thread/tokenUsage/updated",
        "turn/started",
        "turn/completed",
        "item/started",
        "item/completed",
        "item/agentMessage/delta",
        "error",
        "warning",
        "configWarning",
    ),
    "requests": (
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
        "serverRequest/resolved",
    ),
}

ACP_HOT: dict[str, tuple[str, ...]] = {
    "handshake": ("initialize",),
    "turn": ("session/new", "session/prompt", "session/update", "session/cancel"),
    "requests": ("session/request_permission", "elicitation/create", "elicitation/complete"),
}
