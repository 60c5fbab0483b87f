"""Regenerate everything, offline: verify the pins, render, format, then write or compare."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from codegen import acp, codex, render
from codegen.bundles import ACP_FILES, ACP_SCHEMAS, ACP_V1, EXPERIMENTAL, OLDER, STABLE
from codegen.coverage import Missing, missing
from codegen.errors import CodegenError
from codegen.fitting import check_schemas
from codegen.ir import Protocol
from codegen.older import readable
from codegen.overrides.layout import ACP_HOT, CODEX_HOT
from codegen.pinned import ROOT, SCHEMA_DIR, PinnedFile, read_pins, version_key

ACP_TITLES = {
    "v1": "the Agent Client Protocol, version 1",
    "v2": "the Agent Client Protocol, version 2 (a draft)",
}

GENERATED_DIRS = (
    "src/codex_acp/codex/_generated",
    "src/codex_acp/acp/_generated",
    "src/codex_acp/mapping/_generated",
    "src/codex_acp/routing/_generated",
)
"""Folders that hold generated files and nothing else."""

_IMPORT = """
import codex_acp.mapping.notifications
from codegen.true_rows import require_true
require_true()
"""


def _versions_file(pins: dict[str, PinnedFile], keys: tuple[str, ...], head: str) -> str:
    lines = [head, '"""Which schema the generated files come from."""', ""]
    pin = pins[keys[0]]
    lines.append(f'SCHEMA_PACKAGE = "{pin.package}"')
    lines.append(f'SCHEMA_VERSION = "{pin.version}"')
    lines.append("SCHEMA_SHA256 = {")
    lines += [f'    "{key}": "{pins[key].sha256}",' for key in keys]
    lines.append("}")
    if keys[0] == EXPERIMENTAL:
        oldest = [pins[key].version for key in older_keys(pins)][:1] or [pin.version]
        lines.append(f'OLDEST_VERSION = "{oldest[0]}"')
        lines.append('"""The oldest version whose messages these models read."""')
    return "\n".join(lines) + "\n"


def load_codex(schema_dir: Path = SCHEMA_DIR) -> Protocol:
    """Return the protocol of the pinned Codex bundles, extended for older versions."""
    pins = read_pins(schema_dir)
    bundles = [pins[f"codex/{n}.json"].load(schema_dir) for n in ("experimental", "stable")]
    older, used = older_protocols(schema_dir)
    return readable(codex.load(*bundles, used=used), older)


def older_protocols(schema_dir: Path = SCHEMA_DIR) -> tuple[dict[str, Protocol], set[str]]:
    """Return version → protocol of each pinned bundle of an older Codex, oldest first; and the
    overrides of names that these bundles use."""
    pins = read_pins(schema_dir)
    older: dict[str, Protocol] = {}
    used: set[str] = set()
    for key in older_keys(pins):
        files = pins[key].load(schema_dir)["files"]
        both = (files[EXPERIMENTAL], files[STABLE])
        older[pins[key].version] = codex.load(*both, strict=False, used=used)
    return older, used


def older_keys(pins: dict[str, PinnedFile]) -> list[str]:
    """Return the pinned bundles of older Codex versions, oldest first."""
    keys = [key for key in pins if key.startswith(OLDER)]
    return sorted(keys, key=lambda key: version_key(pins[key].version))


def load_acp(schema_dir: Path = SCHEMA_DIR) -> dict[str, Protocol]:
    """Return the protocols of the pinned ACP files, by version."""
    pins = read_pins(schema_dir)
    files = {key: pins[key].load(schema_dir) for key in ACP_FILES}
    return {
        name: acp.load(name, files[unstable], files[stable])
        for name, (unstable, stable) in ACP_SCHEMAS.items()
    }


def undecided(root: Path = ROOT) -> list[Missing]:
    """Return the decisions that handwritten code lacks for the vendored schemas."""
    schema = root / "schema"
    return missing(load_codex(schema), root, load_acp(schema))


def impossible(root: Path = ROOT) -> str:
    """Return the last line of the error if the tables do not import or are wrong; else empty."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    command = [sys.executable, "-P", "-c", _IMPORT]  # -P: import from ``root``, not from here
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2]


