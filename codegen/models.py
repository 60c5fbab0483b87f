"""Let datamodel-code-generator write the Python classes of the IR, and check the result."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from codegen.aliases import references
from codegen.errors import CodegenError
from codegen.ir import ClassDef, Node, Protocol

_PLACEHOLDER: Node = {
    "type": "object",
    "description": "Generated elsewhere.",
    "properties": {"placeholder": {"type": "string"}},
}
"""Schema of a definition that a class mentions, but that is no class or was written before."""

FLAGS = (
    "--input-file-type=jsonschema",
    "--output-model-type=pydantic_v2.BaseModel",
    "--target-python-version=3.11",
    "--base-class=codex_acp.wire.model.WireModel",
    "--snake-case-field",
    "--use-annotated",
    "--enum-field-as-literal=all",
    "--use-schema-description",
    "--disable-future-imports",
    "--disable-timestamp",
    "--no-formatters",
    "--use-standard-collections",
    "--use-union-operator",
    "--field-constraints",
    "--class-name=SchemaRoot",
)
"""Flags of datamodel-code-generator, whose input has one class a definition, nothing inline."""

_WRITTEN: dict[str, ast.ClassDef] = {}
"""Schema of a class, as JSON → its statement, which does not depend on other classes."""


def _to_schema(node: Node) -> Node:
    if "$ref" in node:
        return {"$ref": f"#/$defs/{node['$ref']}"}
    out = dict(node)
    if "anyOf" in node:
        inner = _to_schema(node["anyOf"][0])
        if isinstance(inner.get("type"), str):
            return {**inner, "type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}
    if "items" in node:
        out["items"] = _to_schema(node["items"])
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _to_schema(node["additionalProperties"]) or True
    if "const" in node:
        out = {"type": "string", "enum": [node["const"]]}
    return out


def _class_schema(definition: ClassDef) -> Node:
    return {
        "type": "object",
        "title": definition.name,
        "description": definition.doc or definition.name,
        "properties": {f.wire: _to_schema(f.node) for f in definition.fields},
        "required": [f.wire for f in definition.fields if f.required],
    }


def generate_classes(protocol: Protocol) -> dict[str, ast.ClassDef]:
    """Return class name → statement, for every class of the protocol."""
    schemas = {
        name: _class_schema(definition)
        for name, definition in protocol.definitions.items()
        if isinstance(definition, ClassDef)
    }
    keys = {name: json.dumps(schema) for name, schema in schemas.items()}
    new = {name: schemas[name] for name, key in keys.items() if key not in _WRITTEN}
    if new:
        statements = _write(new, protocol)
        _WRITTEN.update({keys[name]: statement for name, statement in statements.items()})
    return {name: _WRITTEN[key] for name, key in keys.items()}


def _write(classes: dict[str, Node], protocol: Protocol) -> dict[str, ast.ClassDef]:
    """Let the generator write these classes, with placeholders for the others they mention."""
    mentioned = set().union(*(references(protocol.definitions[name]) for name in classes))
    others = {name: {**_PLACEHOLDER, "title": name} for name in mentioned - classes.keys()}
    definitions = {**dict(sorted(others.items())), **classes}
    schema = "https://json-schema.org/draft/2020-12/schema"
    tree = ast.parse(_run({"$schema": schema, "$defs": definitions}))
    found = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    missing = sorted(classes.keys() - found.keys())
    invented = sorted(found.keys() - definitions.keys() - {"SchemaRoot"})
    if missing or invented:
        raise CodegenError(f"datamodel-code-generator dropped {missing} and invented {invented}")
    return {name: found[name] for name in classes}


def _run(document: Node) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "schema.json"
        target = Path(folder) / "models.py"
        source.write_text(json.dumps(document))
        command = [sys.executable, "-m", "datamodel_code_generator", *FLAGS]
        command += ["--input", str(source), "--output", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not target.exists():
            raise CodegenError(f"datamodel-code-generator failed:\n{done.stdout}{done.stderr}")
        return target.read_text()
