"""JSON values made from a JSON schema, by chance: what a peer that keeps to it may send.

Reads the published schemas themselves, not the generator's picture of them.
"""

from __future__ import annotations

import random
import string
from typing import Any

Schema = Any

MAX_DEPTH = 6
"""Below this only what is required is made, so that values stay small."""

_TEXT = string.ascii_letters + string.digits + " _-/.äß€😀\n\"\\'\t\u2028"


class ValueMaker:
    """Makes values of the definitions of one schema file."""

    def __init__(self, definitions: dict[str, Schema], rng: random.Random) -> None:
        self.definitions = definitions
        self.rng = rng

    def make(self, schema: Schema, depth: int = 0) -> Any:
        """One value that fits ``schema``; objects get an unknown field now and then."""
        if schema is True or schema == {}:
            return self.any_json(depth)
        if "$ref" in schema:
            return self.make(self.definitions[schema["$ref"].rsplit("/", 1)[-1]], depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        kind = schema.get("type")
        if "properties" in schema or kind == "object" or "allOf" in schema:
            return self._object(schema, depth)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return self.make(self._member(schema[key], depth), depth)
        if isinstance(kind, list):
            kind = "null" if depth > MAX_DEPTH and "null" in kind else self.rng.choice(kind)
            return self.make({**schema, "type": kind}, depth)
        return self._scalar_or_list(schema, kind, depth)

    def _member(self, members: list[Schema], depth: int) -> Schema:
        if depth > MAX_DEPTH and {"type": "null"} in members:
            return {"type": "null"}
        return self.rng.choice(members)

    def _scalar_or_list(self, schema: Schema, kind: str | None, depth: int) -> Any:
        rng = self.rng
        match kind:
            case "null":
                return None
            case "boolean":
                return rng.random() < 0.5
            case "integer":
                low = int(schema.get("minimum", -5))
                return rng.randint(low, int(schema.get("maximum", 2**31)))
            case "number":
                low, high = schema.get("minimum", -3e10), schema.get("maximum", 3e10)
                return rng.choice([n for n in (0, 0.5, -2.25, 3e10) if low <= n <= high])
            case "string":
                low = schema.get("minLength", 0)
                return "".join(rng.choices(_TEXT, k=rng.randint(low, low + 8)))
            case "array":
                count = 0 if depth > MAX_DEPTH else rng.randint(0, 2)
                return [self.make(schema.get("items", True), depth + 1) for _ in range(count)]
            case None:
                return self.any_json(depth)
            case other:
                msg = f"type {other!r}"
                raise AssertionError(msg)

    def _object(self, schema: Schema, depth: int) -> Any:
        value: dict[str, Any] = {}
        for part in schema.get("allOf", ()):
            made = self.make(part, depth)
            if not isinstance(made, dict):
                return made
            value |= made
        required = schema.get("required", ())
        for name, inner in schema.get("properties", {}).items():
            if name in required or (depth <= MAX_DEPTH and self.rng.random() < 0.5):
                value[name] = self.make(inner, depth + 1)
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and "properties" not in schema:
            for _ in range(self.rng.randint(0, 2)):
                value[self.make({"type": "string"})] = self.make(values, depth + 1)
        elif self.rng.random() < 0.2:
            value["xUnknown"] = self.any_json(depth)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                value |= self._union_member(schema[key], depth)
        return value

    def _union_member(self, members: list[Schema], depth: int) -> dict[str, Any]:
        member = self.rng.choice(members)
        made = self.make(member, depth)
        if "not" in member:
            # An open union's last member: its tag is any string that is none of the known ones.
            (tag,) = member["not"]["anyOf"][0]["required"]
            made[tag] = "_vendor" + self.make({"type": "string"})
        assert isinstance(made, dict)
        return made

    def any_json(self, depth: int = 0) -> Any:
        """Any JSON value, null included."""
        choices: list[Any] = [None, True, 7, 2.5, "text", [], {}]
        if depth <= MAX_DEPTH:
            choices += [[1, "a", None], {"k": {"n": None}, "l": [False]}]
        return self.rng.choice(choices)


def same_json(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are the same number, true is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
