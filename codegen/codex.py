"""The Codex app-server bundle → IR: definitions, and the methods of each direction."""

from __future__ import annotations

from typing import Any

from codegen.errors import CodegenError, UnusedOverride
from codegen.flatten import Schema, literal_of, ref_name
from codegen.ir import Method, Protocol
from codegen.naming import Namer, pascal
from codegen.normalise import Normaliser
from codegen.overrides import codex as overrides

DIRECTIONS = {
    "ClientRequest": "client_requests",
    "ClientNotification": "client_notifications",
    "ServerRequest": "server_requests",
    "ServerNotification": "server_notifications",
}
"""Envelope definition → direction. The envelopes themselves get no class."""


def flat_definitions(bundle: dict[str, Any]) -> dict[str, Schema]:
    """The bundle's two levels as one; a name on both must mean the same thing."""
    top = dict(bundle["definitions"])
    nested: dict[str, Schema] = top.pop("v2")
    for name in top.keys() & nested.keys():
        if _without_text(top[name]) != _without_text(nested[name]):
            msg = f"definition {name} differs between the bundle's two levels"
            raise CodegenError(msg)
    return {**nested, **top}


def _without_text(schema: Any) -> Any:
    if isinstance(schema, dict):
        skip = ("description", "$schema", "title")
        return {k: _without_text(v) for k, v in schema.items() if k not in skip}
    if isinstance(schema, list):
        return [_without_text(v) for v in schema]
    return schema


def _member_name(union: str, label: str, title: str) -> str:
    return title.replace("v2::", "") if title else pascal(label) + union


def wire_methods(definitions: dict[str, Schema], envelope: str) -> dict[str, Schema]:
    """Wire method → its member of the envelope union."""
    found: dict[str, Schema] = {}
    for member in definitions[envelope]["oneOf"]:
        method = literal_of(member["properties"]["method"])
        if method is None:
            msg = f"a member of {envelope} names no method"
            raise CodegenError(msg)
        found[method] = member
    return found


def load(experimental: dict[str, Any], stable: dict[str, Any]) -> Protocol:
    """The whole protocol; methods missing from the stable bundle are marked experimental."""
    definitions = flat_definitions(experimental)
    stable_definitions = flat_definitions(stable)
    namer = Namer(dict(overrides.NAMES))
    normaliser = Normaliser(definitions, namer, _member_name, True, overrides.CLOSED_ENUMS)
    methods: dict[str, tuple[Method, ...]] = {}
    results = dict(overrides.RESULTS)
    for envelope, direction in DIRECTIONS.items():
        known = wire_methods(stable_definitions, envelope)
        rows = []
        for wire, member in wire_methods(definitions, envelope).items():
            params, is_nullable = _params(member)
            result = None
            if direction.endswith("requests"):
                result = results.pop(wire, None) or _paired(wire, params, definitions)
            rows.append(
                Method(
                    wire,
                    normaliser.definition(params) if params else None,
                    normaliser.definition(result) if result else None,
                    is_nullable,
                    wire not in known,
                    member.get("description", ""),
                )
            )
        methods[direction] = tuple(rows)
    if results:
        msg = f"RESULTS overrides that match no method: {sorted(results)}"
        raise UnusedOverride(msg)
    namer.check_overrides_used()
    unknown = sorted(overrides.CLOSED_ENUMS - definitions.keys())
    if unknown:
        msg = f"CLOSED_ENUMS that the schema does not define: {unknown}"
        raise UnusedOverride(msg)
    return Protocol("codex", normaliser.out, methods)


def _params(member: Schema) -> tuple[str | None, bool]:
    params = member["properties"].get("params")
    if params is None or params.get("type") == "null":
        return None, False
    if "anyOf" in params:
        (ref,) = [ref_name(m) for m in params["anyOf"] if ref_name(m)]
        return ref, True
    ref = ref_name(params)
    if ref is None:
        msg = f"params of {member} are no reference"
        raise CodegenError(msg)
    return ref, False


def _paired(wire: str, params: str | None, definitions: dict[str, Schema]) -> str:
    guess = (params or "").removesuffix("Params") + "Response"
    if guess not in definitions:
        msg = (
            f"no response type is known for {wire}; "
            f"add {wire!r}: '…Response' to RESULTS in codegen/overrides/codex.py"
        )
        raise CodegenError(msg)
    return guess
