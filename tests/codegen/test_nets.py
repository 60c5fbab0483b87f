"""The three nets (contract 1.2): what is new or gone upstream fails regen, the import and mypy.

Each test edits a copy of the schema, regenerates a copy of the tree and looks at all three.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codegen import models, regen, render
from codegen.coverage import Missing
from codegen.pinned import ROOT

EXPERIMENTAL = "codex/experimental.json"
Schema = dict[str, Any]


@dataclass(frozen=True)
class Copy:
    """A copy of the schema and of src, regenerated."""

    root: Path

    def undecided(self) -> list[str]:
        return [str(problem) for problem in regen.undecided(self.root)]

    def imported(self) -> str:
        """Standard error of importing the routing and the refusals; empty when it works."""
        code = "import codex_acp.routing.table, codex_acp.codex.approvals.refusals"
        env = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        return done.stderr

    def type_errors(self, cache: Path, *files: str) -> str:
        files = files or (
            "routing/table.py",
            "codex/approvals/classify.py",
            "codex/approvals/grants.py",
            "codex/approvals/refusals.py",
        )
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--cache-dir", str(cache), "--no-error-summary"]
        command += [f"src/codex_acp/{file}" for file in files]
        env = {**os.environ, "MYPYPATH": str(self.root / "src")}
        done = subprocess.run(
            command, cwd=self.root, env=env, capture_output=True, text=True, check=False
        )
        return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy-cache")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all edits, so that mypy checks anew only what an edit changed."""
    root = tmp_path_factory.mktemp("nets")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", root / "src", ignore=ignore)
    shutil.copytree(ROOT / "schema", root / "schema")
    return root


def edited(root: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Schema], None]) -> Copy:
    """The copy after ``edit`` of the experimental bundle; only the Codex part is regenerated."""
    bundle = json.loads((ROOT / "schema" / EXPERIMENTAL).read_text())
    edit(bundle["definitions"])
    data = json.dumps(bundle).encode()
    (root / "schema" / EXPERIMENTAL).write_bytes(data)
    pins = (ROOT / "schema" / "PINNED.json").read_text()
    old = json.loads(pins)["sources"][0]["files"][EXPERIMENTAL]
    new = hashlib.sha256(data).hexdigest()
    (root / "schema" / "PINNED.json").write_text(pins.replace(old, new))
    monkeypatch.setattr(render, "acp_files", lambda _: {})
    for name, text in regen.format_all(regen.render_all(root / "schema")).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Copy(root)


def _member(definitions: Schema, union: str, method: str) -> Schema:
    for member in definitions[union]["oneOf"]:
        if member["properties"]["method"]["enum"] == [method]:
            found: Schema = member
            return found
    raise AssertionError(method)


def new_request(definitions: Schema) -> None:
    """A server request that nobody has seen."""
    member = copy.deepcopy(_member(definitions, "ServerRequest", "attestation/generate"))
    member["properties"]["method"]["enum"] = ["vault/open"]
    for kind in ("Params", "Response"):
        source = definitions[f"AttestationGenerate{kind}"]
        definitions[f"VaultOpen{kind}"] = {**source, "title": f"VaultOpen{kind}"}
    member["properties"]["params"] = {"$ref": "#/definitions/VaultOpenParams"}
    definitions["ServerRequest"]["oneOf"].append(member)


def removed_request(definitions: Schema) -> None:
    """A server request that is gone."""
    gone = _member(definitions, "ServerRequest", "currentTime/read")
    definitions["ServerRequest"]["oneOf"].remove(gone)


def new_mode(definitions: Schema) -> None:
    """A new mode of an MCP elicitation."""
    modes = definitions["McpServerElicitationRequestParams"]["oneOf"]
    mode = copy.deepcopy(next(m for m in modes if m["properties"]["mode"]["enum"] == ["url"]))
    mode["properties"]["mode"]["enum"] = ["hologram"]
    modes.append(mode)


def new_kind(definitions: Schema) -> None:
    """A new kind of a command approval."""
    kinds = definitions["CommandExecutionApprovalKind"]["oneOf"]
    kinds.append({"enum": ["robotCommand"], "type": "string"})


def new_decision(definitions: Schema) -> None:
    """A new decision on a command."""
    decisions = definitions["CommandExecutionApprovalDecision"]["oneOf"]
    decisions.append({"enum": ["acceptTomorrow"], "type": "string"})


