"""PURE: the option of a permission request that has a kind, and the outcome that chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import (
    CancelledRequestPermissionOutcome,
    SelectedRequestPermissionOutcome,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import (
        PermissionOption,
        PermissionOptionKind,
        RequestPermissionOutcome,
    )


def option_of(
    options: Sequence[PermissionOption], kind: PermissionOptionKind | None
) -> PermissionOption | None:
    """The first option of this kind, or None.

    Only one whose id stands for this kind alone: the agent goes by the id.
    """
    for option in options:
        kinds = {other.kind for other in options if other.option_id == option.option_id}
        if option.kind == kind and kinds == {kind}:
            return option
    return None


def outcome_of(
    options: Sequence[PermissionOption], kind: PermissionOptionKind | None
) -> RequestPermissionOutcome:
    """The outcome that chooses `option_of` this kind; "cancelled" where there is none."""
    option = option_of(options, kind)
    if option is None:
        return CancelledRequestPermissionOutcome()
    return SelectedRequestPermissionOutcome(option_id=option.option_id)
