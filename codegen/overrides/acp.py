"""Override the names and patch the schemas of the Agent Client Protocol."""

from codegen.patches import ABSENT, Patch

NAMES: dict[str, str] = {}
"""Schema path → class name, where the derived name collides or is too long."""

_FLAT = (
    "a union by stopReason inside a union by state; read as one class that has what any stop "
    "reason may add"
)

_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
_STOP_REASON = {
    "description": "Why foreground work stopped.",
    "anyOf": [
        *({"type": "string", "const": reason} for reason in _REASONS),
        {"type": "string", "title": "other"},
    ],
}
"""Enum of the stop reasons of v2's union; the digest of the union's patch guards the list."""

_ERROR = {
    "description": "Why, with the stop reason ``error``: the failure as a JSON-RPC error object.",
    "anyOf": [{"$ref": "#/$defs/Error"}, {"type": "null"}],
    "x-deserialize-default-on-error": True,
}
"""The member that ``ErrorStopReason`` adds to the union's other members."""

PATCHES: dict[str, tuple[Patch, ...]] = {
    "v1": (
        Patch(
            "/$defs/IdleStateUpdate/anyOf",
            "3848b44593bea9f6",
            None,
            "a union by stopReason inside a union by state; read as one class whose stopReason is "
            "any string, and what a stop reason adds is kept as unknown fields",
        ),
    ),
    "v2": (
        Patch("/$defs/IdleStateUpdate/anyOf", "28a4beb4f4dfb06b", None, _FLAT),
        Patch("/$defs/IdleStateUpdate/properties/stopReason/type", "f2aa28b7b5935c67", None, _FLAT),
        Patch(
            "/$defs/IdleStateUpdate/properties/stopReason/anyOf",
            ABSENT,
            [{"$ref": "#/$defs/StopReason"}, {"type": "null"}],
            _FLAT,
        ),
        Patch("/$defs/IdleStateUpdate/properties/error", ABSENT, _ERROR, _FLAT),
        Patch("/$defs/StopReason", ABSENT, _STOP_REASON, "what the members of that union say"),
    ),
}
"""Protocol version → patches of its schema, which are applied first."""
