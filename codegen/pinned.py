"""Read ``schema/PINNED.json``, and check that each schema file is the one that is pinned there."""

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
    """One vendored schema file and its origin."""

    path: str
    sha256: str
    package: str
    version: str

    def load(self, schema_dir: Path = SCHEMA_DIR) -> dict[str, Any]:
        """Parse the file. Raises PinMismatch if its hash is not that of the pin."""
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
    """Return every pinned file by its path below ``schema/``."""
    raw = json.loads((schema_dir / "PINNED.json").read_text())
    pins: dict[str, PinnedFile] = {}
    for source in raw["sources"]:
        for path, sha256 in source["files"].items():
            pins[path] = PinnedFile(path, sha256, source["package"], source["version"])
    return pins


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of ``0.169.0-alpha``, by which versions are compared: 0, 169 and 0."""
    return tuple(int(part) for part in version.partition("-")[0].split("."))
