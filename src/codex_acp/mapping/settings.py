"""Read a thread's settings, and the choices that Codex offers, from plain JSON; make patches.

Plain JSON, because ``session/new`` is answered before the generated classes are loaded. Entries
that do not fit are left out, so that one odd entry never hides the others. A *patch* is the params
of ``thread/settings/update`` without the thread id. It has only the settings to change: Codex
answers with an empty object, and then reports all settings if any has changed. Must not know ACP.

Sources: ``ThreadStartResponse``, ``ThreadSettings``, ``ThreadSettingsUpdateParams``, ``Model``,
``CollaborationModeMask`` and ``PermissionProfileSummary`` of ``schema/codex/experimental.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp._json import list_at, object_at
from codex_acp._record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codex_acp.jsonrpc import JsonValue

    JsonObject = dict[str, JsonValue]


STANDARD_TIER = "default"
"""The service tier that Codex reports after a patch has set the tier to null."""


class Access(NamedTuple):
    """Actions that Codex may do by itself, and the reviewer of all others."""

    policy: JsonValue
    """``AskForApproval``: a text, or an object with ``granular``."""
    reviewer: str
    """``ApprovalsReviewer``; the legacy ``guardian_subagent`` reads as ``auto_review``."""
    sandbox: JsonObject
    """``SandboxPolicy`` with all of its fields, the writable roots sorted."""
    profile: str | None = None
    """The permission profile that the sandbox comes from, if any."""


class Settings(NamedTuple):
    """The effective settings of a thread."""

    model: str
    effort: str | None
    """None: the model's default."""
    tier: str | None
    """None: no tier is chosen, so the model's default counts; `STANDARD_TIER` is a choice."""
    access: Access
    collaboration: str = "default"
    """``ModeKind`` of the collaboration mode."""
    instructions: str | None = None
    """The collaboration mode's developer instructions; None if there are none."""


class Choice(NamedTuple):
    """One value that can be chosen."""

    value: str
    name: str
    description: str | None = None


class Model(NamedTuple):
    """One entry of ``model/list``."""

    slug: str
    name: str
    description: str | None
    efforts: tuple[Choice, ...]
    default_effort: str
    tiers: tuple[Choice, ...]
    default_tier: str | None


class Collaboration(NamedTuple):
    """One entry of ``collaborationMode/list``."""

    mode: str
    name: str
    effort: str | None
    """Effort that the mode sets, if any."""


class Catalogue(NamedTuple):
    """Choices that Codex offers; None until Codex has named them."""

    models: tuple[Model, ...] | None = None
    collaborations: tuple[Collaboration, ...] | None = None
    profiles: tuple[Choice, ...] | None = None
    """The permission profiles that may be chosen here."""

    def model(self, slug: str) -> Model | None:
        """Return the entry of a model."""
        return next((model for model in self.models or () if model.slug == slug), None)


def settings_of_thread(result: JsonValue) -> Settings:
    """Read the settings in the result of ``thread/start``, ``thread/resume`` or ``thread/fork``."""
    return _settings(object_at(result), effort_key="reasoningEffort", sandbox_key="sandbox")


def settings_of_update(params: JsonValue) -> Settings | None:
    """Read the settings in ``thread/settings/updated``; return None if there are none."""
    settings = object_at(params).get("threadSettings")
    if not isinstance(settings, dict):
        return None
    return _settings(settings, effort_key="effort", sandbox_key="sandboxPolicy")


def _settings(source: JsonObject, *, effort_key: str, sandbox_key: str) -> Settings:
    collaboration = object_at(source, "collaborationMode")
    return Settings(
        model=text_of(source, "model") or "",
        effort=text_of(source, effort_key),
        tier=text_of(source, "serviceTier"),
        access=Access(
            policy=source.get("approvalPolicy"),
            reviewer=reviewer_of(text_of(source, "approvalsReviewer")),
            sandbox=sandbox_of(source.get(sandbox_key)),
            profile=text_of(object_at(source, "activePermissionProfile"), "id"),
        ),
        collaboration=text_of(collaboration, "mode") or "default",
        instructions=text_of(object_at(collaboration, "settings"), "developer_instructions"),
    )


def reviewer_of(value: str | None) -> str:
    """Return the current name of a reviewer; ``user`` if there is none."""
    return "auto_review" if value == "guardian_subagent" else value or "user"


def sandbox_of(value: JsonValue) -> JsonObject:
    """Return a ``SandboxPolicy`` with the schema's defaults: equal policies then compare equal."""
    policy = dict(object_at(value))
    match policy.get("type"):
        case "readOnly":
            policy.setdefault("networkAccess", False)
        case "workspaceWrite":
            for name in ("networkAccess", "excludeTmpdirEnvVar", "excludeSlashTmp"):
                policy.setdefault(name, False)
            roots = [root for root in list_at(policy, "writableRoots") if isinstance(root, str)]
            policy["writableRoots"] = sorted(roots)
    return policy


# Choices.


def models_of(result: JsonValue) -> Iterator[Model]:
    """Yield the entries of a page of ``model/list``."""
    for entry in _objects(result, "data"):
        slug = text_of(entry, "model") or text_of(entry, "id")
        if slug is None or entry.get("hidden") is True:
            continue
        efforts = _choices(_objects(entry, "supportedReasoningEfforts"), "reasoningEffort")
        tiers = _choices(_objects(entry, "serviceTiers"), "id", "name")
        yield Model(
            slug=slug,
            name=text_of(entry, "displayName") or slug,
            description=text_of(entry, "description"),
            efforts=tuple(efforts),
            default_effort=text_of(entry, "defaultReasoningEffort") or "",
            tiers=tuple(tier for tier in tiers if tier.value != STANDARD_TIER),
            default_tier=text_of(entry, "defaultServiceTier"),
        )


