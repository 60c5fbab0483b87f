"""Changes of a thread's settings: params of ``thread/settings/update`` without the thread.

A *patch* has only what shall change. Codex answers with an empty object and then reports all the
settings, unless nothing changed. Must not know ACP.
Source: ``ThreadSettingsUpdateParams`` of ``schema/codex/experimental.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp._json import object_at
from codex_acp.mapping.config.values import STANDARD_TIER, reviewer_of, sandbox_of, text_of

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.config.values import Access, Settings

    JsonObject = dict[str, JsonValue]


def meets(settings: Settings, patch: JsonObject) -> bool:
    """Whether the settings are what ``patch`` asks for."""
    return all(_meets(settings, name, value) for name, value in patch.items())


def _meets(settings: Settings, name: str, value: JsonValue) -> bool:
    access = settings.access
    match name:
        case "model":
            return settings.model == value
        case "effort":
            return settings.effort == value
        case "serviceTier":
            return settings.tier == (STANDARD_TIER if value is None else value)
        case "approvalPolicy":
            return access.policy == value
        case "approvalsReviewer":
            return access.reviewer == value
        case "permissions":
            return access.profile == value
        case "sandboxPolicy":
            return access.profile is None and access.sandbox == sandbox_of(value)
        case "collaborationMode":
            mode = object_at(value)
            effort = object_at(mode, "settings").get("reasoning_effort")
            return settings.collaboration == mode.get("mode") and settings.effort == effort
    return False


def applied(settings: Settings, patch: JsonObject) -> Settings:
    """The settings once Codex has taken ``patch``, as far as that can be known."""
    access = settings.access
    if "permissions" in patch:
        access = access._replace(profile=text_of(patch, "permissions"))
    if "sandboxPolicy" in patch:
        access = access._replace(sandbox=sandbox_of(patch["sandboxPolicy"]), profile=None)
    if "approvalPolicy" in patch:
        access = access._replace(policy=patch["approvalPolicy"])
    if "approvalsReviewer" in patch:
        access = access._replace(reviewer=reviewer_of(text_of(patch, "approvalsReviewer")))
    settings = settings._replace(access=access)
    if "collaborationMode" in patch:
        mode = object_at(patch, "collaborationMode")
        effort = text_of(object_at(mode, "settings"), "reasoning_effort")
        kind = text_of(mode, "mode") or settings.collaboration
        settings = settings._replace(collaboration=kind, effort=effort)
    if "serviceTier" in patch:
        settings = settings._replace(tier=text_of(patch, "serviceTier") or STANDARD_TIER)
    return settings._replace(
        model=text_of(patch, "model") or settings.model,
        effort=text_of(patch, "effort") or settings.effort,
    )


def difference(wanted: Settings, have: Settings) -> JsonObject:
    """The patch that makes a thread that has ``have`` the one that has ``wanted``."""
    patch: JsonObject = {}
    if wanted.model != have.model:
        patch["model"] = wanted.model
    if wanted.collaboration != have.collaboration:
        mode, instructions = wanted.collaboration, wanted.instructions
        patch |= collaboration_patch(wanted.model, mode, wanted.effort, instructions)
    elif wanted.effort != have.effort and wanted.effort is not None:
        patch["effort"] = wanted.effort
    if wanted.tier != have.tier and wanted.tier is not None:
        patch["serviceTier"] = None if wanted.tier == STANDARD_TIER else wanted.tier
    access = wanted.access
    if access != have.access:
        patch |= access_patch(access)
    return patch


def access_patch(access: Access) -> JsonObject:
    """The patch that gives a thread this access."""
    patch: JsonObject = {"approvalPolicy": access.policy, "approvalsReviewer": access.reviewer}
    if access.profile is None:
        patch["sandboxPolicy"] = access.sandbox
    else:  # Codex refuses the two together
        patch["permissions"] = access.profile
    return patch


def collaboration_patch(
    model: str, mode: str, effort: str | None, instructions: str | None
) -> JsonObject:
    """The patch for a collaboration mode, which always says the effort, too.

    ``instructions`` None are those that are built into Codex for the mode; "" are none.
    """
    settings: JsonObject = {
        "model": model,
        "reasoning_effort": effort,
        "developer_instructions": instructions,
    }
    return {"collaborationMode": {"mode": mode, "settings": settings}}
