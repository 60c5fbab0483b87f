"""The answers that a scripted app-server gives when its script leaves them out.

Pure data, shaped as Codex 0.163 sends them, so that a strictly typed client reads them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.testing.app_server_entries import JsonObject

CODEX_VERSION = "0.163.0"
"""The version that the scripted app-server claims to be."""

THREAD_ID = "thread-1"
"""The thread of ``thread/start``; ``thread/resume`` answers with the id it is asked for."""

_STARTED_AT = 1_700_000_000
"""A fixed time in seconds: what is recorded must be the same in every run."""

_ALWAYS: dict[str, dict[str, object]] = {
    "account/read": {"account": None, "requiresOpenaiAuth": False, "workspaceRouting": None},
    "collaborationMode/list": {"data": []},
    "config/read": {"config": {}, "origins": {}, "layers": []},
    "fs/getMetadata": {  # scripts name directories that are nowhere
        "createdAtMs": 0,
        "isDirectory": True,
        "isFile": False,
        "isSymlink": False,
        "modifiedAtMs": 0,
    },
    "initialize": {
        "userAgent": f"scripted/{CODEX_VERSION}",
        "codexHome": "/scripted/codex-home",
        "platformFamily": "unix",
        "platformOs": "linux",
    },
    "model/list": {"data": [], "nextCursor": None},
    "permissionProfile/list": {"data": [], "nextCursor": None},
    "skills/list": {"data": []},
    "thread/archive": {},
    "thread/inject_items": {},
    "thread/list": {"data": [], "nextCursor": None},
    "thread/name/set": {},
    "thread/unsubscribe": {"status": "unsubscribed"},
    "turn/interrupt": {},
}
"""Answers to requests, whatever their params."""


def default_result(method: str, params: JsonObject, turn_id: str) -> dict[str, object] | None:
    """The default result of a client request, or None if ``method`` has none.

    ``turn_id`` is the id for a turn that the request starts or that is running.
    """
    match method:
        case "thread/start":
            return _thread_result(THREAD_ID, params)
        case "thread/resume" | "thread/read":
            return _thread_result(str(params.get("threadId", THREAD_ID)), params)
        case "turn/start":
            return {"turn": turn_object(turn_id)}
        case "turn/steer":
            return {"turnId": turn_id}
    return deepcopy(_ALWAYS.get(method))


def default_news(method: str, params: JsonObject) -> list[JsonObject]:
    """Return what is told behind the default result: Codex unloads what nobody follows."""
    if method != "thread/unsubscribe":
        return []
    return [{"method": "thread/closed", "params": {"threadId": params.get("threadId")}}]


def turn_object(turn_id: str, status: str = "inProgress") -> dict[str, object]:
    """A ``Turn`` with no items."""
    return {
        "id": turn_id,
        "rootTurnId": turn_id,
        "items": [],
        "itemsView": "notLoaded",
        "status": status,
        "error": None,
        "startedAt": _STARTED_AT,
        "completedAt": None if status == "inProgress" else _STARTED_AT,
        "durationMs": None if status == "inProgress" else 0,
    }


def _thread_result(thread_id: str, params: JsonObject) -> dict[str, object]:
    cwd = str(params.get("cwd") or "/scripted/workspace")
    model = str(params.get("model") or "gpt-5.5")
    thread: dict[str, object] = {
        "id": thread_id,
        "environments": [],
        "extra": None,
        "sessionId": thread_id,
        "forkedFromId": None,
        "parentThreadId": None,
        "preview": "",
        "ephemeral": False,
        "section": None,
        "sectionEnteredAt": None,
        "projectId": None,
        "historyMode": "paginated",
        "modelProvider": "scripted",
        "model": model,
        "reasoningEffort": None,
        "createdAt": _STARTED_AT,
        "updatedAt": _STARTED_AT,
        "recencyAt": _STARTED_AT,
        "status": {"type": "idle"},
        "path": None,
        "cwd": cwd,
        "cliVersion": CODEX_VERSION,
        "originator": "scripted",
        "source": "vscode",
        "canAcceptDirectInput": True,
        "threadSource": None,
        "agentNickname": None,
        "agentRole": None,
        "gitInfo": None,
        "name": None,
        "daybreakEnabled": None,
        "turns": [],
    }
    return {
        "thread": thread,
        "model": model,
        "modelProvider": "scripted",
        "serviceTier": None,
        "disabledPluginIds": [],
        "cwd": cwd,
        "runtimeWorkspaceRoots": [cwd],
        "instructionSources": [],
        "approvalPolicy": params.get("approvalPolicy") or "on-request",
        "approvalsReviewer": "user",
        "sandbox": {"type": "readOnly", "networkAccess": False},
        "activePermissionProfile": None,
        "reasoningEffort": None,
        "multiAgentMode": "explicitRequestOnly",
    }
