"""Show a session's config options and modes as ACP does, and map a choice to a patch for Codex.

A mode says what Codex may do by itself, and who is asked for the rest: it stands for an approval
policy, a reviewer and a sandbox. One of them is the user's own configuration, and what fits none is
shown as what it is. A mode is set by a permission profile of Codex's own and not by a
``sandboxPolicy``: the profile keeps a session's additional directories writable, and after a load
it tells a choice from a configuration with the same effect.

Every current value is an effective one: what fits no entry has one. Nothing is sent that a choice
does not need, and nothing is guessed: a value that is not offered is refused with the names of
those that are. Plain JSON, because ``session/new`` is answered before a model is loaded.

Sources: https://agentclientprotocol.com/protocol/v1/session-config-options;
``SessionConfigOption`` and ``SessionModeState`` of the ACP schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import object_at
from codex_acp.codex.threads.opening import FULL_ACCESS, sandbox_policy
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue
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
    """Return the patch for a mode; by its sandbox if Codex has told no profiles."""
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
    projects = object_at(config, "projects")
    levels = (text_of(object_at(projects, path), "trust_level") for path in (cwd, project) if path)
    trust = next(filter(None, levels), None)
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


MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "reasoning_effort"
TIER: Final = "service_tier"
COLLABORATION: Final = "collaboration_mode"
PLAN: Final = "plan"
"""The collaboration mode in which Codex plans and does nothing; `DEFAULT` is the other."""
DEFAULT: Final = "default"
TRUST: Final = "trust"
TRUSTED: Final = "trusted"
"""The value that has Codex trust the directory."""
UNDECIDED: Final = "undecided"
"""The other one, which changes nothing."""

MODEL_DEFAULT: Final = "default"
"""The effort of a model that Codex does not list, as long as none was chosen."""

USUAL_EFFORTS: Final = (MODEL_DEFAULT, "low", "medium", "high")
"""For such a model; Codex sends its server whatever is chosen."""

_NAMES: Final = {"xhigh": "Extra high", MODEL_DEFAULT: "Model's default"}


class ConfigView(NamedTuple):
    """All that the options of one session are made of."""

    settings: Settings
    catalogue: Catalogue = Catalogue()
    configured: Access | None = None
    """Access that the configuration gives; None while it is not known."""
    chosen: tuple[str, Access] | None = None
    """The mode that was chosen last, and what Codex made of it."""
    models: tuple[str, ...] = ()
    """Models to offer besides the catalogue's: those that the thread had."""
    preset_effort: bool = False
    """Whether nobody chose the effort: it came with the collaboration mode."""
    booleans: bool = False
    """Whether the client takes options of type ``boolean``."""
    untrusted: str | None = None
    """The directory that a person could decide to trust; None: that was decided before."""
    trusted: bool = False
    """Whether it is trusted by now."""

    @property
    def model(self) -> Model | None:
        """The current model's entry in Codex's list."""
        return self.catalogue.model(self.settings.model)


class Option(NamedTuple):
    """One option before it is written down."""

    id: str
    name: str
    description: str
    category: str
    current: str
    choices: tuple[Choice, ...]
    grouped: tuple[Choice, ...] = ()
    """More choices, in a group of their own."""
    switch: bool = False
    """Written as a boolean: the second of two choices, or not."""

    @property
    def values(self) -> tuple[str, ...]:
        """All that may be chosen."""
        return tuple(choice.value for choice in (*self.choices, *self.grouped))


def options_of(view: ConfigView) -> list[Option]:
    """Return all options, that of the mode first; what has one choice only is no option."""
    options = [_mode(view), _model(view), _effort(view), _tier(view), _collaboration(view)]
    options = [option for option in options if option.id in (MODE, MODEL) or len(option.values) > 1]
    if view.untrusted is not None:
        about = (
            "Lets Codex use the configuration, hooks and MCP servers of "
            f"{visible(view.untrusted)}, now and in later sessions. Kept in your Codex "
            "configuration."
        )
        no, yes = Choice(UNDECIDED, "Not trusted"), Choice(TRUSTED, "Trusted")
        # Once it is trusted that is the one value: Codex's configuration is where to take it back.
        choices = (yes,) if view.trusted and not view.booleans else (no, yes)
        current, name = (yes if view.trusted else no).value, "Trust this directory"
        options.append(Option(TRUST, name, about, "_trust", current, choices, switch=view.booleans))
    return options


def mode_state(option: Option) -> JsonObject:
    """``SessionModeState`` of that first one, for clients that do not know config options."""
    modes = [_entry(choice, "id") for choice in (*option.choices, *option.grouped)]
    return {"currentModeId": option.current, "availableModes": [*modes]}


def mode_of(view: ConfigView) -> str:
    """The current mode; of several that do the same the one that was chosen."""
    access = view.settings.access
    if view.chosen is not None and view.chosen[1] == access:
        return view.chosen[0]
    return current_mode(access, view.configured, view.catalogue)


# The options.


def _mode(view: ConfigView) -> Option:
    current = mode_of(view)
    configured = "As in your Codex configuration"
    if view.configured is not None:
        configured += f": {described(view.configured)}"
    choices = [Choice(CONFIGURED, "As configured", f"{configured}.")]
    if current == CUSTOM:
        name = f"Custom: {described(view.settings.access)}"
        choices.append(Choice(CUSTOM, name, "What is in force, and is none of the others."))
    choices += [Choice(m.id, m.name, m.description) for m in known_modes(view.catalogue)]
    own = tuple(Choice(m.id, m.name, m.description) for m in profile_modes(view.catalogue))
    about = "What Codex may do by itself, and what it asks for."
    return Option(MODE, "Mode", about, "mode", current, tuple(choices), own)


