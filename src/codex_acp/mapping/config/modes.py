"""The modes of a session: what Codex may do by itself, and who is asked for the rest.

A mode stands for an approval policy, a reviewer and a sandbox. One of them is the user's own
configuration, and what fits none is shown as what it is. Must not know ACP's shapes.

A mode is set by a permission profile of Codex's own and not by a ``sandboxPolicy``: the profile
keeps a session's additional directories writable, and after a load it tells a choice from a
configuration with the same effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import object_at
from codex_acp.codex.threads.opening import FULL_ACCESS, sandbox_policy
from codex_acp.mapping.config.changes import access_patch
from codex_acp.mapping.config.values import Access, Catalogue, reviewer_of, sandbox_of, text_of

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

    JsonObject = dict[str, JsonValue]

CONFIGURED: Final = "configured"
"""The mode that overrides nothing."""

CUSTOM: Final = "custom"
"""The mode of what fits no other; only there while it is current."""

PROFILE_PREFIX: Final = "profile:"
"""Before the name of a permission profile of the user's own."""


class Mode(NamedTuple):
    """One entry."""

    id: str
    name: str
    description: str
    access: Access


_READ_ONLY: Final = sandbox_of({"type": "readOnly"})
_WORKSPACE: Final = sandbox_of({"type": "workspaceWrite"})
_FULL: Final[JsonObject] = FULL_ACCESS

_MODES: Final = (
    Mode(
        "read-only",
        "Read only",
        "Reads files and runs commands that change nothing. Asks before anything else.",
        Access("on-request", "user", _READ_ONLY, ":read-only"),
    ),
    Mode(
        "ask",
        "Ask",
        "Works in the workspace without the network. Asks before it goes beyond that.",
        Access("on-request", "user", _WORKSPACE, ":workspace"),
    ),
    Mode(
        "auto-review",
        "Auto review",
        "Works in the workspace. Codex's own reviewer decides on what goes beyond that.",
        Access("on-request", "auto_review", _WORKSPACE, ":workspace"),
    ),
    Mode(
        "never-ask",
        "Never ask",
        "Works in the workspace. What goes beyond that fails, and nobody is asked.",
        Access("never", "user", _WORKSPACE, ":workspace"),
    ),
    Mode(
        "full-access",
        "Full access",
        "Runs everything, without a sandbox and without asking. Dangerous.",
        Access("never", "user", _FULL, ":danger-full-access"),
    ),
)

_POLICIES: Final = {
    "on-request": "asks when needed",
    "never": "never asks",
    "untrusted": "asks before all but harmless commands",
    "on-failure": "asks when a command fails in the sandbox",
}

_SANDBOXES: Final = {
    "readOnly": "read only",
    "workspaceWrite": "may write in the workspace",
    "dangerFullAccess": "no sandbox",
    "externalSandbox": "a sandbox outside of Codex",
}


def fixed_modes() -> frozenset[str]:
    """The ids of the modes that do not come from a configuration's permission profiles."""
    return frozenset({CONFIGURED, *(mode.id for mode in _MODES)})


def known_modes(catalogue: Catalogue) -> list[Mode]:
    """The modes whose profile may be chosen; while Codex has not told, all of them."""
    if catalogue.profiles is None:
        return list(_MODES)
    allowed = {profile.value for profile in catalogue.profiles}
    return [mode for mode in _MODES if mode.access.profile in allowed]


def profile_modes(catalogue: Catalogue) -> list[Mode]:
    """A mode for each permission profile of the user's own; Codex's begin with a colon."""
    return [
        Mode(
            PROFILE_PREFIX + profile.value,
            profile.name,
            profile.description or f"The permission profile {profile.name}. Asks when needed.",
            Access("on-request", "user", {}, profile.value),
        )
        for profile in catalogue.profiles or ()
        if not profile.value.startswith(":")
    ]


def mode_patch(mode_id: str, catalogue: Catalogue) -> JsonObject:
    """The patch for one of these modes; by its sandbox if Codex has told no profiles."""
    modes = (*known_modes(catalogue), *profile_modes(catalogue))
    (access,) = (mode.access for mode in modes if mode.id == mode_id)
    return access_patch(access if catalogue.profiles else access._replace(profile=None))


def current_mode(access: Access, configured: Access | None, catalogue: Catalogue) -> str:
    """The mode that an access is: the configured one first, `CUSTOM` if it is none."""
    if configured is not None and _same(access, configured):
        return CONFIGURED
    for mode in (*known_modes(catalogue), *profile_modes(catalogue)):
        if _same(access, mode.access) or _same(access, mode.access._replace(profile=None)):
            return mode.id
    return CUSTOM


def _same(one: Access, other: Access) -> bool:
    """A profile says all about the sandbox, which may list a session's own directories."""
    if (one.policy, one.reviewer, one.profile) != (other.policy, other.reviewer, other.profile):
        return False
    return one.profile is not None or one.sandbox == other.sandbox


def described(access: Access) -> str:
    """An access in words: ``asks when needed, read only``."""
    policy = access.policy
    asks = _POLICIES.get(policy) if isinstance(policy, str) else "asks for some kinds of actions"
    words = [asks or f"approval policy {policy}"]
    if access.reviewer != "user":
        automatic = access.reviewer == "auto_review"
        words.append("reviewed automatically" if automatic else f"reviewer {access.reviewer}")
    kind = text_of(access.sandbox, "type") or "unknown"
    words.append(_SANDBOXES.get(kind, f"sandbox {kind}"))
    if access.sandbox.get("networkAccess") in (True, "enabled"):
        words.append("with network")
    if access.profile is not None and not access.profile.startswith(":"):
        words.append(f"permission profile {access.profile}")
    return ", ".join(words)


# The configuration.


def configured_access(
    config: JsonObject, cwd: str, project: str | None, roots: tuple[str, ...] = ()
) -> Access:
    """Return the access of a new thread in ``cwd`` from ``config`` of ``config/read``.

    ``project`` is the root of the repository around ``cwd``, ``roots`` are the thread's
    additional directories. Where the configuration is silent Codex goes by the project's trust;
    a trust that is not found counts as none, which allows the least.
    """
    trust = _trust(config, cwd, project)
    policy = config.get("approval_policy") or (
        "untrusted" if trust == "untrusted" else "on-request"
    )
    reviewer = reviewer_of(text_of(config, "approvals_reviewer"))
    mode, profile = text_of(config, "sandbox_mode"), text_of(config, "default_permissions")
    if mode is None and profile is None:
        profile = ":read-only" if trust is None else ":workspace"
    if profile is not None:
        builtin = {":read-only": _READ_ONLY, ":workspace": _WORKSPACE, ":danger-full-access": _FULL}
        return Access(policy, reviewer, builtin.get(profile, {}), profile)
    table = object_at(config, "sandbox_workspace_write")
    return Access(policy, reviewer, sandbox_of(sandbox_policy(str(mode), table, [*roots])))


def _trust(config: JsonObject, cwd: str, project: str | None) -> str | None:
    projects = object_at(config, "projects")
    for path in (cwd, project):
        trust = text_of(object_at(projects, path), "trust_level") if path else None
        if trust is not None:
            return trust
    return None
