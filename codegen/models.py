"""IR → Python classes: datamodel-code-generator writes them, this module feeds and checks it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from codegen.errors import CodegenError
from codegen.ir import ClassDef, Node, Protocol

_PLACEHOLDER = "Generated elsewhere."

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
    "--keep-model-order",
    "--use-standard-collections",
    "--use-union-operator",
    "--field-constraints",
    "--class-name=SchemaRoot",
)
"""How datamodel-code-generator runs; it sees one class a definition and nothing inline."""


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
    """Class name → its statement as the generator wrote it, for every class of the protocol."""
    wanted = {n for n, d in protocol.definitions.items() if isinstance(d, ClassDef)}
    defs: dict[str, Node] = {}
    for name, definition in protocol.definitions.items():
        if isinstance(definition, ClassDef):
            defs[name] = _class_schema(definition)
        else:
            defs[name] = {
                "type": "object",
                "title": name,
                "description": _PLACEHOLDER,
                "properties": {"placeholder": {"type": "string"}},
            }
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs}
    tree = ast.parse(_run(document))
    found = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    missing = sorted(wanted - found.keys())
    invented = sorted(found.keys() - defs.keys() - {"SchemaRoot"})
    if missing or invented:
        raise CodegenError(f"datamodel-code-generator dropped {missing} and invented {invented}")
    return {name: node for name, node in found.items() if name in wanted}


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
