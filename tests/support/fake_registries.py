"""Commands that stand in for pip, npm and Codex: what they give is what a test put there.

They are real programs on PATH, so that `codegen.fetch` runs as it does in earnest.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from codegen.fetch import BUNDLE, npm_platform

_PIP = """
import os, pathlib, shutil, sys
here = pathlib.Path(os.environ["FAKE_REGISTRIES"])
name, version = sys.argv[-1].split("==")
wheel = here / f"{name}-{version}.whl"
assert sys.argv[1] == "download" and "--no-deps" in sys.argv
if not wheel.exists():
    sys.exit(f"ERROR: No matching distribution found for {name}=={version}")
target = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
shutil.copy(wheel, target / wheel.name)
"""

_NPM = """
import json, os, pathlib, shutil, sys
here = pathlib.Path(os.environ["FAKE_REGISTRIES"])
packages = json.loads((here / "npm.json").read_text())
def file_of(spec):
    return here / (spec.replace("/", "+") + ".tgz")
if sys.argv[1] == "view":
    spec, key = sys.argv[3:]
    if spec not in packages:
        sys.exit(f"npm error 404 No match found for version {spec}")
    if key in packages[spec]:
        print(json.dumps(packages[spec][key]))
else:
    spec = sys.argv[-1]
    target = pathlib.Path(sys.argv[sys.argv.index("--pack-destination") + 1])
    shutil.copy(file_of(spec), target / "package.tgz")
"""

_CODEX = """
import pathlib, sys
if sys.argv[1:] == ["--version"]:
    print("codex-cli {version}")
    sys.exit(0)
assert sys.argv[1:3] == ["app-server", "generate-json-schema"], sys.argv
name = "experimental" if "--experimental" in sys.argv else "stable"
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True)
{body}
"""

WRITES = 'out.joinpath("{bundle}").write_bytes(pathlib.Path("{folder}", name).read_bytes())'


@dataclass(frozen=True)
class FakeRegistries:
    """A folder with what pip and npm know."""

    folder: Path

    def binary(self, version: str, files: Mapping[str, bytes], body: str = WRITES) -> bytes:
        """A Codex that writes these bundles: ``experimental`` and ``stable``."""
        stored = self.folder / f"bundles-{version}"
        stored.mkdir(exist_ok=True)
        for name, data in files.items():
            (stored / name).write_bytes(data)
        body = body.format(bundle=BUNDLE, folder=stored)
        return _program(_CODEX.format(version=version, body=body))

    def wheel(self, version: str, binary: bytes, *, recorded: bytes | None = None) -> Path:
        """Put the binary on PyPI; ``recorded`` is what its RECORD is about, if something else."""
        path = self.folder / f"openai-codex-cli-bin-{version}.whl"
        digest = hashlib.sha256(binary if recorded is None else recorded).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        name = "codex_cli_bin/bin/codex"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(name, binary)
            record = f"openai_codex_cli_bin-{version}.dist-info/RECORD"
            wheel.writestr(record, f"{name},sha256={text},{len(binary)}\n")
        return path

    def npm_codex(self, version: str, binary: bytes) -> str:
        """Put the binary on npm, below this machine's platform; gives the platform's package."""
        spec = f"@openai/codex@{version}-{npm_platform()}"
        self.npm(spec, {"package/vendor/some-target/bin/codex": binary})
        key = f"@openai/codex-{npm_platform()}"
        self._add(f"@openai/codex@{version}", {"optionalDependencies": {key: f"npm:{spec}"}})
        return spec

    def npm(self, spec: str, files: Mapping[str, bytes], integrity: str | None = None) -> Path:
        """Put a package on npm."""
        path = self.folder / (spec.replace("/", "+") + ".tgz")
        with tarfile.open(path, "w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o755
                tar.addfile(info, io.BytesIO(data))
        digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        self._add(spec, {"dist.integrity": integrity or f"sha512-{digest}"})
        return path

    def without_integrity(self, spec: str) -> None:
        """Let npm give no integrity for a package."""
        self._add(spec, {})

    def _add(self, spec: str, facts: Mapping[str, object]) -> None:
        path = self.folder / "npm.json"
        packages = json.loads(path.read_text())
        packages[spec] = facts
        path.write_text(json.dumps(packages))


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRegistries:
    """Put the commands first on PATH."""
    commands, store = folder / "bin", folder / "store"
    commands.mkdir(parents=True)
    store.mkdir()
    (store / "npm.json").write_text("{}")
    for name, code in (("pip", _PIP), ("npm", _NPM)):
        path = commands / name
        path.write_bytes(_program(code))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_REGISTRIES", str(store))
    return FakeRegistries(store)


def _program(code: str) -> bytes:
    return f"#!{sys.executable} -IS\n{code}".encode()