def collaborations_of(result: JsonValue) -> Iterator[Collaboration]:
    """Yield the entries of ``collaborationMode/list``."""
    for entry in _objects(result, "data"):
        mode = text_of(entry, "mode")
        if mode is not None:
            name = text_of(entry, "name") or mode
            yield Collaboration(mode, name, text_of(entry, "reasoning_effort"))


def profiles_of(result: JsonValue) -> Iterator[Choice]:
    """Return the allowed entries of a page of ``permissionProfile/list``."""
    entries = _objects(result, "data")
    return _choices((entry for entry in entries if entry.get("allowed") is not False), "id")


def _choices(entries: Iterable[JsonObject], value_key: str, name_key: str = "") -> Iterator[Choice]:
    """Yield the choice of each entry that has a value; without a name, its name is the value."""
    for entry in entries:
        value = text_of(entry, value_key)
        if value is not None:
            name = text_of(entry, name_key) or value
            yield Choice(value, name, text_of(entry, "description"))


def _objects(source: JsonValue, name: str) -> Iterator[JsonObject]:
    """Yield the objects in the list ``name``."""
    return (entry for entry in list_at(source, name) if isinstance(entry, dict))


def text_of(source: JsonObject, name: str) -> str | None:
    """Return the text of a field; None if the text is absent or empty."""
    value = source.get(name)
    return value if isinstance(value, str) and value else None


def meets(settings: Settings, patch: JsonObject) -> bool:
    """Return whether the settings have all values of ``patch``."""
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
    """Return the settings after ``patch``, as far as they can be predicted."""
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
        # The mode has the thread's model. Instructions are unknown: Codex may fill them in.
        settings = settings._replace(collaboration=kind, effort=effort)
    if "serviceTier" in patch:
        settings = settings._replace(tier=text_of(patch, "serviceTier") or STANDARD_TIER)
    return settings._replace(
        model=text_of(patch, "model") or settings.model,
        effort=text_of(patch, "effort") or settings.effort,
    )


def difference(wanted: Settings, have: Settings) -> JsonObject:
    """Return the patch that changes the settings ``have`` to ``wanted``."""
    patch: JsonObject = {}
    if wanted.model != have.model:
        patch["model"] = wanted.model
    if wanted.collaboration != have.collaboration:
        mode, instructions = wanted.collaboration, wanted.instructions
        patch |= collaboration_patch(wanted.model, mode, wanted.effort, instructions)
    # A null in the patch would not mean the model's default, as None does in `wanted`.
    elif wanted.effort != have.effort and wanted.effort is not None:
        patch["effort"] = wanted.effort
    if wanted.tier != have.tier and wanted.tier is not None:
        patch["serviceTier"] = None if wanted.tier == STANDARD_TIER else wanted.tier
    access = wanted.access
    if access != have.access:
        patch |= access_patch(access)
    return patch


def is_wider(one: Access, other: Access) -> bool:
    """Return whether one access lets through more than the other without a person's answer. An
    unknown kind of sandbox counts as no sandbox. A profile of the user's own cannot be compared: an
    access with a different profile counts as wider."""
    profiles = {one.profile or ":", other.profile or ":"}
    if len(profiles) == 2 and not all(each.startswith(":") for each in profiles):
        return True
    width = {"readOnly": 0, "workspaceWrite": 1, "externalSandbox": 2}
    kinds = (text_of(each.sandbox, "type") or "" for each in (one, other))
    one_width, other_width = (width.get(kind, 3) for kind in kinds)
    if one_width != other_width:
        return one_width > other_width
    # An external sandbox has a text in place of a boolean.
    one_network, other_network = (
        each.sandbox.get("networkAccess") in (True, "enabled") for each in (one, other)
    )
    forbids = ("excludeTmpdirEnvVar", "excludeSlashTmp")
    roots = list_at(other.sandbox, "writableRoots")
    return (
        (one_network and not other_network)
        or any(other.sandbox.get(name) and not one.sandbox.get(name) for name in forbids)
        or any(root not in roots for root in list_at(one.sandbox, "writableRoots"))
        or (one.reviewer != "user" and other.reviewer == "user")
        or (one.policy != "untrusted" and other.policy == "untrusted")
    )


def access_patch(access: Access) -> JsonObject:
    """Return the patch that gives a thread this access."""
    patch: JsonObject = {"approvalPolicy": access.policy, "approvalsReviewer": access.reviewer}
    if access.profile is None:
        patch["sandboxPolicy"] = access.sandbox
    else:  # Codex refuses a patch with both
        patch["permissions"] = access.profile
    return patch


def collaboration_patch(
    model: str, mode: str, effort: str | None, instructions: str | None
) -> JsonObject:
    """Return the patch for a collaboration mode, which always sets the effort, too. Unlike in
    `Settings`, None for ``instructions`` means the ones built into Codex, and "" means none."""
    settings: JsonObject = {
        "model": model,
        "reasoning_effort": effort,
        "developer_instructions": instructions,
    }
    return {"collaborationMode": {"mode": mode, "settings": settings}}
