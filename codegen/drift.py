"""``python -m codegen.drift OLD NEW``: report the changes of a new version, and what they need.

OLD and NEW are folders like ``schema/`` or packed bundles like those below ``schema/codex/older``.
Exit codes: 0 nothing new, 3 compatible, 4 a decision is needed, 2 the schemas cannot be read.
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
    """Return the protocols of schema files, also of files at which the generator would stop.

    ``is_strict``: find out whether it would. ``older`` is the result of `regen.older_protocols`.
    """
    protocols: dict[str, Protocol] = {}
    stable: dict[str, Protocol] = {}
    files = source.files
    extended: Protocol | None = None
    if EXPERIMENTAL in files:
        of_stable = files[STABLE]
        protocols["codex"] = codex.load(files[EXPERIMENTAL], of_stable, strict=False)
        stable["codex"] = codex.load(of_stable, of_stable, strict=False)
        extended = readable(protocols["codex"], older[0]) if older else None
    for name, of_unstable, of_stable in _acp_files(files):
        protocols[name] = acp.load(name, of_unstable, of_stable, strict=False)
        stable[name] = acp.load(name, of_stable, of_stable, strict=False)
    problem = _problem(files, older or ({}, set())) if is_strict else ""
    return SchemaSet(source.versions, protocols, stable, problem, extended)


def _acp_files(files: Mapping[str, Schema]) -> Iterator[tuple[str, Schema, Schema]]:
    """Yield version, unstable schema and stable schema of each version of ACP that has both."""
    for name, (unstable, stable) in ACP_SCHEMAS.items():
        if unstable in files and stable in files:
            yield name, files[unstable], files[stable]


def _problem(files: Mapping[str, Schema], older: tuple[dict[str, Protocol], set[str]]) -> str:
    """Return the error with which the generator would stop; empty if it would not."""
    protocols, used = older
    try:
        if EXPERIMENTAL in files:
            newest = codex.load(files[EXPERIMENTAL], files[STABLE], used=used)
            discriminators(readable(newest, protocols))
        for name, unstable, stable in _acp_files(files):
            acp.load(name, unstable, stable)
    except CodegenError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def report(old: Path, new: Path, root: Path = ROOT) -> Report:
    """Report the drift between two schema sets, judged by the source below ``root``."""
    old_files, new_files = read_schema_set(old), read_schema_set(new)
    before = schema_set(old_files)
    try:
        older = older_protocols(new) if new.is_dir() else None
        after = schema_set(new_files, is_strict=new_files != old_files, older=older)
    except CodegenError as error:  # complete, but the generator cannot read them
        after = SchemaSet(new_files.versions, {}, {}, f"{type(error).__name__}: {error}")
    return drift(before, after, read_ours(root, after.protocols))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return its verdict, or 2 if the schemas cannot be read."""
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
