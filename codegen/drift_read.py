"""Schema files → what a drift report compares. Reads what the generator itself would stop at."""

from __future__ import annotations

from codegen import acp, codex
from codegen.bundles import ACP_UNSTABLE, ACP_V1, EXPERIMENTAL, STABLE, SchemaFiles
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
        whole, part = files[EXPERIMENTAL], files[STABLE]
        protocols.append(("codex", codex.load(whole, part, strict=False)))
        stable.append(("codex", codex.load(part, part, strict=False)))
    if ACP_V1 in files:
        first, unstable = files[ACP_V1], files[ACP_UNSTABLE]
        v1 = acp.load("v1", first, first, strict=False)
        protocols += [
            ("v1", v1),
            ("v1_unstable", acp.load("v1_unstable", unstable, first, strict=False)),
        ]
        stable += [("v1", v1), ("v1_unstable", v1)]
    problem = _problem(source) if is_strict else ""
    return SchemaSet(tuple(source.versions.items()), tuple(protocols), tuple(stable), problem)


def _problem(source: SchemaFiles) -> str:
    files = source.files
    try:
        if EXPERIMENTAL in files:
            discriminators(codex.load(files[EXPERIMENTAL], files[STABLE]))
        if ACP_V1 in files:
            acp.load("v1", files[ACP_V1], files[ACP_V1])
            acp.load("v1_unstable", files[ACP_UNSTABLE], files[ACP_V1])
    except CodegenError as error:
        return f"{type(error).__name__}: {error}"
    return ""
