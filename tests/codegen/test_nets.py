"""The three nets (contract 1.2): what is new or gone upstream fails regen, the import and mypy.

The schema is edited in a copy, and a copy of the tree is regenerated. All edits are made at once,
and once all but the one that stops an import before the others are seen: to regenerate takes longer
than all the rest.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from codegen import models, regen, render
from codegen.coverage import Missing
from codegen.pinned import ROOT

EXPERIMENTAL = "codex/experimental.json"
Schema = dict[str, Any]
Edit: TypeAlias = Callable[[Schema], None]


IMPORT = """
import sys
from codex_acp.wire import registry
def told(*table):
    try:
        require_rows(*table)
    except Exception as error:
        print(error, file=sys.stderr)
require_rows = registry.require_rows
registry.require_rows = told if sys.argv[1:] else require_rows
import codex_acp.routing.table, codex_acp.codex.approvals.refusals
"""
"""With an argument each table says what it lacks; the first that lacks a row ends it without."""


class Tree:
    """A copy of the schema and of src: as it is, or regenerated from the schema after edits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "schema", root / "schema")
        self._of_the_edits: list[Path] = []

    def after(self, *edits: Edit) -> Tree:
        """Itself, as if somebody had made these edits; only the Codex part is regenerated."""
        for path in self._of_the_edits:
            path.unlink()
            original = ROOT / path.relative_to(self.root)
            if original.exists():
                shutil.copy2(original, path)
        self._of_the_edits = []
        for name, text in _after(edits).items():
            path = self.root / name
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                self._of_the_edits.append(path)
        return self

    def undecided(self) -> list[str]:
        return [str(problem) for problem in regen.undecided(self.root)]

    def imported(self, *all_tables: str) -> str:
        """Standard error of importing the routing and the refusals; empty when it works."""
        env = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        command = [sys.executable, "-c", IMPORT, *all_tables]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
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


@functools.cache
def _after(edits: tuple[Edit, ...]) -> dict[str, str]:
    """Path → text of what differs from the checkout."""
    if not edits:
        return {}
    bundle = json.loads((ROOT / "schema" / EXPERIMENTAL).read_text())
    for edit in edits:
        edit(bundle["definitions"])
    text = json.dumps(bundle)
    pins = (ROOT / "schema" / "PINNED.json").read_text()
    old = json.loads(pins)["sources"][0]["files"][EXPERIMENTAL]
    pins = pins.replace(old, hashlib.sha256(text.encode()).hexdigest())
    schema = {f"schema/{EXPERIMENTAL}": text, "schema/PINNED.json": pins}
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        shutil.copytree(ROOT / "schema", Path(place) / "schema")
        for name, changed in schema.items():
            (Path(place) / name).write_text(changed)
        patch.setattr(render, "acp_files", lambda _: {})
        return schema | regen.format_all(regen.render_all(Path(place) / "schema"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy-cache")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """One folder for all edits, so that mypy checks anew only what an edit changed."""
    return Tree(tmp_path_factory.mktemp("nets"))


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


NEW = (new_request, new_mode, new_kind, new_decision)
EDITS = (*NEW, removed_request)

UNDECIDED = [
    "vault/open is UNROUTED", "case VaultOpen():", "currentTime/read is gone",
    "ELICITATION_MODES: the value hologram", "COMMAND_KINDS: the value robotCommand",
    'case "robotCommand":', "COMMAND_DECISIONS: the value acceptTomorrow",
]  # fmt: skip
"""What regen says of the edits."""

ROWS = ["'vault/open'", "'hologram'", "'robotCommand'", "'acceptTomorrow'"]
"""What the tables say of what is new, when they are imported."""

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


def test_the_nets_are_quiet_for_the_schema_as_it_is(tree: Tree, cache: Path) -> None:
    as_it_is = tree.after()
    assert (as_it_is.undecided(), as_it_is.imported()) == ([], "")
    assert as_it_is.type_errors(cache) == ""


def test_a_new_kind_of_event_fails_mypy_in_the_rendering_of_each_version(
    tree: Tree, cache: Path
) -> None:
    events = tree.after().root / "src/codex_acp/mapping/events/session_events.py"
    before = events.read_text("utf-8")
    more = before.replace("    | StateChanged\n", "    | StateChanged\n    | PlanStep\n")
    assert more != before
    renderings = ("mapping/v1/updates.py", "mapping/v2/updates.py")
    try:
        events.write_text(more, "utf-8")
        found = tree.type_errors(cache, *renderings)
    finally:
        events.write_text(before, "utf-8")

    for rendering in renderings:
        assert re.search(rf'{rendering}:\d+: error: .*"assert_never".*"PlanStep"', found), found


def test_1_2_what_moves_upstream_is_named_by_regen(tree: Tree) -> None:
    undecided = tree.after(*EDITS).undecided()
    for words in UNDECIDED:
        assert any(words in problem for problem in undecided), undecided
    assert all("src/codex_acp/" in problem for problem in undecided)


def test_1_2_what_is_gone_upstream_stops_the_import(tree: Tree) -> None:
    assert "cannot import name 'CurrentTimeRead'" in tree.after(*EDITS).imported()


def test_1_2_what_moves_upstream_fails_the_type_check(tree: Tree, cache: Path) -> None:
    errors = tree.after(*EDITS).type_errors(cache)
    for file, words in TYPE_ERRORS:
        assert any(file in line and words in line for line in errors.splitlines()), (file, words)


def test_1_2_what_is_new_upstream_stops_the_import(tree: Tree) -> None:
    assert "IncompleteTable" in tree.after(*NEW).imported()
    said = tree.imported("all tables")
    for row in ROWS:
        assert re.search(rf"does not match the schema: add a row for .*{row}", said), said


def test_what_regen_prints_can_be_pasted_as_it_stands(tree: Tree) -> None:
    """Nothing is left to add then, the code imports, and lint asks at most for another order."""
    tree.after(*NEW)
    hints: dict[Path, list[Missing]] = {}
    for missing in regen.undecided(tree.root):
        hints.setdefault(tree.root / missing.path, []).append(missing)
    before = {path: path.read_text() for path in hints}
    try:
        for path, of_it in hints.items():
            _paste(path, of_it)
        assert (tree.undecided(), tree.imported()) == ([], "")
        command = ["check", "--no-cache", "--ignore", "I", "--config", str(ROOT / "pyproject.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *map(str, before)],
            cwd=tree.root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    finally:
        for path, text in before.items():
            path.write_text(text)


def _paste(path: Path, hints: list[Missing]) -> None:
    """What the hints say, by their words alone; from the end, so that their lines stay right."""
    lines = path.read_text().splitlines(keepends=True)
    for missing in sorted(hints, key=lambda hint: -hint.line):
        lines.insert(missing.line - 1, f"{missing.paste}\n")
    for above in re.findall(r"and above `(.*?)`", "".join(hint.text for hint in hints)):
        first = next(n for n, line in enumerate(lines) if line.startswith("from codex_acp"))
        lines.insert(first, f"{above}\n")
    path.write_text("".join(lines))


def test_a_crash_in_the_middle_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = regen.current_files()
    monkeypatch.setattr(models, "_run", lambda _: "")
    with pytest.raises(Exception, match="dropped"):
        regen.regenerate()
    assert regen.current_files() == before
