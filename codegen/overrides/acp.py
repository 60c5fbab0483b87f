"""Overrides for the Agent Client Protocol."""

from codegen.patches import Patch

NAMES: dict[str, str] = {}
"""Schema path → class name, where the derived name collides or is too long."""

PATCHES: dict[str, tuple[Patch, ...]] = {
    "v1": (),
    "v1_unstable": (
        Patch(
            "/$defs/IdleStateUpdate/anyOf",
            "3848b44593bea9f6",
            None,
            "a union by stopReason inside a union by state; read as one class whose stopReason is "
            "any string, and what a stop reason adds is kept as unknown fields",
        ),
    ),
}
"""Protocol version → patches of its schema, applied before anything is read."""
