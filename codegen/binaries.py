"""``python -m codegen.binaries VERSION --into FOLDER``: a Codex of any version, to run tests with.

Fetches the package as `refresh` does and unpacks all of it, for the binary starts helpers that
stand beside it. Prints the path of the binary. What is there already is not fetched again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from codegen.errors import CodegenError, FetchFailed
from codegen.fetch import fetch_codex
from codegen.progress import Progress, run

_PROGRAMS = ("bin", "codex-path", "codex-resources")
"""Folders of a package whose files are programs; a wheel does not keep that they are."""


def binary(version: str, folder: Path, progress: Progress) -> Path:
    """The binary of this version below ``folder``. Raises CodegenError."""
    home = folder / version
    if home.is_dir():
        return _find(home)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        (work / "fetched").mkdir()
        archive = fetch_codex(version, work / "fetched", progress).archive
        new = work / "new"
        with progress.step("unpacked"):
            _unpack(archive, new)
            run([str(_find(new)), "--version"], progress, timeout=60.0)
        new.rename(home)
    return _find(home)


def _unpack(archive: Path, target: Path) -> None:
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, shutil.Error) as error:
        msg = f"{archive.name} cannot be unpacked; it may be cut off: {error}"
        raise FetchFailed(msg) from None
    for path in target.rglob("*"):
        if path.is_file() and any(part in _PROGRAMS for part in path.parts):
            path.chmod(path.stat().st_mode | 0o111)


def _find(home: Path) -> Path:
    found = sorted(home.rglob("bin/codex"))
    if len(found) != 1:
        msg = f"{home} has {len(found)} files bin/codex; remove the folder and run this again"
        raise FetchFailed(msg)
    return found[0]


def main() -> int:
    """0 and the path on standard output, or 2."""
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