def render_all(schema_dir: Path = SCHEMA_DIR) -> dict[str, str]:
    """Return path → unformatted text of every generated file."""
    pins = read_pins(schema_dir)

    def head(key: str) -> str:
        return render.header(key, pins[key].sha256)

    files = render.codex_files(
        render.Target(
            load_codex(schema_dir),
            "codex_acp.codex._generated",
            "the Codex app-server protocol",
            CODEX_HOT,
            head(EXPERIMENTAL),
        )
    )
    for name, protocol in load_acp(schema_dir).items():
        unstable, _ = ACP_SCHEMAS[name]
        files |= render.acp_files(
            render.Target(
                protocol,
                f"codex_acp.acp._generated.{name}",
                ACP_TITLES[name],
                ACP_HOT,
                head(unstable),
            )
        )
    files["src/codex_acp/codex/_generated/version.py"] = _versions_file(
        pins, (EXPERIMENTAL, STABLE), head(EXPERIMENTAL)
    )
    files["src/codex_acp/acp/_generated/version.py"] = _versions_file(pins, ACP_FILES, head(ACP_V1))
    for package in sorted({str(Path(p).parent) for p in files}):
        first = head(_source_of(package))
        files.setdefault(f"{package}/__init__.py", f'{first}\n"""Generated; see its modules."""\n')
    check_schemas(files)
    return files


def _source_of(package: str) -> str:
    """Return the schema of the generated files in a folder."""
    if "/acp/" not in package:
        return EXPERIMENTAL
    versions = [key for name, (key, _) in ACP_SCHEMAS.items() if name in package.split("/")]
    return versions[0] if versions else ACP_V1


def format_all(files: dict[str, str]) -> dict[str, str]:
    """Let ruff sort the imports and format the files, with the project's settings."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        config = str(ROOT / "pyproject.toml")
        for command in (
            ["check", "--select", "I,F401", "--fix", "--exit-zero", "--quiet", "--unsafe-fixes"],
            ["format", "--quiet"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", config, folder],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                msg = f"ruff {command[0]} failed on generated code:\n{done.stdout}{done.stderr}"
                raise CodegenError(msg)
        return {name: (root / name).read_text() for name in files}


def current_files(root: Path = ROOT) -> dict[str, str]:
    """Return path → text of every file that is in the generated folders now."""
    found: dict[str, str] = {}
    for folder in GENERATED_DIRS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found[path.relative_to(root).as_posix()] = path.read_text()
    return found


def regenerate(root: Path = ROOT) -> tuple[int, int]:
    """Write changed files and delete stale ones; return how many were written and deleted."""
    generated = format_all(render_all(root / "schema"))
    present = current_files(root)
    changed = [n for n, text in generated.items() if present.get(n) != text]
    for name in changed:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generated[name])
    stale = sorted(present.keys() - generated.keys())
    for name in stale:
        (root / name).unlink()
    return len(changed), len(stale)


def differences(generated: dict[str, str], present: dict[str, str]) -> list[str]:
    """Return a unified diff for each file that is missing, superfluous or different."""
    diffs = []
    for name in sorted(generated.keys() | present.keys()):
        before, after = present.get(name), generated.get(name)
        if before == after:
            continue
        diff = difflib.unified_diff(
            (before or "").splitlines(keepends=True), (after or "").splitlines(keepends=True),
            f"tree/{name}" if before is not None else "missing",
            f"generated/{name}" if after is not None else "no longer generated",
        )  # fmt: skip
        diffs.append("".join(diff) or f"{name}: an empty file is missing or superfluous\n")
    return diffs


def check(root: Path = ROOT) -> list[str]:
    """Return the diffs that regenerating would make; write nothing."""
    return differences(format_all(render_all(root / "schema")), current_files(root))
