"""What an automatic review is about, in words that continue "may …"."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.routing.display import TITLE_LIMIT, inline, listed
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import GuardianApprovalReviewAction


def action_words(action: GuardianApprovalReviewAction, limit: int | None = TITLE_LIMIT) -> str:
    """For example ``run: touch made``; at most ``limit`` characters of each thing, None: all."""

    def code(text: str) -> str:
        return inline(text, limit)

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
            return f"run: {code(action.command)}"
        case ExecveGuardianApprovalReviewAction():
            return f"run: {code(' '.join([action.program, *action.argv[1:]]))}"
        case WriteStdinGuardianApprovalReviewAction():
            return f"write to a running command: {code(action.stdin)}"
        case ApplyPatchGuardianApprovalReviewAction():
            return f"change {listed([code(path) for path in action.files]) or 'files'}"
        case NetworkAccessGuardianApprovalReviewAction():
            return f"connect to {code(f'{action.protocol}://{action.host}:{action.port}')}"
        case McpToolCallGuardianApprovalReviewAction():
            return f"call {code(action.server)}: {code(action.tool_title or action.tool_name)}"
        case RequestPermissionsGuardianApprovalReviewAction():
            reason = f" ({code(action.reason)})" if action.reason else ""
            return f"have more permissions{reason}"
        case UnknownVariant():
            return f"do what this version does not know ({code(str(action.wire().get('type')))})"
        case _:
            assert_never(action)
