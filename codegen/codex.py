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
            raise CodegenError(f"definition {name} differs between the bundle's two levels")
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
            raise CodegenError(f"a member of {envelope} names no method")
        found[method] = member
    return found


def load(
    experimental: dict[str, Any],
    stable: dict[str, Any],
    *,
    strict: bool = True,
    used: set[str] | None = None,
) -> Protocol:
    """The whole protocol; methods missing from the stable bundle are marked experimental.

    Not ``strict``: for a schema that is only looked at and compared. The overrides, which fit one
    version, need not fit; two types of one name get longer names; an unknown result is None.
    ``used`` is given the overrides of names that fit: one that only an older version needs is no
    mistake.
    """
    definitions = flat_definitions(experimental)
    stable_definitions = flat_definitions(stable)
    namer = Namer(dict(overrides.NAMES), strict=strict)
    if used is not None:
        namer._used = used
    normaliser = Normaliser(definitions, namer, _member_name, True, overrides.CLOSED_ENUMS)
    methods: dict[str, tuple[Method, ...]] = {}
    results = dict(overrides.RESULTS)
    unpaired: list[str] = []
    for envelope, direction in DIRECTIONS.items():
        known = wire_methods(stable_definitions, envelope)
        rows = []
        for wire, member in wire_methods(definitions, envelope).items():
            params, is_nullable = _params(member)
            result = None
            if direction.endswith("requests"):
                by_name = (params or "").removesuffix("Params") + "Response"
                result = results.pop(wire, None) or by_name
                if result not in definitions:
                    unpaired.append(wire)
                    result = None
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
    if strict:
        _check_results(results, unpaired)
        namer.check_overrides_used()
        unknown = sorted(overrides.CLOSED_ENUMS - definitions.keys())
        if unknown:
            raise UnusedOverride(f"CLOSED_ENUMS that the schema does not define: {unknown}")
    return Protocol("codex", normaliser.out, methods)


def _check_results(left: dict[str, str], unpaired: list[str]) -> None:
    """Every request has its response, and every override was one's."""
    if left:
        raise UnusedOverride(f"RESULTS overrides that match no method: {sorted(left)}")
    if unpaired:
        rows = "".join(f"\n    {wire!r}: '…Response'," for wire in unpaired)
        raise CodegenError(
            f"no response type is known for {', '.join(unpaired)}; "
            f"add to RESULTS in codegen/overrides/codex.py:{rows}"
        )


def _params(member: Schema) -> tuple[str | None, bool]:
    params = member["properties"].get("params")
    if params is None or params.get("type") == "null":
        return None, False
    if "anyOf" in params:
        (ref,) = [ref_name(m) for m in params["anyOf"] if ref_name(m)]
        return ref, True
    ref = ref_name(params)
    if ref is None:
        raise CodegenError(f"params of {member} are no reference")
    return ref, False
