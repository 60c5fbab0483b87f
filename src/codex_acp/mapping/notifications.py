"""Map each notification of Codex to the function that makes events of it, in one total table.

A row is a function of this package, or `Ignored` with a reason. A notification of a new version of
Codex fails the type check, and the import of this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._record import NamedTuple
from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.mapping import items, messages, running_calls, session
from codex_acp.mapping.agent import UNWANTED_NOTIFICATIONS
from codex_acp.transcript.secrets import scrub_json, without_remembered
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping._generated.notifications import NotificationHandlers
    from codex_acp.mapping.events import SessionEvents
    from codex_acp.mapping.state import SessionState


class Ignored(NamedTuple):
    """Reason why a notification causes no event."""

    reason: str


_SESSION = Ignored("for the adapter's own bookkeeping; nothing to show")
_STATUS = Ignored(
    "the session in adapter/ notes it: a turn whose end was lost, a thread that ended"
)
_COMMANDS = Ignored("the session's commands in adapter/ are listed anew")
_OPTIONS = Ignored("the session's config options in adapter/ are made anew")
_LOGIN = Ignored("the login in adapter/ waits for it")
_NEVER_SENT = Ignored("deprecated: the diffs of a file change hold all of it")
_UNWANTED = Ignored("Codex is asked not to send it: see mapping/agent.py")

NOTIFICATION_HANDLERS: NotificationHandlers = {
    "error": session.error,
    "thread/started": _SESSION,
    "thread/status/changed": _STATUS,
    "thread/readState/changed": _UNWANTED,
    "thread/archived": session.thread_archived,
    "thread/deleted": session.thread_deleted,
    "thread/unarchived": session.thread_unarchived,
    "thread/closed": _STATUS,
    "thread/reverted": session.thread_reverted,
    "skills/changed": _COMMANDS,
    "thread/name/updated": session.thread_name_updated,
    "thread/section/changed": _UNWANTED,
    "thread/attachment/updated": _UNWANTED,
    "thread/goal/updated": session.goal_updated,
    "thread/prediction/updated": _UNWANTED,
    "thread/goal/cleared": session.goal_cleared,
    "thread/queue/changed": _UNWANTED,
    "project/changed": _UNWANTED,
    "thread/project/updated": _UNWANTED,
    "thread/environment/connected": _UNWANTED,
    "thread/environment/disconnected": _UNWANTED,
    "thread/settings/updated": _OPTIONS,
    "thread/tokenUsage/updated": session.token_usage_updated,
    "turn/started": _SESSION,
    "hook/started": _UNWANTED,
    "turn/completed": session.turn_completed,
    "hook/completed": messages.hook_completed,
    "turn/diff/updated": _UNWANTED,
    "turn/plan/updated": messages.plan_updated,
    "item/started": items.item_started,
    "item/autoApprovalReview/started": items.approval_review_started,
    "item/autoApprovalReview/completed": items.approval_review_completed,
    "autoApprovalReview/strictReviewRequired": messages.strict_review_required,
    "item/completed": items.item_completed,
    "item/agentMessage/delta": messages.message_delta,
    "item/plan/delta": messages.message_delta,
    "command/exec/outputDelta": _UNWANTED,
    "process/outputDelta": _UNWANTED,
    "process/exited": _UNWANTED,
    "item/commandExecution/outputDelta": running_calls.output_delta,
    "item/commandExecution/terminalInteraction": running_calls.terminal_interaction,
    "item/fileChange/outputDelta": _NEVER_SENT,
    "item/fileChange/patchUpdated": running_calls.patch_updated,
    "serverRequest/resolved": _SESSION,
    "item/mcpToolCall/progress": running_calls.mcp_progress,
    "mcpServer/oauthLogin/completed": _LOGIN,
    "mcpServer/startupStatus/updated": messages.mcp_startup_updated,
    "mcpServer/event/stream/notification": _UNWANTED,
    "account/updated": _LOGIN,
    "account/gatewayOAuth/changed": _UNWANTED,
    "account/rateLimits/updated": session.rate_limits_updated,
    "app/list/updated": _UNWANTED,
    "remoteControl/status/changed": _UNWANTED,
    "externalAgentConfig/import/progress": _UNWANTED,
    "externalAgentConfig/import/completed": _UNWANTED,
    "fs/changed": _UNWANTED,
    "item/reasoning/summaryTextDelta": messages.summary_text_delta,
    "item/reasoning/summaryPartAdded": _UNWANTED,
    "item/reasoning/textDelta": messages.reasoning_text_delta,
    "thread/compacted": _UNWANTED,
    "model/rerouted": messages.model_rerouted,
    "model/verification": messages.model_verification,
    "modelProvider/authRecoveryStarted": messages.auth_recovery,
    "modelProvider/authRecoveryCompleted": messages.auth_recovery,
    "turn/moderationMetadata": _UNWANTED,
    "model/safetyBuffering/updated": messages.safety_buffering_updated,
    "warning": messages.warning,
    "guardianWarning": messages.warning,
    "deprecationNotice": messages.deprecation_notice,
    "configWarning": messages.config_warning,
    "fuzzyFileSearch/sessionUpdated": _UNWANTED,
    "fuzzyFileSearch/sessionCompleted": _UNWANTED,
    "thread/search/partial": _UNWANTED,
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
    "account/login/completed": _LOGIN,
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

PIECES: Final[Mapping[str, Callable[[SessionState, str, str], SessionEvents]]] = {
    "item/agentMessage/delta": messages.text_delta,
    "item/commandExecution/outputDelta": running_calls.more_output,
}
"""Functions for the pieces of a text, which arrive by the thousand; each gets item id and text.

Pieces may be joined: one call with the texts ``a`` and ``b`` joined shows as much as two calls.
"""
WITHOUT_SECRETS: Final[Mapping[str, Callable[[JsonValue], JsonValue]]] = {
    "mcpServer/startupStatus/updated": scrub_json,
    "warning": without_remembered,
    "guardianWarning": without_remembered,
    "configWarning": without_remembered,
    "deprecationNotice": without_remembered,
}
"""Functions that remove secrets from texts of Codex, which may quote headers, an environment or a
URL that a client gave."""
