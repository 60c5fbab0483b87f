"""Make a session's config options and modes for ACP, and map a choice to a patch for Codex, the
params of ``thread/settings/update``.

A mode is a combination of approval policy, reviewer and sandbox: the actions that Codex may do
without asking, and who decides on all others. `CONFIGURED` is the user's own configuration;
settings that are no mode are shown as `CUSTOM`. A patch sets a mode by one of Codex's permission
profiles and not by a ``sandboxPolicy``: a profile keeps the session's additional directories
writable. In a loaded session, the profile tells a chosen mode from a configuration with the same
effect.

The current value of an option is always the effective value; if the option has no entry for the
value, an entry is added. A patch has only the settings that the choice needs. Messages are plain
JSON here, because ``session/new`` is answered before the generated classes are imported.

Sources: https://agentclientprotocol.com/protocol/v1/session-config-options;
``SessionConfigOption`` and ``SessionModeState`` of the ACP schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, without_none
from codex_acp._record import NamedTuple
from codex_acp.codex.threads.opening import FULL_ACCESS, sandbox_policy
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue
from codex_acp.mapping.settings import (
    STANDARD_TIER,
    Access,
    Catalogue,
    Choice,
    access_patch,
    collaboration_patch,
    reviewer_of,
    sandbox_of,
    text_of,
)
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.mapping.settings import Model, Settings

    JsonObject = dict[str, JsonValue]


CONFIGURED: Final = "configured"
"""Id of the mode that is the user's configuration."""
CUSTOM: Final = "custom"
"""Id of the mode for settings that are no other mode; shown only while these are current."""
PROFILE_PREFIX: Final = "profile:"
"""Prefix of the id of a mode that is one of the user's own permission profiles."""


class Mode(NamedTuple):
    """One mode of a session."""

    id: str
    name: str
    description: str
    access: Access