def _model(view: ConfigView) -> Option:
    current = view.settings.model
    choices = [Choice(m.slug, m.name, m.description) for m in view.catalogue.models or ()]
    for slug in (current, *view.models):
        choices = _with(choices, slug, slug)
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
    choices = _with(choices, current, _capitalized(current))
    about = "How much the model thinks before it answers."
    return Option(EFFORT, "Reasoning effort", about, "thought_level", current, tuple(choices))


def _tier(view: ConfigView) -> Option:
    model, current = view.model, view.settings.tier
    if current is None:
        current = (model and model.default_tier) or STANDARD_TIER
    tiers = model.tiers if model is not None else ()
    choices = [Choice(STANDARD_TIER, "Standard", "The usual speed and usage."), *tiers]
    choices = _with(choices, current, _capitalized(current))
    if view.booleans and len(choices) == 2:
        fast = choices[1]
        name, about = f"{fast.name} mode", fast.description or "A faster service tier."
        return Option(TIER, name, about, "model_config", current, tuple(choices), switch=True)
    about = "How fast the model's servers answer."
    return Option(TIER, "Service tier", about, "model_config", current, tuple(choices))


def _collaboration(view: ConfigView) -> Option:
    current = view.settings.collaboration
    choices = [Choice(c.mode, c.name) for c in view.catalogue.collaborations or ()]
    choices = _with(choices, current, _capitalized(current))
    about = "Whether Codex does the work, or plans it with you first."
    category = "_collaboration_mode"
    return Option(COLLABORATION, "Collaboration mode", about, category, current, tuple(choices))


def _with(choices: list[Choice], value: str, name: str) -> list[Choice]:
    """The choices, and this one if it is none of them."""
    if any(choice.value == value for choice in choices):
        return choices
    return [*choices, Choice(value, name)]


def _capitalized(value: str) -> str:
    return _NAMES.get(value) or value[:1].upper() + value[1:]


# Writing.


def option_json(option: Option, id_key: str = "id", group_key: str = "group") -> JsonObject:
    """``SessionConfigOption`` of v1; v2 has other keys for the option's id and a group's."""
    written: JsonObject = {
        id_key: option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
    }
    if option.switch:
        return written | {"type": "boolean", "currentValue": option.current == option.values[1]}
    entries: list[JsonValue] = [_entry(choice, "value") for choice in option.choices]
    if option.grouped:
        own: list[JsonValue] = [_entry(choice, "value") for choice in option.grouped]
        entries = [
            {group_key: "modes", "name": "Modes", "options": entries},
            {group_key: "profiles", "name": "Your permission profiles", "options": own},
        ]
    return written | {"type": "select", "currentValue": option.current, "options": entries}


def _entry(choice: Choice, key: str) -> JsonObject:
    entry: JsonObject = {key: choice.value, "name": choice.name}
    if choice.description is not None:
        entry["description"] = choice.description
    return entry


def checked_value(view: ConfigView, option_id: str, value: str | bool) -> str:
    """The value of a ``session/set_config_option``. Raises RpcError -32602 naming what there is."""
    options = {option.id: option for option in options_of(view)}
    option = options.get(option_id)
    if option is None:
        raise _refused("configId", option_id, "there is no config option", tuple(options))
    if option.switch:
        if not isinstance(value, bool):
            raise _refused("value", value, f"{option_id} is a boolean, not", (False, True))
        return option.values[value]
    if isinstance(value, bool):
        raise _refused("value", value, f"{option_id} takes the id of a value, not", option.values)
    if value not in option.values:
        raise _refused("value", value, f"{option_id} has no value", option.values)
    return value


def checked_mode(view: ConfigView, mode_id: str) -> str:
    """The mode of a ``session/set_mode``. Raises RpcError -32602 naming those there are."""
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
    """Return the patch that puts a checked value of an option into force."""
    return _PATCHES[option_id](view, value)


def _mode_patch(view: ConfigView, value: str) -> JsonObject:
    """Raises RpcError -32602 as long as it is not known what is configured."""
    if value == CUSTOM:  # offered only while it is in force
        return {}
    if value != CONFIGURED:
        return mode_patch(value, view.catalogue)
    if view.configured is None:
        message = "Codex has not told what is configured; choose another mode, or try again"
        raise RpcError(INVALID_PARAMS, message)
    return access_patch(view.configured)


def _model_patch(view: ConfigView, value: str) -> JsonObject:
    """The model, and instead of what it does not have its default effort and standard tier."""
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
    if value != MODEL_DEFAULT or (model and any(e.value == value for e in model.efforts)):
        return {"effort": value}
    # A null effort would leave it as it is; only a collaboration mode can take it away.
    instructions = settings.instructions or ""
    return collaboration_patch(settings.model, settings.collaboration, None, instructions)


def _collaboration_patch(view: ConfigView, value: str) -> JsonObject:
    """The mode with its built-in instructions; its own effort only where none was chosen."""
    settings = view.settings
    presets = {preset.mode: preset for preset in view.catalogue.collaborations or ()}
    wanted = presets[value].effort if value in presets else None
    effort = None if view.preset_effort else settings.effort
    return collaboration_patch(settings.model, value, effort or wanted, None)


_PATCHES: Final[dict[str, Callable[[ConfigView, str], JsonObject]]] = {
    MODE: _mode_patch,
    MODEL: _model_patch,
    EFFORT: _effort_patch,
    TIER: lambda _, value: {"serviceTier": None if value == STANDARD_TIER else value},
    COLLABORATION: _collaboration_patch,
}
