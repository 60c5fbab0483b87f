"""Every Codex notification and what becomes of it: one row each, checked to be complete.

A row is a function of this package, or Ignored with its reason. A new notification upstream fails
the type check here, and the check below when this module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.mapping import items, messages, turns
from codex_acp.mapping.step import Ignored
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from codex_acp.mapping._generated.notifications import NotificationHandlers

__all__ = ["NOTIFICATION_HANDLERS", "unwanted_notifications"]

_NOT_YET = Ignored("ACP could show it; this version does not")
_SESSION = Ignored("for the adapter's own bookkeeping; nothing to show")
_REALTIME = Ignored("the adapter starts no realtime voice session", unwanted=True)
_OTHER_CLIENTS = Ignored("answers a feature that ACP has no method to ask for", unwanted=True)

NOTIFICATION_HANDLERS: NotificationHandlers = {
    "error": turns.error,
    "thread/started": _SESSION,
    "thread/status/changed": _NOT_YET,
    "thread/readState/changed": _OTHER_CLIENTS,
    "thread/archived": _NOT_YET,
    "thread/deleted": _NOT_YET,
    "thread/unarchived": _NOT_YET,
    "thread/closed": _NOT_YET,
    "thread/reverted": _NOT_YET,
    "skills/changed": _NOT_YET,
    "thread/name/updated": _NOT_YET,
    "thread/attachment/updated": _OTHER_CLIENTS,
    "thread/goal/updated": _NOT_YET,
    "thread/prediction/updated": _OTHER_CLIENTS,
    "thread/goal/cleared": _NOT_YET,
    "thread/queue/changed": _OTHER_CLIENTS,
    "project/changed": _OTHER_CLIENTS,
    "thread/project/updated": _OTHER_CLIENTS,
    "thread/environment/connected": _OTHER_CLIENTS,
    "thread/environment/disconnected": _OTHER_CLIENTS,
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
    "command/exec/outputDelta": _OTHER_CLIENTS,
    "process/outputDelta": _OTHER_CLIENTS,
    "process/exited": _OTHER_CLIENTS,
    "item/commandExecution/outputDelta": _NOT_YET,
    "item/commandExecution/terminalInteraction": _NOT_YET,
    "item/fileChange/outputDelta": _NOT_YET,
    "item/fileChange/patchUpdated": _NOT_YET,
    "serverRequest/resolved": _SESSION,
    "item/mcpToolCall/progress": _NOT_YET,
    "mcpServer/oauthLogin/completed": _NOT_YET,
    "mcpServer/startupStatus/updated": _NOT_YET,
    "mcpServer/event/stream/notification": _OTHER_CLIENTS,
    "account/updated": _NOT_YET,
    "account/gatewayOAuth/changed": _NOT_YET,
    "account/rateLimits/updated": _NOT_YET,
    "app/list/updated": _OTHER_CLIENTS,
    "remoteControl/status/changed": _OTHER_CLIENTS,
    "externalAgentConfig/import/progress": _OTHER_CLIENTS,
    "externalAgentConfig/import/completed": _OTHER_CLIENTS,
    "fs/changed": _OTHER_CLIENTS,
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
    "fuzzyFileSearch/sessionUpdated": _OTHER_CLIENTS,
    "fuzzyFileSearch/sessionCompleted": _OTHER_CLIENTS,
    "thread/realtime/started": _REALTIME,
    "thread/realtime/itemAdded": _REALTIME,
    "thread/realtime/item/started": _REALTIME,
    "thread/realtime/item/transcript/delta": _REALTIME,
    "thread/realtime/item/completed": _REALTIME,
    "thread/realtime/transcript/delta": _REALTIME,
    "thread/realtime/transcript/done": _REALTIME,
    "thread/realtime/outputAudio/delta": _REALTIME,
    "thread/realtime/sdp": _REALTIME,
    "thread/realtime/error": _REALTIME,
    "thread/realtime/closed": _REALTIME,
    "windows/worldWritableWarning": _OTHER_CLIENTS,
    "windowsSandbox/setupCompleted": _OTHER_CLIENTS,
    "account/login/completed": _NOT_YET,
}


def unwanted_notifications() -> list[str]:
    """Methods that Codex need not send at all (``optOutNotificationMethods``)."""
    return [
        method
        for method, row in NOTIFICATION_HANDLERS.items()
        if isinstance(row, Ignored) and row.unwanted
    ]


require_rows(
    "NOTIFICATION_HANDLERS in codex_acp/mapping/notifications.py",
    NOTIFICATION_HANDLERS,
    SERVER_NOTIFICATIONS,
)
