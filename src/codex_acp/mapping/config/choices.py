"""Map a choice, an option and its value, to a patch of the thread's settings.

Nothing is sent that the choice does not need, and nothing is guessed: a value that is not
offered is refused with the names of those that are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue
from codex_acp.mapping.config.changes import access_patch, collaboration_patch
from codex_acp.mapping.config.modes import CONFIGURED, CUSTOM, mode_patch
from codex_acp.mapping.config.options import (
    COLLABORATION,
    EFFORT,
    MODE,
    MODEL,
    MODEL_DEFAULT,
    TIER,
    ConfigView,
    Option,
    options_of,
)
from codex_acp.mapping.config.values import STANDARD_TIER

if TYPE_CHECKING:
    JsonObject = dict[str, JsonValue]


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
    return _offered(option, value, "value", f"{option_id} has no value")


def checked_mode(view: ConfigView, mode_id: str) -> str:
    """The mode of a ``session/set_mode``. Raises RpcError -32602 naming those there are."""
    (mode,) = (option for option in options_of(view) if option.id == MODE)
    return _offered(mode, mode_id, "modeId", "there is no mode")


def _offered(option: Option, value: str, field: str, problem: str) -> str:
    if value not in option.values:
        raise _refused(field, value, problem, option.values)
    return value


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


def _tier_patch(_: ConfigView, value: str) -> JsonObject:
    return {"serviceTier": None if value == STANDARD_TIER else value}


def _collaboration_patch(view: ConfigView, value: str) -> JsonObject:
    """The mode with its built-in instructions; its own effort only where none was chosen."""
    settings = view.settings
    presets = {preset.mode: preset for preset in view.catalogue.collaborations or ()}
    wanted = presets[value].effort if value in presets else None
    effort = None if view.preset_effort else settings.effort
    return collaboration_patch(settings.model, value, effort or wanted, None)


_PATCHES: Final = {
    MODE: _mode_patch,
    MODEL: _model_patch,
    EFFORT: _effort_patch,
    TIER: _tier_patch,
    COLLABORATION: _collaboration_patch,
}
