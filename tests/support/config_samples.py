"""Settings and lists as Codex 0.163 sends them, shortened."""

from __future__ import annotations

from typing import Any

from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.options import ConfigView
from codex_acp.mapping.settings import (
    Access,
    Catalogue,
    collaborations_of,
    models_of,
    profiles_of,
    sandbox_of,
    settings_of_thread,
)

READ_ONLY: dict[str, JsonValue] = {"type": "readOnly", "networkAccess": False}


def _model(
    slug: str, name: str, efforts: list[str], default: str, tiers: list[Any], **more: Any
) -> JsonValue:
    return {
        "id": slug,
        "model": slug,
        "displayName": name,
        "description": f"What {name} is good at.",
        "hidden": False,
        "isDefault": False,
        "supportedReasoningEfforts": [
            {"reasoningEffort": effort, "description": f"About {effort}"} for effort in efforts
        ],
        "defaultReasoningEffort": default,
        "serviceTiers": tiers,
        "defaultServiceTier": None,
        **more,
    }


_FAST: dict[str, JsonValue] = {"id": "priority", "name": "Fast", "description": "1.5x speed"}
_FLEX: dict[str, JsonValue] = {"id": "flex", "name": "Flex", "description": "Half the price"}

MODELS: dict[str, JsonValue] = {
    "data": [
        _model("gpt-6-sol", "GPT-6-Sol", ["low", "medium", "ultra"], "low", [_FAST]),
        _model("gpt-5.5", "GPT-5.5", ["low", "medium", "high"], "medium", [_FAST, _FLEX]),
        _model("gpt-plain", "GPT-Plain", ["none"], "none", []),
        _model("gpt-quick", "GPT-Quick", ["low"], "low", [_FAST], defaultServiceTier="priority"),
        _model("gpt-secret", "GPT-Secret", ["low"], "low", [], hidden=True),
    ],
    "nextCursor": None,
}

COLLABORATIONS: dict[str, JsonValue] = {
    "data": [
        {"name": "Plan", "mode": "plan", "model": None, "reasoning_effort": "medium"},
        {"name": "Default", "mode": "default", "model": None, "reasoning_effort": None},
    ]
}

PROFILES: dict[str, JsonValue] = {
    "data": [
        {"id": ":read-only", "description": None, "allowed": True},
        {"id": ":workspace", "description": None, "allowed": True},
        {"id": ":danger-full-access", "description": None, "allowed": True},
    ],
    "nextCursor": None,
}

OWN_PROFILE: dict[str, JsonValue] = {"id": "mine", "description": "My own.", "allowed": True}

CATALOGUE = Catalogue(
    tuple(models_of(MODELS)), tuple(collaborations_of(COLLABORATIONS)), tuple(profiles_of(PROFILES))
)


def started(**changes: JsonValue) -> dict[str, JsonValue]:
    """A result of ``thread/start``, on request and read only."""
    return {
        "thread": {"id": "thread-1"},
        "cwd": "/scripted/workspace",
        "runtimeWorkspaceRoots": ["/scripted/workspace"],
        "model": "gpt-5.5",
        "modelProvider": "scripted",
        "serviceTier": None,
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "sandbox": READ_ONLY,
        "activePermissionProfile": None,
        "reasoningEffort": None,
        **changes,
    }


def updated(**changes: JsonValue) -> dict[str, JsonValue]:
    """The params of ``thread/settings/updated`` of the same thread."""
    settings: dict[str, JsonValue] = {
        "cwd": "/scripted/workspace",
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "sandboxPolicy": READ_ONLY,
        "activePermissionProfile": None,
        "model": "gpt-5.5",
        "modelProvider": "scripted",
        "serviceTier": None,
        "effort": None,
        "summary": "auto",
        "collaborationMode": {
            "mode": "default",
            "settings": {
                "model": "gpt-5.5",
                "reasoning_effort": None,
                "developer_instructions": None,
            },
        },
        **changes,
    }
    return {"threadId": "thread-1", "threadSettings": settings}


def view_of(catalogue: Catalogue = CATALOGUE, **changes: JsonValue) -> ConfigView:
    """The view of a thread whose configuration is on request and read only."""
    configured = Access("on-request", "user", sandbox_of(READ_ONLY))
    return ConfigView(settings_of_thread(started(**changes)), catalogue, configured)
