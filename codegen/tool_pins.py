"""``python -m codegen.tool_pins``: move the exact pins of tools to the newest versions.

Does not move the pins of schemas (``codegen.refresh`` does), of Codex and of pydantic, which are
pinned to the tested versions.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codegen.errors import FetchFailed
from codegen.pinned import ROOT
from codegen.progress import Progress, run

PYPI_FILES = ("pyproject.toml", "noxfile.py")
NPM_FILES = ("tests/clients/package.json",)
NOT_MOVED = ("openai-codex-cli-bin", "pydantic")

_SECONDS = 120.0
_PYPI = re.compile(r'"(?P<name>[A-Za-z0-9_.-]+)(?P<extra>\[[a-z,]+\])?==(?P<version>[\w.]+)"')
_NPM = re.compile(r'"(?P<name>@?[a-z][\w./-]+)"(?::|,) "(?P<version>\d+\.\d+\.\d+)"')

Newest = Callable[[str], str]


@dataclass(frozen=True)
class Pin:
    """One exact pin in a file."""

    path: str
    name: str
    version: str
    text: str
    """The whole pin, as the file has it."""


def pins(root: Path, files: Sequence[str], pattern: re.Pattern[str]) -> Iterator[Pin]:
    """Yield every exact pin of the files that ``pattern`` finds, without `NOT_MOVED`."""
    for name in files:
        for match in pattern.finditer((root / name).read_text()):
            if match["name"] not in NOT_MOVED:
                yield Pin(name, match["name"], match["version"], match[0])


def move(root: Path, files: Sequence[str], pattern: re.Pattern[str], newest: Newest) -> list[str]:
    """Write the newest versions into the files; return a line for each pin that moved."""
    moved = []
    for pin in list(pins(root, files, pattern)):
        version = newest(pin.name)
        if version != pin.version:
            path = root / pin.path
            text = pin.text.replace(pin.version, version)
            path.write_text(path.read_text().replace(pin.text, text))
            moved.append(f"{pin.path}: {pin.name} {pin.version} → {version}")
    return moved


def newest_on_pypi(name: str) -> str:
    """Return the version that pip would install. Raises FetchFailed."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--report", "-", name]
    report = json.loads(run(command, Progress(), timeout=_SECONDS))
    return str(report["install"][0]["metadata"]["version"])


def newest_on_npm(name: str) -> str:
    """Return npm's latest version. Raises FetchFailed."""
    text = run(["npm", "view", "--json", name, "version"], Progress(), timeout=_SECONDS)
    return str(json.loads(text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Move every pin. Return 2 if a registry did not answer; pins that were moved stay moved."""
    parser = argparse.ArgumentParser(prog="python -m codegen.tool_pins", description=__doc__)
    parser.add_argument("--npm", action="store_true", help="also those of npm; needs npm")
    args = parser.parse_args(arguments)
    try:
        moved = move(ROOT, PYPI_FILES, _PYPI, newest_on_pypi)
        moved += move(ROOT, NPM_FILES, _NPM, newest_on_npm) if args.npm else []
    except FetchFailed as error:
        print(f"tool_pins: {error}", file=sys.stderr)
        return 2
    print("\n".join(moved) or "every pin is the newest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
