"""An ACP schema file → IR: definitions, and the methods that each side handles."""

from __future__ import annotations

from typing import Any

from codegen.errors import CodegenError
from codegen.flatten import Schema, ref_name
from codegen.ir import Method, Protocol
from codegen.naming import Namer, pascal
from codegen.normalise import Normaliser
from codegen.overrides import acp as overrides
from codegen.patches import Patch, apply
from codegen.stability import marked

ENVELOPES = {
    "AgentRequest": ("client_requests", "client"),
    "AgentNotification": ("client_notifications", "client"),
    "ClientRequest": ("agent_requests", "agent"),
    "ClientNotification": ("agent_notifications", "agent"),
}
"""Envelope → (direction, the side that handles it). An AgentRequest is sent by the agent."""


def _member_name(union: str, label: str, title: str) -> str:
    del title
    return pascal(label) + union


def _params_of(schema: Schema) -> list[str]:
    """Definition names below an envelope's ``params``, without the extension escape hatch."""
    names = []
    for outer in schema["properties"]["params"]["anyOf"]:
        for member in outer.get("anyOf", [outer]):
            name = ref_name(member)
            if name is not None and not name.startswith("Ext"):
                names.append(name)
    return names


def load(
    name: str, schema: dict[str, Any], stable: dict[str, Any], *, strict: bool = True
) -> Protocol:
    """One protocol version; what is missing from ``stable`` is marked experimental.

    Not ``strict``: as for `codegen.codex.load`; a patch that does not fit is left out.
    """
    whole = _read(name, schema, stable, strict=strict)
    if schema is stable:
        return whole
    return marked(whole, _read(name, stable, stable, strict=strict), strict=strict)


def _read(name: str, schema: Schema, stable: Schema, *, strict: bool) -> Protocol:
    """One schema; a patch of a definition that only the unstable one has is left out."""
    patches = overrides.PATCHES[name]
    if schema is stable:
        patches = tuple(p for p in patches if _is_for(p, schema))
    definitions: dict[str, Schema] = apply(schema, patches, strict=strict)["$defs"]
    namer = Namer(dict(overrides.NAMES), strict=strict)
    normaliser = Normaliser(definitions, namer, _member_name, open_by_default=False)
    known = {d.get("x-method") for d in stable["$defs"].values()}
    methods: dict[str, tuple[Method, ...]] = {}
    for envelope, (direction, side) in ENVELOPES.items():
        methods[direction] = tuple(
            _method(definitions, params, side, direction, normaliser, known)
            for params in _params_of(definitions[envelope])
        )
    both = [n for n, d in definitions.items() if d.get("x-side") == "protocol"]
    methods["protocol_notifications"] = tuple(
        _method(definitions, n, "protocol", "protocol_notifications", normaliser, known)
        for n in both
    )
    if strict:
        namer.check_overrides_used()
    return Protocol(name, normaliser.out, methods)


def _is_for(patch: Patch, schema: Schema) -> bool:
    """Whether the schema has the definition that is patched, or is to get one."""
    definition = patch.pointer.split("/")[2]
    return definition in schema["$defs"] or patch.pointer.endswith(f"/{definition}")


def _method(
    definitions: dict[str, Schema],
    params: str,
    side: str,
    direction: str,
    normaliser: Normaliser,
    known: set[str | None],
) -> Method:
    schema = definitions[params]
    wire = schema.get("x-method")
    if wire is None or schema.get("x-side") != side:
        msg = f"{params} is sent to the {side} but carries no matching x-method and x-side"
        raise CodegenError(msg)
    result = None
    if direction.endswith("requests"):
        found = [
            n
            for n, d in definitions.items()
            if d.get("x-method") == wire and d.get("x-side") == side and n.endswith("Response")
        ]
        if len(found) != 1:
            raise CodegenError(f"{wire} has {len(found)} response types: {found}")
        result = normaliser.definition(found[0])
    return Method(
        wire,
        normaliser.definition(params),
        result,
        experimental=wire not in known,
        doc=schema.get("description", ""),
    )
