"""Schema files → what a drift report compares. Reads what the generator itself would stop at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegen import acp, codex
from codegen.bundles import ACP_SCHEMAS, EXPERIMENTAL, STABLE, Schema, SchemaFiles
from codegen.drift_model import SchemaSet
from codegen.errors import CodegenError
from codegen.ir import Protocol
from codegen.render import discriminators


def schema_set(source: SchemaFiles, *, is_strict: bool = False) -> SchemaSet:
    """The set's protocols. With ``is_strict`` also whether the generator could take them."""
    protocols: list[tuple[str, Protocol]] = []
    stable: list[tuple[str, Protocol]] = []
    files = source.files
    if EXPERIMENTAL in files:
        experimental, known = files[EXPERIMENTAL], files[STABLE]
        protocols.append(("codex", codex.load(experimental, known, strict=False)))
        stable.append(("codex", codex.load(known, known, strict=False)))
    for name, (whole, part) in _acp_files(files):
        protocols.append((name, acp.load(name, whole, part, strict=False)))
        stable.append((name, acp.load(name, part, part, strict=False)))
    problem = _problem(source) if is_strict else ""
    return SchemaSet(tuple(source.versions.items()), tuple(protocols), tuple(stable), problem)


def _acp_files(files: Mapping[str, Schema]) -> Iterator[tuple[str, tuple[Schema, Schema]]]:
    """The versions of ACP whose two schemas are there."""
    for name, (whole, stable) in ACP_SCHEMAS.items():
        if whole in files and stable in files:
            yield name, (files[whole], files[stable])


def _problem(source: SchemaFiles) -> str:
    files = source.files
    try:
        if EXPERIMENTAL in files:
            discriminators(codex.load(files[EXPERIMENTAL], files[STABLE]))
        for name, (whole, part) in _acp_files(files):
            acp.load(name, whole, part)
    except CodegenError as error:
        return f"{type(error).__name__}: {error}"
    return ""
