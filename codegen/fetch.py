"""Fetch the packages of Codex and ACP by name, with pip and npm as they are configured here.

Codex is a wheel on PyPI if PyPI has the version, else the package of this machine's platform on
npm; ACP's schemas are in an npm package. Each archive is checked against its registry's hash.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import platform
import shutil
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.errors import FetchFailed
from codegen.progress import Progress, run

CODEX_WHEEL = "openai-codex-cli-bin"
CODEX_NPM = "@openai/codex"
ACP_NPM = "@agentclientprotocol/sdk"

BUNDLE = "codex_app_server_protocol.schemas.json"
CODEX_COMMAND = (
    f"codex app-server generate-json-schema [--experimental] --out DIR; the file is DIR/{BUNDLE}"
)

_FETCH_SECONDS = 1800.0
_RUN_SECONDS = 120.0
_PROGRAMS = ("bin", "codex-path", "codex-resources")
"""Folders of a package whose files are programs; unpacking a wheel loses their executable bit."""
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Fetched:
    """One archive that was fetched and has its registry's hash."""

    package: str
    """``pypi:NAME`` or ``npm:NAME``."""
    version: str
    archive: Path
    integrity: str
    """In npm's form: the name of the hash, a hyphen, and the hash in base64."""


def fetch_codex(version: str, folder: Path, progress: Progress) -> Fetched:
    """Fetch the archive with the Codex binary, from PyPI, else from npm. Raises FetchFailed."""
    try:
        return _wheel(version, folder, progress)
    except FetchFailed as on_pypi:
        try:
            return _npm(CODEX_NPM, version, _platform_spec(version, progress), folder, progress)
        except FetchFailed as on_npm:
            raise FetchFailed(
                f"Codex {version} could not be fetched.\n"
                f"As {CODEX_WHEEL} from PyPI: {on_pypi}\nAs {CODEX_NPM} from npm: {on_npm}"
            ) from None


def fetch_acp(version: str, folder: Path, progress: Progress) -> Fetched:
    """Fetch the archive with ACP's schemas. Raises FetchFailed."""
    return _npm(ACP_NPM, version, f"{ACP_NPM}@{version}", folder, progress)


def npm_platform() -> str:
    """Return the name of this machine in npm's packages of Codex, such as ``linux-x64``."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{_MACHINES.get(machine, machine)}"


def _wheel(version: str, folder: Path, progress: Progress) -> Fetched:
    target = folder / "wheel"
    target.mkdir(parents=True)
    command = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", str(target), f"{CODEX_WHEEL}=={version}"]
    env = {**os.environ, "TMPDIR": str(folder)}  # pip downloads to it: the progress shows its size
    with progress.step(f"{CODEX_WHEEL} {version} from PyPI", "not there"):
        # pip itself compares the file with the hash of the index.
        run(command, progress, timeout=_FETCH_SECONDS, env=env, growing=folder)
        archive = _the_only(target, "*.whl")
    digest = base64.b64encode(hashlib.sha256(archive.read_bytes()).digest()).decode()
    return Fetched(f"pypi:{CODEX_WHEEL}", version, archive, f"sha256-{digest}")


def _platform_spec(version: str, progress: Progress) -> str:
    """Return name and version of this platform's package, which the main package lists."""
    key = f"{CODEX_NPM}-{npm_platform()}"
    with progress.step(f"which package of {CODEX_NPM} {version} is for {npm_platform()}"):
        found = _npm_view(f"{CODEX_NPM}@{version}", "optionalDependencies", progress)
        spec = found.get(key) if isinstance(found, dict) else None
        if not isinstance(spec, str):
            raise FetchFailed(f"{CODEX_NPM}@{version} names no package {key}")
        return spec.removeprefix("npm:")


def _npm(package: str, version: str, spec: str, folder: Path, progress: Progress) -> Fetched:
    target = folder / package.rpartition("/")[2]
    target.mkdir(parents=True)
    with progress.step(f"{spec} from npm"):
        wanted = _npm_view(spec, "dist.integrity", progress)
        command = ["npm", "pack", "--silent", "--pack-destination", str(target), spec]
        run(command, progress, timeout=_FETCH_SECONDS, growing=target)
        archive = _the_only(target, "*.tgz")
        if not isinstance(wanted, str) or not wanted:
            raise FetchFailed(f"npm gives no integrity for {spec}; without it nothing is taken")
        kind, _, expected = wanted.partition("-")
        found = base64.b64encode(hashlib.new(kind, archive.read_bytes()).digest()).decode()
        if found != expected:
            raise FetchFailed(f"{spec} has {kind}-{found}, but npm says {wanted}; fetch it again")
    return Fetched(f"npm:{package}", version, archive, wanted)


