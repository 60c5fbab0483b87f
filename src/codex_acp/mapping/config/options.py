"""A session's config options and modes, as ACP shows them.

On plain JSON, because ``session/new`` is answered before a model is loaded: see
`mapping.session.setup`. Every current value is an effective one: what fits no entry has one.
Sources: https://agentclientprotocol.com/protocol/v1/session-config-options;
``SessionConfigOption`` and ``SessionModeState`` of the ACP schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.mapping.config.modes import (
    CONFIGURED,
    CUSTOM,
    current_mode,
    described,
    known_modes,
    profile_modes,
)
from codex_acp.mapping.config.values import STANDARD_TIER, Catalogue, Choice
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.config.values import Access, Model, Settings

    JsonObject = dict[str, JsonValue]

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
    """All of them, that of the mode first; what has one choice only is no option."""
    options = [_mode(view), _model(view), _effort(view), _tier(view), _collaboration(view)]
    options = [option for option in options if option.id in (MODE, MODEL) or len(option.values) > 1]
    return (
        options
        if view.untrusted is None
        else [*options, _trust(view.untrusted, trusted=view.trusted, switch=view.booleans)]
    )


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
    choices = [Choice(e.value, _name(e.value), e.description) for e in efforts]
    choices = _with(choices, current, _name(current))
    about = "How much the model thinks before it answers."
    return Option(EFFORT, "Reasoning effort", about, "thought_level", current, tuple(choices))


def _tier(view: ConfigView) -> Option:
    model, current = view.model, view.settings.tier
    if current is None:
        current = (model and model.default_tier) or STANDARD_TIER
    tiers = model.tiers if model is not None else ()
    choices = [Choice(STANDARD_TIER, "Standard", "The usual speed and usage."), *tiers]
    choices = _with(choices, current, _name(current))
    if view.booleans and len(choices) == 2:
        fast = choices[1]
        name, about = f"{fast.name} mode", fast.description or "A faster service tier."
        return Option(TIER, name, about, "model_config", current, tuple(choices), switch=True)
    about = "How fast the model's servers answer."
    return Option(TIER, "Service tier", about, "model_config", current, tuple(choices))


def _collaboration(view: ConfigView) -> Option:
    current = view.settings.collaboration
    choices = [Choice(c.mode, c.name) for c in view.catalogue.collaborations or ()]
    choices = _with(choices, current, _name(current))
    about = "Whether Codex does the work, or plans it with you first."
    category = "_collaboration_mode"
    return Option(COLLABORATION, "Collaboration mode", about, category, current, tuple(choices))


def _trust(directory: str, *, trusted: bool, switch: bool) -> Option:
    """Once it is trusted that is the one value: it is taken back in Codex's configuration."""
    about = (
        f"Lets Codex use the configuration, hooks and MCP servers of {visible(directory)}, now and "
        "in later sessions. Kept in your Codex configuration."
    )
    no, yes = Choice(UNDECIDED, "Not trusted"), Choice(TRUSTED, "Trusted")
    choices = (yes,) if trusted and not switch else (no, yes)
    current, name = (yes if trusted else no).value, "Trust this directory"
    return Option(TRUST, name, about, "_trust", current, choices, switch=switch)


def _with(choices: list[Choice], value: str, name: str) -> list[Choice]:
    """The choices, and this one if it is none of them."""
    if any(choice.value == value for choice in choices):
        return choices
    return [*choices, Choice(value, name)]


def _name(value: str) -> str:
    return _NAMES.get(value) or value[:1].upper() + value[1:]


# Writing.


def written(option: Option, id_key: str = "id", group_key: str = "group") -> JsonObject:
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
