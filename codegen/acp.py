"""Turn a schema file of ACP into IR: definitions, and the methods that each side handles."""

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
"""Envelope → (direction, the side that handles the methods). The agent sends an AgentRequest."""


def _params_of(envelope: Schema) -> list[str]:
    """Return the names of the params in an envelope, without those of extension methods."""
    names = []
    for outer in envelope["properties"]["params"]["anyOf"]:
        for member in outer.get("anyOf", [outer]):
            name = ref_name(member)
            if name is not None and not name.startswith("Ext"):
                names.append(name)
    return names


def load(
    name: str, schema: dict[str, Any], stable: dict[str, Any], *, strict: bool = True
) -> Protocol:
    """Return one protocol version; the parts that ``stable`` lacks are marked experimental.

    ``strict``: as for `codegen.codex.load`; if False, patches that do not fit are left out, too.
    """
    whole = _read(name, schema, stable, strict=strict)
    if schema is stable:
        return whole
    return marked(whole, _read(name, stable, stable, strict=strict), strict=strict)


def _read(name: str, schema: Schema, stable: Schema, *, strict: bool) -> Protocol:
    """Read one schema; for the stable one, leave out patches of unstable definitions."""
    patches = overrides.PATCHES[name]
    if schema is stable:
        patches = tuple(p for p in patches if _is_for(p, schema))
    definitions: dict[str, Schema] = apply(schema, patches, strict=strict)["$defs"]
    namer = Namer(dict(overrides.NAMES), strict=strict)
    normaliser = Normaliser(
        definitions,
        namer,
        lambda union, label, _title: pascal(label) + union,
        open_by_default=False,
    )
    stable_methods = {d.get("x-method") for d in stable["$defs"].values()}
    methods: dict[str, tuple[Method, ...]] = {}
    for envelope, (direction, side) in ENVELOPES.items():
        methods[direction] = tuple(
            _method(definitions, params, side, direction, normaliser, stable_methods)
            for params in _params_of(definitions[envelope])
        )
    direction = "protocol_notifications"
    methods[direction] = tuple(
        _method(definitions, params, "protocol", direction, normaliser, stable_methods)
        for params, definition in definitions.items()
        if definition.get("x-side") == "protocol"
    )
    if strict:
        namer.check_overrides_used()
    return Protocol(name, normaliser.out, methods)


def _is_for(patch: Patch, schema: Schema) -> bool:
    """Return whether the schema has the patched definition, or the patch adds a definition."""
    definition = patch.pointer.split("/")[2]
    return definition in schema["$defs"] or patch.pointer.endswith(f"/{definition}")


def _method(
    definitions: dict[str, Schema],
    params: str,
    side: str,
    direction: str,
    normaliser: Normaliser,
    stable_methods: set[str | None],
) -> Method:
    schema = definitions[params]
    wire = schema.get("x-method")
    if wire is None or schema.get("x-side") != side:
        msg = f"{params} is sent to the {side} but carries no matching x-method and x-side"
        raise CodegenError(msg)
    result = None
    if direction.endswith("requests"):
        results = [
            n
            for n, d in definitions.items()
            if d.get("x-method") == wire and d.get("x-side") == side and n.endswith("Response")
        ]
        if len(results) != 1:
            raise CodegenError(f"{wire} has {len(results)} response types: {results}")
        result = normaliser.definition(results[0])
    return Method(
        wire,
        normaliser.definition(params),
        result,
        experimental=wire not in stable_methods,
        doc=schema.get("description", ""),
    )
