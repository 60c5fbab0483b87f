"""``python -m codegen.drift OLD NEW``: what a new version changes, and what that means for us.

OLD and NEW are folders like ``schema/`` or packed bundles like those below ``schema/codex/older``.
Exit codes: 0 nothing new, 3 compatible, 4 somebody has to decide, 2 the schemas cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from codegen import acp, codex
from codegen.bundles import ACP_SCHEMAS, EXPERIMENTAL, STABLE, Schema, SchemaFiles, read_schema_set
from codegen.drift_judge import drift
from codegen.drift_model import Report, SchemaSet
from codegen.drift_ours import read_ours
from codegen.drift_render import as_json, markdown, terminal, write_report
from codegen.errors import CodegenError
from codegen.ir import Protocol
from codegen.older import readable
from codegen.pinned import ROOT
from codegen.regen import older_protocols
from codegen.render import discriminators

RENDERERS = {"terminal": terminal, "markdown": markdown, "json": as_json}


def schema_set(
    source: SchemaFiles,
    *,
    is_strict: bool = False,
    older: tuple[dict[str, Protocol], set[str]] | None = None,
) -> SchemaSet:
    """The protocols of schema files, also of those that the generator itself would stop at.

    With ``is_strict`` also whether it could take them; ``older`` are versions that stay readable,
    see `regen.older_protocols`.
    """
    protocols: list[tuple[str, Protocol]] = []
    stable: list[tuple[str, Protocol]] = []
    files = source.files
    kept: Protocol | None = None
    if EXPERIMENTAL in files:
        experimental, known = files[EXPERIMENTAL], files[STABLE]
        protocols.append(("codex", codex.load(experimental, known, strict=False)))
        stable.append(("codex", codex.load(known, known, strict=False)))
        kept = readable(protocols[0][1], older[0]) if older else None
    for name, (whole, part) in _acp_files(files):
        protocols.append((name, acp.load(name, whole, part, strict=False)))
        stable.append((name, acp.load(name, part, part, strict=False)))
    problem = _problem(source, older or ({}, set())) if is_strict else ""
    versions = tuple(source.versions.items())
    return SchemaSet(versions, tuple(protocols), tuple(stable), problem, kept)


def _acp_files(files: Mapping[str, Schema]) -> Iterator[tuple[str, tuple[Schema, Schema]]]:
    """The versions of ACP whose two schemas are there."""
    for name, (whole, stable) in ACP_SCHEMAS.items():
        if whole in files and stable in files:
            yield name, (files[whole], files[stable])


def _problem(source: SchemaFiles, older: tuple[dict[str, Protocol], set[str]]) -> str:
    files = source.files
    protocols, used = older
    try:
        if EXPERIMENTAL in files:
            newest = codex.load(files[EXPERIMENTAL], files[STABLE], used=used)
            discriminators(readable(newest, protocols))
        for name, (whole, part) in _acp_files(files):
            acp.load(name, whole, part)
    except CodegenError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def report(old: Path, new: Path, root: Path = ROOT) -> Report:
    """The drift between two schema sets, judged by the tables and the source below ``root``."""
    before, files = schema_set(read_schema_set(old)), read_schema_set(new)
    try:
        older = older_protocols(new) if new.is_dir() else None
        after = schema_set(files, is_strict=files != read_schema_set(old), older=older)
    except CodegenError as error:  # whole, but of a kind that the generator has never seen
        after = SchemaSet(tuple(files.versions.items()), (), (), f"{type(error).__name__}: {error}")
    return drift(before, after, read_ours(root, dict(after.protocols)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; the exit code is its verdict."""
    parser = argparse.ArgumentParser(prog="python -m codegen.drift", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--format", choices=sorted(RENDERERS), default="terminal")
    parser.add_argument("--changelog", action="store_true", help="also write it into CHANGELOG.md")
    args = parser.parse_args(arguments)
    try:
        found = report(args.old, args.new)
    except (CodegenError, OSError) as error:
        print(f"drift: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(RENDERERS[args.format](found))
    if args.changelog:
        write_report(ROOT / "CHANGELOG.md", found)
    return int(found.verdict)


if __name__ == "__main__":
    sys.exit(main())
