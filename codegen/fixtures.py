"""``python -m codegen.fixtures VERSION…``: pack the schemas of Codex versions for the rehearsals.

Fetches each version as `refresh` does, and writes ``tests/codegen/fixtures/VERSION.json.xz``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from codegen.errors import CodegenError
from codegen.pinned import ROOT
from codegen.progress import Progress
from codegen.refresh import packed_codex

FIXTURES = ROOT / "tests" / "codegen" / "fixtures"


def main() -> int:
    """Write the bundles; return 2 if one could not be made."""
    parser = argparse.ArgumentParser(prog="python -m codegen.fixtures", description=__doc__)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    args = parser.parse_args()
    for version in args.versions:
        with tempfile.TemporaryDirectory() as work:
            try:
                _, data = packed_codex(version, Path(work), Progress())
            except CodegenError as error:
                print(f"fixtures: {type(error).__name__}: {error}", file=sys.stderr)
                return 2
        (FIXTURES / f"{version}.json.xz").write_bytes(data)
        print(f"{version}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
