"""The server requests that may ask whether an action may run. Loads nothing."""

from __future__ import annotations

APPROVAL_METHODS = frozenset(
    {
        "applyPatchApproval",
        "execCommandApproval",
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
    }
)
