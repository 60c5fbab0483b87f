"""Typed server requests and items of Codex, built from wire values as Codex sends them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS, SERVER_REQUESTS
from codex_acp.codex._generated.models import Thread
from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES, ServerNotification
from codex_acp.codex._generated.server_requests import (
    REQUEST_CLASSES,
    ItemCommandExecutionRequestApproval,
    ItemFileChangeRequestApproval,
    ItemPermissionsRequestApproval,
    ItemToolRequestUserInput,
    McpServerElicitationRequest,
    ServerRequest,
)
from codex_acp.codex.approvals import classify as kinds
from codex_acp.codex.approvals.grants import Grant, granted
from codex_acp.codex.approvals.running_items import Items
from codex_acp.jsonrpc import RequestId
from codex_acp.routing.changes import Looks
from codex_acp.routing.route import Approval, RoutingContext
from codex_acp.routing.table import route
from codex_acp.wire.codec import decode, encode, plain
from tests.codex.server_request_samples import assert_fits

ALL_FEATURES = ClientFeatures(elicitation_form=True, elicitation_url=True)
NO_FEATURES = ClientFeatures()
APPROVAL_KIND = "codex_approval_kind"

ASKED = {"threadId": "root", "turnId": "turn", "itemId": "item", "startedAtMs": 1}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
EMPTY_FORM: dict[str, Any] = {"type": "object", "properties": {}}

PARAMS: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {**ASKED, "command": "ls -l", "cwd": "/w"},
    "item/fileChange/requestApproval": {**ASKED, "reason": None, "grantRoot": None},
    "item/permissions/requestApproval": {
        **ASKED,
        "cwd": "/w",
        "permissions": {"network": {"enabled": True}, "fileSystem": {"write": ["/out"]}},
    },
    "item/tool/requestUserInput": {
        "threadId": "root",
        "turnId": "turn",
        "itemId": "item",
        "isBlocking": False,
        "questions": [{"id": "q", "header": "H", "question": "Which?"}],
    },
    "mcpServer/elicitation/request": {
        "threadId": "root",
        "turnId": "turn",
        "serverName": "notes",
        "mode": "form",
        "_meta": None,
        "message": "Fill in",
        "requestedSchema": FORM,
    },
    "item/tool/call": {
        "threadId": "root",
        "turnId": "turn",
        "callId": "c",
        "tool": "clock",
        "arguments": {},
    },
    "account/chatgptAuthTokens/refresh": {"reason": "unauthorized"},
    "attestation/generate": {},
    "currentTime/read": {"threadId": "root"},
    "applyPatchApproval": {
        "callId": "item",
        "conversationId": "root",
        "fileChanges": {"/w/a": {"type": "add", "content": "text"}},
    },
    "execCommandApproval": {
        "callId": "item",
        "conversationId": "root",
        "command": ["ls", "a b"],
        "cwd": "/w",
        "parsedCmd": [],
    },
}
"""Params of every server request that route to something else than a decline, where one can."""


def request(method: str, request_id: RequestId = 0, **changes: Any) -> ServerRequest:
    """A typed request: `PARAMS` with some members changed, by their names on the wire."""
    return request_of(method, {**PARAMS[method], **changes}, request_id)


def request_of(method: str, params: dict[str, Any], request_id: RequestId = 0) -> ServerRequest:
    """A typed request from the params of the wire."""
    name = SERVER_REQUESTS[method].params
    assert name is not None
    return REQUEST_CLASSES[method](request_id, MODELS.decode(name, params, method))


def command(request_id: RequestId = 0, **changes: Any) -> ItemCommandExecutionRequestApproval:
    made = request("item/commandExecution/requestApproval", request_id, **changes)
    return cast("ItemCommandExecutionRequestApproval", made)


def file_change(request_id: RequestId = 0, **changes: Any) -> ItemFileChangeRequestApproval:
    made = request("item/fileChange/requestApproval", request_id, **changes)
    return cast("ItemFileChangeRequestApproval", made)


def permissions(request_id: RequestId = 0, **changes: Any) -> ItemPermissionsRequestApproval:
    made = request("item/permissions/requestApproval", request_id, **changes)
    return cast("ItemPermissionsRequestApproval", made)


def elicitation(request_id: RequestId = 0, **changes: Any) -> McpServerElicitationRequest:
    made = request("mcpServer/elicitation/request", request_id, **changes)
    return cast("McpServerElicitationRequest", made)


def tool_approval(
    arguments: Any = None,
    request_id: RequestId = 0,
    *,
    meta: dict[str, Any] | None = None,
    **changes: Any,
) -> McpServerElicitationRequest:
    """An elicitation as Codex sends it to have a tool call approved."""
    claimed = {APPROVAL_KIND: "mcp_tool_call", "tool_params": arguments, **(meta or {})}
    return elicitation(
        request_id,
        **{"_meta": claimed, "requestedSchema": EMPTY_FORM, "message": "Allow it?", **changes},
    )


def questions(
    *asked: dict[str, Any], request_id: RequestId = 0, **changes: Any
) -> ItemToolRequestUserInput:
    made = request(
        "item/tool/requestUserInput",
        request_id,
        questions=[{"header": "H", "question": "Allow?", **one} for one in asked],
        **changes,
    )
    return cast("ItemToolRequestUserInput", made)


def options(*labels: str) -> list[dict[str, str]]:
    return [{"label": label, "description": ""} for label in labels]


# --- what Codex reports ------------------------------------------------------------------------


def event(method: str, params: dict[str, Any]) -> ServerNotification:
    name = SERVER_NOTIFICATIONS[method].params
    assert name is not None
    return NOTIFICATION_CLASSES[method](MODELS.decode(name, params, method))


def turn_started(thread: str = "root", turn: str = "turn") -> ServerNotification:
    return event(
        "turn/started",
        {"threadId": thread, "turn": {"id": turn, "items": [], "status": "inProgress"}},
    )


def turn_completed(thread: str = "root", turn: str = "turn") -> ServerNotification:
    return event(
        "turn/completed",
        {"threadId": thread, "turn": {"id": turn, "items": [], "status": "completed"}},
    )


def item_started(
    item: dict[str, Any], thread: str = "root", turn: str = "turn"
) -> ServerNotification:
    return event(
        "item/started", {"threadId": thread, "turnId": turn, "startedAtMs": 1, "item": item}
    )


def item_completed(
    item: dict[str, Any], thread: str = "root", turn: str = "turn"
) -> ServerNotification:
    return event(
        "item/completed", {"threadId": thread, "turnId": turn, "completedAtMs": 1, "item": item}
    )


def patch_updated(
    changes: list[dict[str, Any]], item_id: str = "item", thread: str = "root", turn: str = "turn"
) -> ServerNotification:
    return event(
        "item/fileChange/patchUpdated",
        {"threadId": thread, "turnId": turn, "itemId": item_id, "changes": changes},
    )


def thread_closed(thread: str) -> ServerNotification:
    return event("thread/closed", {"threadId": thread})


def thread_of(thread_id: str, *turns: dict[str, Any], parent: str | None = None) -> Thread:
    return decode(
        Thread,
        {
            "id": thread_id,
            "parentThreadId": parent,
            "turns": list(turns),
            "cliVersion": "0",
            "createdAt": 1,
            "updatedAt": 1,
            "cwd": "/w",
            "ephemeral": False,
            "modelProvider": "mock",
            "preview": "",
            "projectId": None,
            "sessionId": "s",
            "source": "appServer",
            "status": {"type": "idle"},
        },
    )


def thread_started(thread_id: str, parent: str | None = None) -> ServerNotification:
    thread = plain(thread_of(thread_id, parent=parent))
    return event("thread/started", {"thread": thread})


def mcp_item(
    item_id: str = "item", arguments: Any = None, *, tool: str = "write", server: str = "notes"
) -> dict[str, Any]:
    return {
        "type": "mcpToolCall",
        "id": item_id,
        "server": server,
        "tool": tool,
        "arguments": arguments,
        "status": "inProgress",
    }


def change(path: str, diff: str = "text\n", kind: str = "add", **more: Any) -> dict[str, Any]:
    return {"path": path, "diff": diff, "kind": {"type": kind, **more}}


def file_item(*changes: dict[str, Any], item_id: str = "item") -> dict[str, Any]:
    return {
        "type": "fileChange",
        "id": item_id,
        "changes": list(changes) or [change("/w/a")],
        "status": "inProgress",
    }


def command_item(command: str = "ls -l", item_id: str = "item", **more: Any) -> dict[str, Any]:
    return {
        "type": "commandExecution",
        "id": item_id,
        "command": command,
        "commandActions": [],
        "cwd": "/w",
        "status": "inProgress",
        **more,
    }


def collab_item(
    *children: str,
    item_id: str = "spawn",
    thread: str = "root",
    tool: str = "spawnAgent",
    prompt: str | None = None,
) -> dict[str, Any]:
    return {
        "type": "collabAgentToolCall",
        "id": item_id,
        "agentsStates": {},
        "prompt": prompt,
        "receiverThreadIds": list(children),
        "senderThreadId": thread,
        "status": "inProgress",
        "tool": tool,
    }


def message_item(
    text: str, *others: dict[str, Any], client_id: str | None = None
) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, *others]
    return {"type": "userMessage", "id": f"says {text}", "clientId": client_id, "content": content}


def running(*items: dict[str, Any], thread: str = "root", turn: str = "turn") -> Items:
    """What is known when these items run in a turn of this thread."""
    known = Items()
    known.apply(turn_started(thread, turn))
    for item in items:
        known.apply(item_started(item, thread, turn))
    return known


def context(items: Items, *sessions: str, client: ClientFeatures = ALL_FEATURES) -> RoutingContext:
    return RoutingContext(items, client, frozenset(sessions or ("root",)))


def approval_route(
    asked: ServerRequest, items: Items, *sessions: str, looks: Looks | None = None
) -> Approval:
    """The route of a request that must be an approval."""
    routed = route(asked, replace(context(items, *sessions), looks=looks or {}))
    assert isinstance(routed, Approval), routed
    return routed


def approval_of(asked: ServerRequest, *items: dict[str, Any]) -> kinds.ApprovalRequest:
    """What a request is that must be an approval when these items run."""
    what = kinds.classify(asked, running(*items))
    assert isinstance(what, kinds.ApprovalRequest), what
    return what


def reply_of(approval: kinds.ApprovalRequest, grant: Grant) -> Any:
    """The accepting reply as it goes over the wire; it fits the schema of its method."""
    value = json.loads(encode(granted(approval, grant)))
    name = SERVER_REQUESTS[approval.request.method].result
    assert name is not None
    assert_fits(name, value)
    return value