_READ_ONLY: Final = sandbox_of({"type": "readOnly"})
_WORKSPACE: Final = sandbox_of({"type": "workspaceWrite"})
_MODES: Final = (
    Mode(
        "read-only",
        "Read only",
        "Reads files and runs commands that change nothing. Asks before what is not allowed yet.",
        Access(policy="on-request", reviewer="user", sandbox=_READ_ONLY, profile=":read-only"),
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
        Access("never", "user", FULL_ACCESS, ":danger-full-access"),
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
    """Return the ids of the modes that are no permission profiles of the user."""
    return frozenset({CONFIGURED, *(mode.id for mode in _MODES)})


def known_modes(catalogue: Catalogue) -> list[Mode]:
    """Return the modes whose profile Codex allows; all modes until Codex has named the profiles."""
    if catalogue.profiles is None:
        return list(_MODES)
    allowed = {profile.value for profile in catalogue.profiles}
    return [mode for mode in _MODES if mode.access.profile in allowed]


def profile_modes(catalogue: Catalogue) -> list[Mode]:
    """Return a mode for each profile of the user; ids of Codex's profiles begin with a colon."""
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
    """Return the patch for a mode, with a sandbox if Codex has named no profiles."""
    modes = (*known_modes(catalogue), *profile_modes(catalogue))
    (access,) = (mode.access for mode in modes if mode.id == mode_id)
    return access_patch(access if catalogue.profiles else access._replace(profile=None))


def current_mode(access: Access, configured: Access | None, catalogue: Catalogue) -> str:
    """Return the mode with this access, first `CONFIGURED`; `CUSTOM` if no mode has the access."""
    if configured is not None and _same_access(access, configured):
        return CONFIGURED
    for mode in (*known_modes(catalogue), *profile_modes(catalogue)):
        without_profile = mode.access._replace(profile=None)  # then the sandboxes are compared
        if _same_access(access, mode.access) or _same_access(access, without_profile):
            return mode.id
    return CUSTOM


def _same_access(one: Access, other: Access) -> bool:
    """Compare two accesses. With equal profiles, the sandboxes may differ, because a sandbox lists
    directories of the session."""
    if (one.policy, one.reviewer, one.profile) != (other.policy, other.reviewer, other.profile):
        return False
    return one.profile is not None or one.sandbox == other.sandbox


def access_words(access: Access) -> str:
    """Describe an access in words: ``asks when needed, read only``."""
    policy = access.policy
    # A policy that is no text is an object with ``granular``.
    asks = _POLICIES.get(policy) if isinstance(policy, str) else "asks for some kinds of actions"
    parts = [asks or f"approval policy {policy}"]
    if access.reviewer != "user":
        automatic = access.reviewer == "auto_review"
        parts.append("reviewed automatically" if automatic else f"reviewer {access.reviewer}")
    kind = text_of(access.sandbox, "type") or "unknown"
    parts.append(_SANDBOXES.get(kind, f"sandbox {kind}"))
    if access.sandbox.get("networkAccess") in (True, "enabled"):
        parts.append("with network")
    if access.profile is not None and not access.profile.startswith(":"):
        parts.append(f"permission profile {access.profile}")
    return ", ".join(parts)


def configured_access(
    config: JsonObject, cwd: str, project: str | None, roots: tuple[str, ...] = ()
) -> Access:
    """Return the access of a new thread in ``cwd`` from ``config`` of ``config/read``.

    ``project`` is the root of the repository around ``cwd``, ``roots`` are the thread's additional
    directories. For settings that the configuration lacks, the trust of the project decides: an
    undecided project is read-only; an untrusted one gets the workspace, and Codex asks more.
    """
    projects = object_at(config, "projects")
    levels = (text_of(object_at(projects, path), "trust_level") for path in (cwd, project) if path)
    trust = next(filter(None, levels), None)
    policy = config.get("approval_policy") or (
        "untrusted" if trust == "untrusted" else "on-request"
    )
    reviewer = reviewer_of(text_of(config, "approvals_reviewer"))
    sandbox_mode, profile = text_of(config, "sandbox_mode"), text_of(config, "default_permissions")
    if sandbox_mode is None and profile is None:
        profile = ":read-only" if trust is None else ":workspace"
    if profile is not None:
        built_in = {mode.access.profile: mode.access.sandbox for mode in _MODES}
        return Access(policy, reviewer, built_in.get(profile, {}), profile)
    table = object_at(config, "sandbox_workspace_write")
    sandbox = sandbox_policy(str(sandbox_mode), table, [*roots])
    return Access(policy, reviewer, sandbox_of(sandbox))  # with the schema's defaults


# Ids of the options, and of their values.

MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "reasoning_effort"
TIER: Final = "service_tier"
COLLABORATION: Final = "collaboration_mode"
PLAN: Final = "plan"
"""Collaboration mode in which Codex only plans."""
DEFAULT: Final = "default"
"""Collaboration mode in which Codex works."""
TRUST: Final = "trust"
TRUSTED: Final = "trusted"
"""Value of `TRUST` with which Codex trusts the directory."""
UNDECIDED: Final = "undecided"
"""Value of `TRUST` that changes nothing."""
MODEL_DEFAULT: Final = "default"
"""Effort of a model that Codex does not list, until an effort is chosen."""
USUAL_EFFORTS: Final = (MODEL_DEFAULT, "low", "medium", "high")
"""Efforts of a model that Codex does not list; Codex passes any effort to the model's server."""
_NAMES: Final = {"xhigh": "Extra high", MODEL_DEFAULT: "Model's default"}


class ConfigView(NamedTuple):
    """All data from which the options of one session are made."""

    settings: Settings
    catalogue: Catalogue = Catalogue()
    configured: Access | None = None
    """Access that the configuration gives; None until the configuration is known."""
    chosen: tuple[str, Access] | None = None
    """The mode that was chosen last, and the access that Codex then reported."""
    models: tuple[str, ...] = ()
    """Earlier models of the thread, which are offered besides the catalogue's."""
    preset_effort: bool = False
    """Whether the effort comes from the collaboration mode, and not from a choice."""
    booleans: bool = False
    """Whether the client takes options of type ``boolean``."""
    untrusted_root: str | None = None
    """Directory for the option `TRUST`; None: its trust was decided before the session."""
    now_trusted: bool = False
    """Whether a person has trusted ``untrusted_root`` during the session."""

    @property
    def model(self) -> Model | None:
        """The catalogue's entry of the current model."""
        return self.catalogue.model(self.settings.model)


class Option(NamedTuple):
    """One config option, independent of the version of ACP."""

    id: str
    name: str
    description: str
    category: str
    current: str
    choices: tuple[Choice, ...]
    grouped: tuple[Choice, ...] = ()
    """More choices, which are shown as a second group."""
    switch: bool = False
    """Whether the option is written as a boolean; true is the second of its two choices."""

    @property
    def is_on(self) -> bool:
        """Whether a switch is true."""
        return self.current == self.choices[1].value

    @property
    def values(self) -> tuple[str, ...]:
        """The values of all choices."""
        return tuple(choice.value for choice in (*self.choices, *self.grouped))


def options_of(view: ConfigView) -> list[Option]:
    """Return all options, first the mode. An option with a single choice is left out, except mode
    and model."""
    options = [_mode(view), _model(view), _effort(view), _tier(view), _collaboration(view)]
    options = [option for option in options if option.id in (MODE, MODEL) or len(option.values) > 1]
    if view.untrusted_root is not None:
        options.append(_trust(view.untrusted_root, view))
    return options


def mode_state(option: Option) -> JsonObject:
    """Return ``SessionModeState`` for the option `MODE`: some clients know no config options."""
    modes = [_entry(choice, "id") for choice in (*option.choices, *option.grouped)]
    return {"currentModeId": option.current, "availableModes": [*modes]}


def mode_of(view: ConfigView) -> str:
    """Return the current mode; if several modes fit, the mode that was chosen."""
    access = view.settings.access
    chosen_mode, chosen_access = view.chosen or ("", None)
    if chosen_access == access:
        return chosen_mode
    return current_mode(access, view.configured, view.catalogue)


def _mode(view: ConfigView) -> Option:
    current = mode_of(view)
    configured = "As in your Codex configuration"
    if view.configured is not None:
        configured += f": {access_words(view.configured)}"
    choices = [Choice(CONFIGURED, "As configured", f"{configured}.")]
    if current == CUSTOM:
        name = f"Custom: {access_words(view.settings.access)}"
        choices.append(Choice(CUSTOM, name, "What is in force, and is none of the others."))
    choices += [Choice(m.id, m.name, m.description) for m in known_modes(view.catalogue)]
    own = tuple(Choice(m.id, m.name, m.description) for m in profile_modes(view.catalogue))
    about = "What Codex may do by itself, and what it asks for."
    return Option(MODE, "Mode", about, "mode", current, tuple(choices), own)


def _model(view: ConfigView) -> Option:
    current = view.settings.model
    choices = [Choice(m.slug, m.name, m.description) for m in view.catalogue.models or ()]
    for slug in (current, *view.models):
        choices = _with_choice(choices, slug, slug)
    about = "The model that answers, from the next prompt on."
    return Option(MODEL, "Model", about, "model", current, tuple(choices))


def _effort(view: ConfigView) -> Option:
    model, current = view.model, view.settings.effort
    if model is None:
        efforts = [Choice(effort, effort) for effort in USUAL_EFFORTS]
    else:
        efforts = list(model.efforts)
    if current is None:
        current = MODEL_DEFAULT if model is None else model.default_effort
    choices = [Choice(e.value, _capitalized(e.value), e.description) for e in efforts]
    choices = _with_choice(choices, current, _capitalized(current))
    about = "How much the model thinks before it answers."
    return Option(EFFORT, "Reasoning effort", about, "thought_level", current, tuple(choices))


def _tier(view: ConfigView) -> Option:
    model, current = view.model, view.settings.tier
    if current is None:
        current = STANDARD_TIER if model is None else model.default_tier or STANDARD_TIER
    tiers = model.tiers if model is not None else ()
    choices = [Choice(STANDARD_TIER, "Standard", "The usual speed and usage."), *tiers]
    choices = _with_choice(choices, current, _capitalized(current))
    if view.booleans and len(choices) == 2:
        fast = choices[1]
        name, about = f"{fast.name} mode", fast.description or "A faster service tier."
        return Option(TIER, name, about, "model_config", current, tuple(choices), switch=True)
    about = "How fast the model's servers answer."
    return Option(TIER, "Service tier", about, "model_config", current, tuple(choices))


def _collaboration(view: ConfigView) -> Option:
    current = view.settings.collaboration
    choices = [Choice(c.mode, c.name) for c in view.catalogue.collaborations or ()]
    choices = _with_choice(choices, current, _capitalized(current))
    about = "Whether Codex does the work, or plans it with you first."
    category = "_collaboration_mode"
    return Option(COLLABORATION, "Collaboration mode", about, category, current, tuple(choices))


def _trust(directory: str, view: ConfigView) -> Option:
    about = (
        f"Lets Codex use the configuration, hooks and MCP servers of {visible(directory)}, "
        "now and in later sessions. Kept in your Codex configuration."
    )
    choices = [Choice(UNDECIDED, "Not trusted"), Choice(TRUSTED, "Trusted")]
    if view.now_trusted and not view.booleans:  # only Codex's configuration takes trust back
        del choices[0]  # a switch needs both choices
    current = TRUSTED if view.now_trusted else UNDECIDED
    name = "Trust this directory"
    return Option(TRUST, name, about, "_trust", current, tuple(choices), switch=view.booleans)


def _with_choice(choices: list[Choice], value: str, name: str) -> list[Choice]:
    """Return the choices, with ``value`` added if it is missing."""
    if any(choice.value == value for choice in choices):
        return choices
    return [*choices, Choice(value, name)]


def _capitalized(value: str) -> str:
    return _NAMES.get(value) or value[:1].upper() + value[1:]


# The options as JSON, and the requests that set them.


def option_json(option: Option, id_key: str = "id", group_key: str = "group") -> JsonObject:
    """Return ``SessionConfigOption``; the default names of the keys for ids are the names of v1."""
    written: JsonObject = {
        id_key: option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
    }
    if option.switch:
        return written | {"type": "boolean", "currentValue": option.is_on}
    entries: list[JsonValue] = [_entry(choice, "value") for choice in option.choices]
    if option.grouped:
        own: list[JsonValue] = [_entry(choice, "value") for choice in option.grouped]
        entries = [
            {group_key: "modes", "name": "Modes", "options": entries},
            {group_key: "profiles", "name": "Your permission profiles", "options": own},
        ]
    return written | {"type": "select", "currentValue": option.current, "options": entries}


def _entry(choice: Choice, key: str) -> JsonObject:
    return without_none({key: choice.value, "name": choice.name, "description": choice.description})


def checked_value(view: ConfigView, option_id: str, value: str | bool) -> str:
    """Return the value of a ``session/set_config_option``. Raises RpcError -32602 for an unknown
    option or value."""
    options = {option.id: option for option in options_of(view)}
    option = options.get(option_id)
    if option is None:
        raise _refused("configId", option_id, "there is no config option", tuple(options))
    if option.switch:
        if not isinstance(value, bool):
            raise _refused("value", value, f"{option_id} is a boolean, not", (False, True))
        return option.values[1 if value else 0]
    if isinstance(value, bool):
        raise _refused("value", value, f"{option_id} takes the id of a value, not", option.values)
    if value not in option.values:
        raise _refused("value", value, f"{option_id} has no value", option.values)
    return value


def checked_mode(view: ConfigView, mode_id: str) -> str:
    """Return the mode of a ``session/set_mode``. Raises RpcError -32602 for an unknown mode."""
    (mode,) = (option for option in options_of(view) if option.id == MODE)
    if mode_id not in mode.values:
        raise _refused("modeId", mode_id, "there is no mode", mode.values)
    return mode_id


def _refused(
    field: str, value: str | bool, problem: str, valid: tuple[str | bool, ...]
) -> RpcError:
    names = ", ".join(str(name).lower() if isinstance(name, bool) else name for name in valid)
    message = f"{field}: {problem} {value!r}; use one of: {names}"
    return RpcError(INVALID_PARAMS, message, {"field": field, "valid": list(valid)})


def choice_patch(view: ConfigView, option_id: str, value: str) -> JsonObject:
    """Return the patch that sets an option to a checked value."""
    return _PATCHES[option_id](view, value)


def _patch_of_chosen_mode(view: ConfigView, value: str) -> JsonObject:
    """Return the patch for a mode. Raises RpcError -32602 if the configuration is not known yet."""
    if value == CUSTOM:  # a choice only while it is current, so nothing changes
        return {}
    if value != CONFIGURED:
        return mode_patch(value, view.catalogue)
    if view.configured is None:
        message = "Codex has not told what is configured; choose another mode, or try again"
        raise RpcError(INVALID_PARAMS, message)
    return access_patch(view.configured)


def _model_patch(view: ConfigView, value: str) -> JsonObject:
    """Return the patch that sets a model, and its default in place of an effort or tier that the
    model lacks."""
    patch: JsonObject = {"model": value}
    model, settings = view.catalogue.model(value), view.settings
    if model is None:
        return patch
    efforts = [effort.value for effort in model.efforts]
    if settings.effort is not None and settings.effort not in efforts and model.default_effort:
        patch["effort"] = model.default_effort
    tiers = (None, STANDARD_TIER, *(tier.value for tier in model.tiers))
    if settings.tier not in tiers:
        patch["serviceTier"] = None
    return patch


def _effort_patch(view: ConfigView, value: str) -> JsonObject:
    model, settings = view.model, view.settings
    efforts = [] if model is None else [effort.value for effort in model.efforts]
    if value != MODEL_DEFAULT or value in efforts:
        return {"effort": value}
    # Codex ignores a null effort; only a patch of the collaboration mode clears the effort.
    instructions = settings.instructions or ""  # None would set the mode's built-in ones
    return collaboration_patch(settings.model, settings.collaboration, None, instructions)


def _collaboration_patch(view: ConfigView, value: str) -> JsonObject:
    """Return the patch for a collaboration mode with its built-in instructions. A chosen effort
    stays; else the mode's own effort is set."""
    settings = view.settings
    presets = {preset.mode: preset for preset in view.catalogue.collaborations or ()}
    preset = presets[value].effort if value in presets else None
    chosen = None if view.preset_effort else settings.effort
    return collaboration_patch(settings.model, value, chosen or preset, None)


_PATCHES: Final[dict[str, Callable[[ConfigView, str], JsonObject]]] = {
    MODE: _patch_of_chosen_mode,
    MODEL: _model_patch,
    EFFORT: _effort_patch,
    TIER: lambda _, value: {"serviceTier": None if value == STANDARD_TIER else value},
    COLLABORATION: _collaboration_patch,
}
"""Option id → function that returns the patch for a value. `TRUST` has none: it is no setting of a
thread, and `adapter.config_options` writes it to Codex's configuration."""
