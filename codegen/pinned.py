"""The vendored inputs: read ``schema/PINNED.json`` and prove that each file is the one it names."""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.errors import PinMismatch

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_DIR = ROOT / "schema"


@dataclass(frozen=True)
class PinnedFile:
    """One vendored schema file and where it came from."""

    path: str
    sha256: str
    package: str
    version: str

    def load(self, schema_dir: Path = SCHEMA_DIR) -> dict[str, Any]:
        """The parsed file; PinMismatch if a byte of it differs from the pin."""
        file = schema_dir / self.path
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            msg = f"{self.path} is pinned but missing; restore it from version control"
            raise PinMismatch(msg) from None
        actual = hashlib.sha256(data).hexdigest()
        if actual != self.sha256:
            raise PinMismatch(
                f"{self.path} has sha256 {actual} but PINNED.json says {self.sha256}; "
                "restore the file, or refresh the schema on purpose"
            )
        loaded: dict[str, Any] = json.loads(lzma.decompress(data) if file.suffix == ".xz" else data)
        return loaded


def read_pins(schema_dir: Path = SCHEMA_DIR) -> dict[str, PinnedFile]:
    """Every pinned file by its path below ``schema/``."""
    raw = json.loads((schema_dir / "PINNED.json").read_text())
    pins: dict[str, PinnedFile] = {}
    for source in raw["sources"]:
        for path, sha256 in source["files"].items():
            pins[path] = PinnedFile(path, sha256, source["package"], source["version"])
    return pins


def version_key(version: str) -> tuple[int, ...]:
    """``0.169.0`` to be compared; what follows a hyphen does not count."""
    return tuple(int(part) for part in version.partition("-")[0].split("."))
