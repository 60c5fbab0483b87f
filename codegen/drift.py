"""``python -m codegen.drift OLD NEW``: what a new version changes, and what that means for us.

OLD and NEW are folders like ``schema/`` or packed bundles like those below ``schema/codex/older``.
Exit codes: 0 nothing new, 3 compatible, 4 somebody has to decide, 2 the schemas cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from codegen.bundles import read_schema_set
from codegen.changelog import write_report
from codegen.drift_judge import drift
from codegen.drift_model import Report, SchemaSet
from codegen.drift_ours import read_ours
from codegen.drift_read import schema_set
from codegen.drift_render import as_json, markdown, terminal
from codegen.errors import CodegenError
from codegen.pinned import ROOT

RENDERERS = {"terminal": terminal, "markdown": markdown, "json": as_json}


def report(old: Path, new: Path, root: Path = ROOT) -> Report:
    """The drift between two schema sets, judged by the tables and the source below ``root``."""
    before, files = schema_set(read_schema_set(old)), read_schema_set(new)
    try:
        after = schema_set(files, is_strict=files != read_schema_set(old))
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
