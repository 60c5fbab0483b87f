"""``python -m codegen.binaries VERSION --into FOLDER``: get a Codex of any version, to run tests.

Fetches the package as `refresh` does, and unpacks all of it: the binary starts helpers beside it.
Prints the path of the binary. A version that ``FOLDER`` has is not fetched again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from codegen.errors import CodegenError
from codegen.fetch import fetch_codex, find_binary, unpack
from codegen.progress import Progress, run


def binary(version: str, folder: Path, progress: Progress) -> Path:
    """Return the path of a version's binary, fetched if need be. Raises CodegenError."""
    home = folder / version
    if home.is_dir():
        return find_binary(home)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        (work / "fetched").mkdir()
        archive = fetch_codex(version, work / "fetched", progress).archive
        new = work / "new"
        with progress.step("unpacked"):
            run([str(unpack(archive, new)), "--version"], progress, timeout=60.0)
        new.rename(home)
    return find_binary(home)


def main() -> int:
    """Print the path of the binary; return 2 if there is none."""
    parser = argparse.ArgumentParser(prog="python -m codegen.binaries", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    try:
        print(binary(args.version, args.into.absolute(), Progress()))
    except CodegenError as error:
        print(f"binaries: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
