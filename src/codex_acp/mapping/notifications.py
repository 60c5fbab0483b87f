"""Every Codex notification and what becomes of it: one row each, checked to be complete.

A row is a function of this package, or Ignored with its reason. A new notification upstream fails
the type check here, and the check below when this module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.mapping import items, messages, turns
from codex_acp.mapping.step import Ignored
from codex_acp.mapping.unwanted import UNWANTED_NOTIFICATIONS
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from codex_acp.mapping._generated.notifications import NotificationHandlers

__all__ = ["NOTIFICATION_HANDLERS"]

_NOT_YET = Ignored("ACP could show it; this version does not")
_SESSION = Ignored("for the adapter's own bookkeeping; nothing to show")
_UNWANTED = Ignored("Codex is asked not to send it: see mapping/unwanted.py")

NOTIFICATION_HANDLERS: NotificationHandlers = {
    "error": turns.error,
    "thread/started": _SESSION,
    "thread/status/changed": _NOT_YET,
    "thread/readState/changed": _UNWANTED,
    "thread/archived": _NOT_YET,
    "thread/deleted": _NOT_YET,
    "thread/unarchived": _NOT_YET,
    "thread/closed": _NOT_YET,
    "thread/reverted": _NOT_YET,
    "skills/changed": _NOT_YET,
    "thread/name/updated": _NOT_YET,
    "thread/attachment/updated": _UNWANTED,
    "thread/goal/updated": _NOT_YET,
    "thread/prediction/updated": _UNWANTED,
    "thread/goal/cleared": _NOT_YET,
    "thread/queue/changed": _UNWANTED,
    "project/changed": _UNWANTED,
    "thread/project/updated": _UNWANTED,
    "thread/environment/connected": _UNWANTED,
    "thread/environment/disconnected": _UNWANTED,
    "thread/settings/updated": _NOT_YET,
    "thread/tokenUsage/updated": _NOT_YET,
    "turn/started": _SESSION,
    "hook/started": _NOT_YET,
    "turn/completed": turns.turn_completed,
    "hook/completed": _NOT_YET,
    "turn/diff/updated": _NOT_YET,
    "turn/plan/updated": _NOT_YET,
    "item/started": _NOT_YET,
    "item/autoApprovalReview/started": _NOT_YET,
    "item/autoApprovalReview/completed": _NOT_YET,
    "autoApprovalReview/strictReviewRequired": _NOT_YET,
    "item/completed": items.item_completed,
    "item/agentMessage/delta": messages.agent_message_delta,
    "item/plan/delta": _NOT_YET,
    "command/exec/outputDelta": _UNWANTED,
    "process/outputDelta": _UNWANTED,
    "process/exited": _UNWANTED,
    "item/commandExecution/outputDelta": _NOT_YET,
    "item/commandExecution/terminalInteraction": _NOT_YET,
    "item/fileChange/outputDelta": _NOT_YET,
    "item/fileChange/patchUpdated": _NOT_YET,
    "serverRequest/resolved": _SESSION,
    "item/mcpToolCall/progress": _NOT_YET,
    "mcpServer/oauthLogin/completed": _NOT_YET,
    "mcpServer/startupStatus/updated": _NOT_YET,
    "mcpServer/event/stream/notification": _UNWANTED,
    "account/updated": _NOT_YET,
    "account/gatewayOAuth/changed": _NOT_YET,
    "account/rateLimits/updated": _NOT_YET,
    "app/list/updated": _UNWANTED,
    "remoteControl/status/changed": _UNWANTED,
    "externalAgentConfig/import/progress": _UNWANTED,
    "externalAgentConfig/import/completed": _UNWANTED,
    "fs/changed": _UNWANTED,
    "item/reasoning/summaryTextDelta": _NOT_YET,
    "item/reasoning/summaryPartAdded": _NOT_YET,
    "item/reasoning/textDelta": _NOT_YET,
    "thread/compacted": _NOT_YET,
    "model/rerouted": _NOT_YET,
    "model/verification": _NOT_YET,
    "modelProvider/authRecoveryStarted": _NOT_YET,
    "modelProvider/authRecoveryCompleted": _NOT_YET,
    "turn/moderationMetadata": _NOT_YET,
    "model/safetyBuffering/updated": _NOT_YET,
    "warning": _NOT_YET,
    "guardianWarning": _NOT_YET,
    "deprecationNotice": _NOT_YET,
    "configWarning": _NOT_YET,
    "fuzzyFileSearch/sessionUpdated": _UNWANTED,
    "fuzzyFileSearch/sessionCompleted": _UNWANTED,
    "thread/realtime/started": _UNWANTED,
    "thread/realtime/itemAdded": _UNWANTED,
    "thread/realtime/item/started": _UNWANTED,
    "thread/realtime/item/transcript/delta": _UNWANTED,
    "thread/realtime/item/completed": _UNWANTED,
    "thread/realtime/transcript/delta": _UNWANTED,
    "thread/realtime/transcript/done": _UNWANTED,
    "thread/realtime/outputAudio/delta": _UNWANTED,
    "thread/realtime/sdp": _UNWANTED,
    "thread/realtime/error": _UNWANTED,
    "thread/realtime/closed": _UNWANTED,
    "windows/worldWritableWarning": _UNWANTED,
    "windowsSandbox/setupCompleted": _UNWANTED,
    "account/login/completed": _NOT_YET,
}


require_rows(
    "NOTIFICATION_HANDLERS in codex_acp/mapping/notifications.py",
    NOTIFICATION_HANDLERS,
    SERVER_NOTIFICATIONS,
)
require_rows(
    "the _UNWANTED rows of NOTIFICATION_HANDLERS in codex_acp/mapping/notifications.py",
    [method for method, row in NOTIFICATION_HANDLERS.items() if row is _UNWANTED],
    UNWANTED_NOTIFICATIONS,
)
