"""``python -m codegen.refresh --codex V --acp V``: fetch new packages, and vendor their schemas.

Only this step fetches anything or runs a Codex binary. Builds the new ``schema/`` beside the old
one, checks and compares it, and only then puts it in place: a failure before leaves everything as
it was. The bundle of the replaced Codex version goes below ``schema/codex/older``, so that its
messages stay readable. Exit codes: those of ``codegen.drift``; 2 if something failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.bundles import ACP_FILES, CODEX_FILES, OLDER, SchemaFiles, pack, parse, read_schema_set
from codegen.drift import report
from codegen.drift_model import Report, Verdict
from codegen.drift_render import terminal, write_report
from codegen.errors import CodegenError
from codegen.fetch import (
    ACP_NPM,
    CODEX_COMMAND,
    Fetched,
    acp_command,
    acp_schemas,
    codex_bundles,
    fetch_acp,
    fetch_codex,
)
from codegen.pinned import ROOT, read_pins, version_key
from codegen.progress import Progress
from codegen.swap import restore, swap

Source = dict[str, Any]
"""One entry of ``PINNED.json``."""


NEXT = {
    Verdict.NOTHING: "schema/ says what it said before (exit code 0)",
    Verdict.COMPATIBLE: "schema/ is the new one, and nothing in it needs a decision (exit code 3); "
    "now: nox -s regen",
    Verdict.DECISION: "schema/ is the new one, and somebody has to decide what becomes of what is "
    "new (exit code 4: that is no failure); now: nox -s regen, which prints each line to add",
}
"""Verdict → the next step, for a person."""

PACKED_COMMAND = f"{CODEX_COMMAND}; both packed by codegen.bundles"


@dataclass(frozen=True)
class Wanted:
    """The versions to fetch; None leaves a product as it is."""

    codex: str | None = None
    acp: str | None = None
    older: tuple[str, ...] = ()
    """Versions of Codex whose bundles are added below ``schema/codex/older``."""
    oldest: str | None = None
    """Bundles of Codex versions before this one are dropped."""


def refresh(wanted: Wanted, root: Path, progress: Progress) -> Report:
    """Put new schemas in place; return the changes. Raises CodegenError; then nothing changed."""
    schema = root / "schema"
    restore(schema)
    with tempfile.TemporaryDirectory(prefix=".schema-", dir=root) as name:
        work = Path(name)
        new = work / "schema"
        shutil.copytree(schema, new)
        before: list[Source] = json.loads((schema / "PINNED.json").read_text())["sources"]
        sources = before
        if wanted.codex is not None:
            sources = _refresh_codex(wanted.codex, schema, new, sources, work, progress)
        for version in wanted.older:
            sources = _add_older(version, new, sources, work, progress)
        if wanted.acp is not None:
            sources = _refresh_acp(wanted.acp, new, sources, work, progress)
        sources = _without_oldest(sources, wanted.oldest)
        _write_pins(new, sources)
        with progress.step("the new schemas, checked and compared"):
            _check(new)
            found = report(schema, new, root)
        if sources == before:  # the entries have the hashes of all files
            return found
        with progress.step("schema/ put in place"):
            swap(new, schema)
    write_report(root / "CHANGELOG.md", found)
    return found


def _refresh_codex(
    version: str, old: Path, new: Path, sources: list[Source], work: Path, progress: Progress
) -> list[Source]:
    """Fetch the bundles of a Codex version; return the sources with their entry."""
    fetched = fetch_codex(version, _folder(work, "codex"), progress)
    files = codex_bundles(fetched, _folder(work, "run"), progress)
    replaced = next(s for s in sources if CODEX_FILES[0] in s["files"])
    acp = [s for s in sources if any(key.startswith("acp/") for key in s["files"])]
    # An older bundle of this version is not needed any more.
    kept = [s for s in sources if s is replaced or s["version"] != version or s in acp]
    if replaced["version"] != version:
        current = read_schema_set(old)
        bundles = {key: current.files[key] for key in CODEX_FILES}
        data = pack(SchemaFiles({"codex": replaced["version"]}, bundles))
        kept.append(_older_entry(replaced, data, new))
    entry = _entry(fetched, CODEX_COMMAND, files)
    _write_files(new, files)
    return _with_entry(replaced, entry, kept)


def _add_older(
    version: str, new: Path, sources: list[Source], work: Path, progress: Progress
) -> list[Source]:
    """Add the packed bundle of an old version, or replace it."""
    fetched, data = packed_codex(version, _folder(work, f"older-{version}"), progress)
    source = {"package": fetched.package, "version": version, "integrity": fetched.integrity}
    entry = _older_entry(source, data, new)
    return [*(s for s in sources if s["files"].keys().isdisjoint(entry["files"])), entry]


def _older_entry(source: Source, data: bytes, new: Path) -> Source:
    """Write the packed bundle of an older version; return its entry."""
    key = f"{OLDER}{source['version']}.json.xz"
    _write_files(new, {key: data})
    files = {key: hashlib.sha256(data).hexdigest()}
    return {**source, "command": PACKED_COMMAND, "files": files}


def packed_codex(version: str, work: Path, progress: Progress) -> tuple[Fetched, bytes]:
    """Fetch both bundles of one Codex version; pack them into one file. Raises CodegenError."""
    fetched = fetch_codex(version, _folder(work, "codex"), progress)
    files = codex_bundles(fetched, _folder(work, "run"), progress)
    parsed = {key: parse(data, key) for key, data in files.items()}
    return fetched, pack(SchemaFiles({"codex": version}, parsed))


def _refresh_acp(
    version: str, new: Path, sources: list[Source], work: Path, progress: Progress
) -> list[Source]:
    fetched = fetch_acp(version, _folder(work, "acp"), progress)
    files = acp_schemas(fetched)
    _write_files(new, files)
    replaced = next((s for s in sources if ACP_FILES[0] in s["files"]), None)
    return _with_entry(replaced, _entry(fetched, acp_command(version), files), sources)


def _with_entry(replaced: Source | None, entry: Source, sources: list[Source]) -> list[Source]:
    """Put the new entry in the place of ``replaced``. If both have the same files, keep the old
    one: it may name another platform's archive, or another registry."""
    if replaced is None:
        return [*sources, entry]
    is_same = all(replaced[key] == entry[key] for key in ("version", "files"))
    return [s if s is not replaced or is_same else entry for s in sources]