def _npm_view(spec: str, key: str, progress: Progress) -> Any:
    text = run(["npm", "view", "--json", spec, key], progress, timeout=_FETCH_SECONDS)
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        raise FetchFailed(f"npm view {spec} {key} printed no JSON: {text[:200]}") from None


def _the_only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise FetchFailed(f"expected one {pattern}, but {len(found)} came")
    return found[0]


# --- reading the archives ------------------------------------------------------------------------


def codex_bundles(fetched: Fetched, folder: Path, progress: Progress) -> dict[str, bytes]:
    """Let the binary write its two bundles; return their paths below ``schema/`` → bytes."""
    with progress.step("the binary out of its archive"):
        binary = unpack(fetched.archive, folder / "unpacked")
    home = folder / "codex-home"
    home.mkdir()
    env = {**os.environ, "CODEX_HOME": str(home)}
    said = run([str(binary), "--version"], progress, timeout=_RUN_SECONDS, env=env).split()
    if not said or said[-1] != fetched.version:
        msg = f"the binary of {fetched.package} {fetched.version} says it is {' '.join(said)!r}"
        raise FetchFailed(msg)
    files: dict[str, bytes] = {}
    for name, flags in (("experimental", ["--experimental"]), ("stable", [])):
        out = folder / name
        command = [str(binary), "app-server", "generate-json-schema", *flags, "--out", str(out)]
        with progress.step(f"codex {' '.join(command[1:-2])}"):
            run(command, progress, timeout=_RUN_SECONDS, env=env)
            files[f"codex/{name}.json"] = _read(out / BUNDLE)
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        msg = f"the binary wrote no {path.name}; does it still have generate-json-schema?"
        raise FetchFailed(msg) from None


def unpack(archive: Path, target: Path) -> Path:
    """Unpack a wheel or an archive of npm below ``target``; return the path of the binary."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                # Python 3.11.3 and earlier have no filters; the archive's hash was checked.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, shutil.Error) as error:
        msg = f"{archive.name} cannot be unpacked; it may be cut off: {error}"
        raise FetchFailed(msg) from None
    binary = find_binary(target)
    if archive.suffix == ".whl":
        _check_record(target, binary)
    for path in target.rglob("*"):
        if path.is_file() and any(part in _PROGRAMS for part in path.parts):
            path.chmod(path.stat().st_mode | 0o111)
    return binary


def find_binary(folder: Path) -> Path:
    """Return the one file ``…/bin/codex`` below ``folder``. Raises FetchFailed."""
    found = [*folder.rglob("bin/codex"), *folder.rglob("bin/codex.exe")]
    if len(found) != 1:
        msg = f"{folder} has {len(found)} files bin/codex; if it was kept, remove it and try again"
        raise FetchFailed(msg)
    return found[0]


def _check_record(wheel: Path, binary: Path) -> None:
    """Compare the binary with its hash in the wheel's RECORD. Raises FetchFailed."""
    record = next(wheel.glob("*.dist-info/RECORD"))
    rows = csv.reader(record.read_text().splitlines())
    name = binary.relative_to(wheel).as_posix()
    wanted = {row[0]: row[1] for row in rows if len(row) > 1}.get(name, "")
    found = base64.urlsafe_b64encode(hashlib.sha256(binary.read_bytes()).digest()).decode()
    if wanted != f"sha256={found.rstrip('=')}":
        raise FetchFailed(f"{name} does not match the wheel's RECORD")


def acp_schemas(fetched: Fetched) -> dict[str, bytes]:
    """Return path below ``schema/`` → bytes of ACP's schema files: two for each version."""
    names = {
        f"acp/{version}{our_suffix}.json": f"package/schema/{version}/schema{acp_suffix}.json"
        for version in ("v1", "v2")
        for our_suffix, acp_suffix in (("", ""), ("_unstable", ".unstable"))
    }
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fetched.archive) as tar:
            for key, name in names.items():
                member = tar.extractfile(name)
                files[key] = b"" if member is None else member.read()
    except (tarfile.TarError, EOFError, OSError, KeyError) as error:
        msg = f"{fetched.archive.name} has no schemas where they were, or is cut off: {error}"
        raise FetchFailed(msg) from None
    return files


def acp_command(version: str) -> str:
    """Return the command that makes the files of ACP, for ``PINNED.json``."""
    return (
        f"npm pack {ACP_NPM}@{version}; "
        "the files are schema.json and schema.unstable.json of package/schema/v1 and v2"
    )
