"""PURE: the option of a permission request that has a kind, and the outcome that chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp import types

if TYPE_CHECKING:
    from collections.abc import Sequence


def option_of(
    options: Sequence[types.PermissionOption], kind: types.PermissionOptionKind | None
) -> types.PermissionOption | None:
    """The first option of this kind, or None.

    Only one whose id stands for this kind alone: the agent goes by the id.
    """
    for option in options:
        kinds = {other.kind for other in options if other.option_id == option.option_id}
        if option.kind == kind and kinds == {kind}:
            return option
    return None


def outcome_of(
    options: Sequence[types.PermissionOption], kind: types.PermissionOptionKind | None
) -> types.RequestPermissionOutcome:
    """The outcome that chooses `option_of` this kind; "cancelled" where there is none."""
    option = option_of(options, kind)
    if option is None:
        return types.CancelledRequestPermissionOutcome()
    return types.SelectedRequestPermissionOutcome(option_id=option.option_id)
