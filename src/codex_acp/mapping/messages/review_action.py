"""What an automatic review is about, in words that continue "may …"."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import GuardianApprovalReviewAction

__all__ = ["action_words"]


def action_words(action: GuardianApprovalReviewAction) -> str:
    """For example ``run: touch made``; complete, so that what is reviewed can be judged."""
    # Loaded when the first review comes: most sessions have none.
    from codex_acp.codex._generated.models import (
        ApplyPatchGuardianApprovalReviewAction,
        CommandGuardianApprovalReviewAction,
        ExecveGuardianApprovalReviewAction,
        McpToolCallGuardianApprovalReviewAction,
        NetworkAccessGuardianApprovalReviewAction,
        RequestPermissionsGuardianApprovalReviewAction,
        WriteStdinGuardianApprovalReviewAction,
    )

    match action:
        case CommandGuardianApprovalReviewAction():
            return f"run: {action.command}"
        case ExecveGuardianApprovalReviewAction():
            return f"run: {' '.join([action.program, *action.argv[1:]])}"
        case WriteStdinGuardianApprovalReviewAction():
            return f"write to a running command: {action.stdin}"
        case ApplyPatchGuardianApprovalReviewAction():
            return f"change {', '.join(action.files) or 'files'}"
        case NetworkAccessGuardianApprovalReviewAction():
            return f"connect to {action.protocol}://{action.host}:{action.port}"
        case McpToolCallGuardianApprovalReviewAction():
            return f"call {action.server}: {action.tool_title or action.tool_name}"
        case RequestPermissionsGuardianApprovalReviewAction():
            reason = f" ({action.reason})" if action.reason else ""
            return f"have more permissions{reason}"
        case UnknownVariant():
            return f"do what this version does not know ({action.wire().get('type')})"
        case _:
            assert_never(action)
