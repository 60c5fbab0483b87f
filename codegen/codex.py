"""Turn the bundle of the Codex app-server into IR: definitions, and methods by direction."""

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
"""Envelope (the union of all messages of one direction) → direction. Envelopes get no class."""


def flat_definitions(bundle: dict[str, Any]) -> dict[str, Schema]:
    """Merge the bundle's two levels of definitions. Raises CodegenError if they contradict."""
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
    """Return wire method → its member of the envelope."""
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
    """Return the protocol; methods that the stable bundle lacks are marked experimental.

    ``strict`` is False for a schema that is only compared: overrides need not fit, two types of one
    name get longer names, and an unknown result is None. ``used`` collects the overrides of names
    that fit, because an override may fit only an older version.
    """
    definitions = flat_definitions(experimental)
    stable_definitions = flat_definitions(stable)
    namer = Namer(dict(overrides.NAMES), strict, used=set() if used is None else used)
    normaliser = Normaliser(
        definitions,
        namer,
        _member_name,
        open_by_default=True,
        closed_enums=overrides.CLOSED_ENUMS,
    )
    methods: dict[str, tuple[Method, ...]] = {}
    results = dict(overrides.RESULTS)
    without_result: list[str] = []
    for envelope, direction in DIRECTIONS.items():
        stable_methods = wire_methods(stable_definitions, envelope)
        found = []
        for wire, member in wire_methods(definitions, envelope).items():
            params, is_nullable = _params(member)
            result = None
            if direction.endswith("requests"):
                like_params = (params or "").removesuffix("Params") + "Response"
                result = results.pop(wire, None) or like_params
                if result not in definitions:
                    without_result.append(wire)
                    result = None
            found.append(
                Method(
                    wire,
                    normaliser.definition(params) if params else None,
                    normaliser.definition(result) if result else None,
                    is_nullable,
                    wire not in stable_methods,
                    member.get("description", ""),
                )
            )
        methods[direction] = tuple(found)
    if strict:
        _check_results(results, without_result)
        namer.check_overrides_used()
        unknown = sorted(overrides.CLOSED_ENUMS - definitions.keys())
        if unknown:
            raise UnusedOverride(f"CLOSED_ENUMS that the schema does not define: {unknown}")
    return Protocol("codex", normaliser.out, methods)


def _check_results(unused: dict[str, str], without_result: list[str]) -> None:
    """Raise CodegenError for unused overrides of results, and for requests without a result."""
    if unused:
        raise UnusedOverride(f"RESULTS overrides that match no method: {sorted(unused)}")
    if without_result:
        rows = "".join(f"\n    {wire!r}: '…Response'," for wire in without_result)
        raise CodegenError(
            f"no response type is known for {', '.join(without_result)}; "
            f"add to RESULTS in codegen/overrides/codex.py:{rows}"
        )


def _params(member: Schema) -> tuple[str | None, bool]:
    """Return the definition of a method's params, or None, and whether the params may be null."""
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