def _without_oldest(sources: list[Source], oldest: str | None) -> list[Source]:
    if oldest is None:
        return sources
    return [
        s
        for s in sources
        if not all(key.startswith(OLDER) for key in s["files"])
        or version_key(s["version"]) >= version_key(oldest)
    ]


def _entry(fetched: Fetched, command: str, files: dict[str, bytes]) -> Source:
    for key, data in files.items():
        parse(data, key)
    return {
        "package": fetched.package,
        "version": fetched.version,
        "integrity": fetched.integrity,
        "command": command,
        "files": {key: hashlib.sha256(data).hexdigest() for key, data in files.items()},
    }


def _folder(work: Path, name: str) -> Path:
    path = work / name
    path.mkdir()
    return path


def _write_files(schema: Path, files: dict[str, bytes]) -> None:
    for key, data in files.items():
        path = schema / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _write_pins(schema: Path, sources: list[Source]) -> None:
    pinned = {key for source in sources for key in source["files"]}
    for path in schema.rglob("*.xz"):
        if path.relative_to(schema).as_posix() not in pinned:
            path.unlink()
    (schema / "PINNED.json").write_text(json.dumps({"sources": sources}, indent=2) + "\n")


def _check(schema: Path) -> None:
    """Raise CodegenError if a pinned file is missing, differs from its pin, or is not complete."""
    for key, pin in read_pins(schema).items():
        pin.load(schema)
        if key.startswith(OLDER):
            read_schema_set(schema / key)
        else:
            parse((schema / key).read_bytes(), key)


def main(arguments: Sequence[str] | None = None) -> int:
    """Refresh and print the drift report; return the report's verdict, or 2 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m codegen.refresh", description=__doc__)
    parser.add_argument("--codex", metavar="VERSION", help="of Codex, such as 0.169.0")
    parser.add_argument(
        "--older", metavar="VERSION", action="append", default=[], help="keep it readable, too"
    )
    parser.add_argument("--acp", metavar="VERSION", help=f"of {ACP_NPM}")
    parser.add_argument("--oldest", metavar="VERSION", help="the oldest Codex that stays readable")
    args = parser.parse_args(arguments)
    if not (args.codex or args.acp or args.older or args.oldest):
        parser.error("name at least one of --codex, --acp, --older and --oldest")
    wanted = Wanted(args.codex, args.acp, tuple(args.older), args.oldest)
    try:
        found = refresh(wanted, ROOT, Progress())
    except (CodegenError, OSError) as error:
        print(f"refresh: {type(error).__name__}: {error}", file=sys.stderr)
        print("schema/ is as it was", file=sys.stderr)
        return 2
    sys.stdout.write(terminal(found))
    print(NEXT[found.verdict], file=sys.stderr)
    return int(found.verdict)


if __name__ == "__main__":
    sys.exit(main())