EDITS = [
    (new_request, ["vault/open is UNROUTED", "case VaultOpen():"], "add a row for 'vault/open'"),
    (removed_request, ["currentTime/read is gone"], "cannot import name 'CurrentTimeRead'"),
    (new_mode, ["ELICITATION_MODES: the value hologram"], "add a row for 'hologram'"),
    (new_kind, ["COMMAND_KINDS: the value robotCommand", 'case "robotCommand":'], "'robotCommand'"),
    (new_decision, ["COMMAND_DECISIONS: the value acceptTomorrow"], "a row for 'acceptTomorrow'"),
]

TYPE_ERRORS = [
    ("refusals.py", 'Missing key "vault/open"'),
    ("refusals.py", 'Extra key "currentTime/read"'),
    ("classify.py", 'no attribute "CurrentTimeRead"'),
    ("classify.py", '"VaultOpen"; expected "Never"'),
    ("classify.py", "Literal['robotCommand']"),
    ("classify.py", '"HologramMcpServerElicitationRequestParams"; expected "Never"'),
    ("grants.py", "Literal['acceptTomorrow']"),
    ("table.py", "'currentTime/read'"),
]
"""(file, what mypy says of it) for each of the edits."""


@pytest.mark.parametrize(("edit", "said", "row"), EDITS, ids=[e.__name__ for e, _, _ in EDITS])
def test_1_2_what_moves_upstream_is_named_by_regen_and_stops_the_import(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Schema], None],
    said: list[str],
    row: str,
) -> None:
    result = edited(tree, monkeypatch, edit)
    undecided = result.undecided()
    for words in said:
        assert any(words in problem for problem in undecided), undecided
    assert all("src/codex_acp/" in problem for problem in undecided)
    assert row in result.imported()


def test_1_2_what_moves_upstream_fails_the_type_check(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All edits at once: mypy takes longer than all the rest of these tests."""

    def all_of_them(definitions: Schema) -> None:
        for edit, _, _ in EDITS:
            edit(definitions)

    errors = edited(tree, monkeypatch, all_of_them).type_errors(cache)
    for file, words in TYPE_ERRORS:
        assert any(file in line and words in line for line in errors.splitlines()), (file, words)


def test_what_regen_prints_can_be_pasted_as_it_stands(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to add then, the code imports, and lint asks at most for another order."""
    result = edited(tree, monkeypatch, new_request)
    found = sorted(regen.undecided(tree), key=lambda m: (m.path, -m.line))
    before = {path: path.read_text() for path in {tree / missing.path for missing in found}}
    try:
        for missing in found:
            _paste(tree / missing.path, missing)
        assert (result.undecided(), result.imported()) == ([], "")
        command = ["check", "--no-cache", "--ignore", "I", "--config", str(ROOT / "pyproject.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *map(str, before)],
            cwd=tree, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    finally:
        for path, text in before.items():
            path.write_text(text)


def _paste(path: Path, missing: Missing) -> None:
    """What the hint says, by its words alone."""
    lines = path.read_text().splitlines(keepends=True)
    lines.insert(missing.line - 1, f"{missing.paste}\n")
    above = re.search(r"and above `(.*?)`", missing.text)
    if above:
        first = next(n for n, line in enumerate(lines) if line.startswith("from codex_acp"))
        lines.insert(first, f"{above[1]}\n")
    path.write_text("".join(lines))


def test_the_nets_are_quiet_for_the_schema_as_it_is(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = edited(tree, monkeypatch, lambda _: None)
    assert (result.undecided(), result.imported(), result.type_errors(cache)) == ([], "", "")


def test_a_crash_in_the_middle_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = regen.current_files()
    monkeypatch.setattr(models, "_run", lambda _: "")
    with pytest.raises(Exception, match="dropped"):
        regen.regenerate()
    assert regen.current_files() == before


def test_a_new_kind_of_event_fails_mypy_in_the_rendering_of_each_version(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of_it = edited(tree, monkeypatch, lambda _: None)
    events = tree / "src/codex_acp/mapping/events/session_events.py"
    before = events.read_text("utf-8")
    more = before.replace("    | StateChanged\n)", "    | StateChanged\n    | PlanStep\n)")
    assert more != before
    renderings = ("mapping/v1/updates.py", "mapping/v2/updates.py")
    try:
        events.write_text(more, "utf-8")
        found = copy_of_it.type_errors(cache, *renderings)
    finally:
        events.write_text(before, "utf-8")

    for rendering in renderings:
        assert re.search(rf'{rendering}:\d+: error: .*"assert_never".*"PlanStep"', found), found
