"""Read sets of schema files, from a folder like ``schema/`` or a packed file, and check them.

The packed form is JSON without descriptions, as xz. Must not know where a set comes from, nor the
names of its types.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.errors import BrokenSchema
from codegen.pinned import read_pins

Schema = dict[str, Any]

EXPERIMENTAL, STABLE = "codex/experimental.json", "codex/stable.json"
ACP_V1 = "acp/v1.json"
ACP_SCHEMAS = {
    "v1": ("acp/v1_unstable.json", ACP_V1),
    "v2": ("acp/v2_unstable.json", "acp/v2.json"),
}
"""Protocol version → the unstable schema, which is a superset, and the stable schema."""
CODEX_FILES = (EXPERIMENTAL, STABLE)
ACP_FILES = tuple(key for whole, stable in ACP_SCHEMAS.values() for key in (stable, whole))
OLDER = "codex/older/"
"""Folder of packed bundles of older Codex versions that must stay readable."""

CODEX_ENVELOPES = ("ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification")
ACP_ENVELOPES = ("AgentRequest", "AgentNotification", "ClientRequest", "ClientNotification")

_TEXT_KEYS = ("description", "$schema", "$comment")


@dataclass(frozen=True)
class SchemaFiles:
    """A set of schema files."""

    versions: Mapping[str, str]
    """``codex`` or ``acp`` → version."""
    files: Mapping[str, Schema]
    """Path below ``schema/`` → the parsed file."""


def read_schema_set(path: Path) -> SchemaFiles:
    """Read a folder like ``schema/``, or a packed file. Raises BrokenSchema or PinMismatch."""
    if path.is_file():
        return unpack(path.read_bytes(), path.name)
    if not (path / "PINNED.json").is_file():
        msg = f"{path} is neither a schema folder with a PINNED.json nor a packed bundle"
        raise BrokenSchema(msg)
    pins = read_pins(path)
    files = {key: pins[key].load(path) for key in (*CODEX_FILES, *ACP_FILES) if key in pins}
    versions = {key.split("/")[0]: pins[key].version for key in files}
    return SchemaFiles(versions, files)


def pack(files: SchemaFiles) -> bytes:
    """Return a small file of the set, without descriptions; equal sets give equal bytes."""
    body = {"versions": dict(files.versions), "files": _without_text(dict(files.files))}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return lzma.compress(text.encode(), check=lzma.CHECK_SHA256, preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes, name: str) -> SchemaFiles:
    """Read a file of `pack`. Raises BrokenSchema if it is cut off or something else."""
    try:
        body = json.loads(lzma.decompress(data))
        found = SchemaFiles(body["versions"], body["files"])
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BrokenSchema(f"{name} is no packed schema, or is cut off: {error}") from None
    for key, schema in found.files.items():
        check_complete(key, schema)
    return found


def parse(data: bytes, key: str) -> Schema:
    """Parse one schema file. Raises BrokenSchema if it is not complete."""
    try:
        schema: Schema = json.loads(data)
    except ValueError as error:
        raise BrokenSchema(f"{key} is no JSON, or is cut off: {error}") from None
    check_complete(key, schema)
    return schema


def check_complete(key: str, schema: Schema) -> None:
    """Raise BrokenSchema if an envelope is missing or empty, or a reference leads nowhere."""
    is_codex = key.startswith("codex/")
    where = "definitions" if is_codex else "$defs"
    whole: Any = schema  # may be any JSON, despite its type
    definitions = whole.get(where) if isinstance(whole, dict) else None
    if not isinstance(definitions, dict) or not definitions:
        raise BrokenSchema(f"{key} has no {where}: it is not the bundle that it should be")
    envelopes = CODEX_ENVELOPES if is_codex else ACP_ENVELOPES
    missing = [name for name in envelopes if not definitions.get(name)]
    if missing:
        raise BrokenSchema(f"{key} is not complete: it lacks {', '.join(missing)}")
    for reference in sorted(set(_references(schema))):
        if not _leads_somewhere(reference, schema):
            raise BrokenSchema(f"{key} is not complete: it refers to {reference}, which it lacks")


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _leads_somewhere(reference: str, schema: Schema) -> bool:
    here: Any = schema
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(here, dict) or step not in here:
            return False
        here = here[step]
    return True


def _without_text(node: Any) -> Any:
    """Remove descriptions, but not properties with such a name."""
    if isinstance(node, list):
        return [_without_text(value) for value in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without_text(inner) for name, inner in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _without_text(value)
        for key, value in node.items()
        if not (key in _TEXT_KEYS and isinstance(value, str))
    }
