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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from codegen import models, regen, render
from codegen.coverage import Missing
from codegen.ir import Protocol
from codegen.pinned import ROOT
from codex_acp.errors import IncompleteTable
from codex_acp.routing._generated.rows import FIELD_TYPES
from codex_acp.routing.rows import SentDecision, require_possible
from codex_acp.routing.table import TABLES
from tests.support.planted_rows import Planted, planted

EXPERIMENTAL = "codex/experimental.json"
Schema = dict[str, Any]
Edit: TypeAlias = Callable[[Schema], None]
OLDER_PROTOCOLS = regen.older_protocols

TABLE_FILES = (
    "routing/table.py", "codex/approvals/classify.py", "codex/approvals/grants.py",
    "codex/approvals/refusals.py",
)  # fmt: skip
"""Where a change of the schema has to be decided."""

RENDERINGS = ("mapping/v1/updates.py", "mapping/v2/updates.py")

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
        for folder in ("src", "tests", "codegen", "schema"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
        shutil.copy2(ROOT / "pyproject.toml", root)
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
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--cache-dir", str(cache), "--no-error-summary"]
        command += [f"src/codex_acp/{file}" for file in files or TABLE_FILES]
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
        if removed_request in edits:
            patch.setattr(regen, "older_protocols", _nor_does_an_older_one_send_it)
        return schema | regen.format_all(regen.render_all(Path(place) / "schema"))


def _nor_does_an_older_one_send_it(folder: Path) -> tuple[dict[str, Protocol], set[str]]:
    """Return the older protocols without the removed request: with it, it would stay known."""
    older, used = OLDER_PROTOCOLS(folder)
    direction = "server_requests"
    for version, protocol in older.items():
        left = tuple(
            m for m in protocol.methods[direction] if m.wire != "account/chatgptAuthTokens/refresh"
        )
        older[version] = replace(protocol, methods={**protocol.methods, direction: left})
    return older, used


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
    gone = _member(definitions, "ServerRequest", "account/chatgptAuthTokens/refresh")
    definitions["ServerRequest"]["oneOf"].remove(gone)


def new_mode(definitions: Schema) -> None:
    """A new mode of an MCP elicitation."""
    modes = definitions["McpServerElicitationRequestParams"]["oneOf"]
    mode = copy.deepcopy(next(m for m in modes if m["properties"]["mode"]["enum"] == ["url"]))
    mode["properties"]["mode"]["enum"] = ["iris"]
    modes.append(mode)


def new_kind(definitions: Schema) -> None:
    """A new kind of a command approval."""
    kinds = definitions["CommandExecutionApprovalKind"]["oneOf"]
    kinds.append({"enum": ["robotCommand"], "type": "string"})


def new_decision(definitions: Schema) -> None:
    """A new decision on a command."""
    decisions = definitions["CommandExecutionApprovalDecision"]["oneOf"]
    decisions.append({"enum": ["acceptTomorrow"], "type": "string"})


def _request_like(wire: str, params: Schema, result: Schema) -> Edit:
    """A new server request of a shape."""

    def edit(definitions: Schema) -> None:
        new_request(definitions)
        member = definitions["ServerRequest"]["oneOf"][-1]
        member["properties"]["method"]["enum"] = [wire]
        name = "".join(part[0].upper() + part[1:] for part in wire.split("/"))
        for kind, properties in (("Params", params), ("Response", result)):
            definitions[f"{name}{kind}"] = {
                "title": f"{name}{kind}", "type": "object", "properties": properties,
                "required": sorted(properties),
            }  # fmt: skip
        member["properties"]["params"] = {"$ref": f"#/definitions/{name}Params"}

    return edit


def _text(*names: str) -> Schema:
    return {name: {"type": "string"} for name in names}


def _known(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


approval_like = _request_like(
    "vault/requestApproval",
    {**_text("threadId", "turnId", "itemId"), "startedAtMs": {"type": "integer"}},
    {"decision": _known("FileChangeApprovalDecision")},
)
elicitation_like = _request_like(
    "vault/ask",
    {**_text("threadId", "message"), "parts": {"type": "array", "items": {"type": "string"}}},
    {"action": _known("McpServerElicitationAction"), "content": {"type": "object"}},
)

NEW = (new_request, approval_like, elicitation_like, new_mode, new_kind, new_decision)
EDITS = (*NEW, removed_request)

UNDECIDED = [
    "vault/open is UNROUTED", "case VaultOpen():", "account/chatgptAuthTokens/refresh is gone",
    "ELICITATION_MODES: the value iris", "COMMAND_KINDS: the value robotCommand",
    'case "robotCommand":', "COMMAND_DECISIONS: the value acceptTomorrow",
]  # fmt: skip
"""What regen says of the edits."""

ROWS = ["'vault/open'", "'iris'", "'robotCommand'", "'acceptTomorrow'"]
"""What the tables say of what is new, when they are imported."""

TYPE_ERRORS = [
    ("refusals.py", "Missing key", '"vault/open"'),
    ("refusals.py", "Extra key", '"account/chatgptAuthTokens/refresh"'),
    ("classify.py", 'no attribute "AccountChatgptAuthTokensRefresh"'),
    ("classify.py", "VaultOpen", 'expected "Never"'),
    ("classify.py", "Literal['robotCommand']"),
    ("classify.py", '"IrisMcpServerElicitationRequestParams"; expected "Never"'),
    ("grants.py", "Literal['acceptTomorrow']"),
    ("table.py", "Missing key", '"vault/open"'),
    ("table.py", "Extra key", '"account/chatgptAuthTokens/refresh"'),
    ("table.py", "Missing key", '"iris"'),
    ("table.py", "Missing key", '"robotCommand"'),
    ("table.py", "Missing key", '"acceptTomorrow"'),
]
"""(file, words of one line that mypy says of it) for each of the edits."""


PLANTED = """
from __future__ import annotations
from codex_acp.codex._generated import models
from codex_acp.codex._generated.server_requests import *
from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals.grants import Always, Once, RememberHost, RememberPrefix, Session
from codex_acp.routing._generated.rows import Becomes, BecomesInMode, Elicits
from codex_acp.routing.rows import Row, SentDecision
""".strip()

IMPOSSIBLE = 'approval=(classes.McpToolApproval,), why="A proof'


@dataclass(frozen=True)
class Faults:
    """The tree as it is, with two faults planted beside it: what mypy says, in one run for all."""

    quiet: str
    """Errors of the tables, which are as they are."""
    renderings: str
    """Errors of both renderings, for an event of one more kind."""
    rows: frozenset[int]
    """The planted rows that have an error, by number."""


@pytest.fixture(scope="module")
def faults(tree: Tree, cache: Path) -> Faults:
    source = tree.after().root / "src/codex_acp"
    events, rows = source / "mapping/events.py", source / "routing/planted.py"
    before = events.read_text("utf-8")
    more = before.replace("    | StateChanged\n", "    | StateChanged\n    | PlanStep\n")
    assert more != before
    lines = [f"row_{n}: {_type_of(each)} = {each.text}" for n, each in enumerate(planted())]
    try:
        events.write_text(more, "utf-8")
        rows.write_text("\n".join([PLANTED, *lines]) + "\n")
        found = tree.type_errors(cache, *TABLE_FILES, "routing/planted.py", *RENDERINGS)
    finally:
        events.write_text(before, "utf-8")
        rows.unlink()
    of = {"planted": "", "updates": "", "": ""}
    for line in found.splitlines(keepends=True):
        of[next(name for name in of if name in line.partition(":")[0])] += line
    first = len(PLANTED.splitlines()) + 1
    flagged = {int(n) - first for n in re.findall(r"planted.py:(\d+): error", of["planted"])}
    return Faults(of[""], of["updates"], frozenset(flagged))


def test_the_nets_are_quiet_for_the_schema_as_it_is(tree: Tree, faults: Faults) -> None:
    as_it_is = tree.after()
    assert (as_it_is.undecided(), as_it_is.imported(), faults.quiet) == ([], "", "")


def test_a_new_kind_of_event_fails_mypy_in_the_rendering_of_each_version(faults: Faults) -> None:
    for file in RENDERINGS:
        expected = rf'{file}:\d+: error: .*"assert_never".*"PlanStep"'
        assert re.search(expected, faults.renderings), faults.renderings


def _can_be(each: Planted) -> bool:
    tables = {**TABLES, each.table: {**TABLES[each.table], each.key: each.row}}
    try:
        require_possible("here", tables, FIELD_TYPES)
    except IncompleteTable:
        return False
    return True


def test_1_2_a_row_that_cannot_be_fails_the_type_check_the_import_and_regen(
    tree: Tree, faults: Faults
) -> None:
    """Of all wrong rows; those that can be are for the samples of the catalogue to find."""
    assert faults.rows == {n for n, each in enumerate(planted()) if not _can_be(each)}
    assert len(faults.rows) > 200
    table = tree.after().root / "src/codex_acp/routing/table.py"
    before = table.read_text()
    said = before.replace('decline=(classes.Refused,), why="A proof', IMPOSSIBLE)
    assert said != before
    try:
        table.write_text(said)
        stopped = regen.impossible(tree.root)
    finally:
        table.write_text(before)
    assert "mend the row for 'openai/userVerification': it cannot become McpToolAppr" in stopped


def _type_of(each: Planted) -> str:
    takes = FIELD_TYPES[each.table][each.key]
    if isinstance(each.row, SentDecision):
        return f"SentDecision[Elicits[{takes[0].replace(' | ', '] | Elicits[')}]]"
    return f"BecomesInMode[{takes[1]}]" if takes[1:] else f"Becomes[{takes[0]}]"


def test_1_2_what_moves_upstream_is_named_by_regen(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regen, "older_protocols", _nor_does_an_older_one_send_it)
    undecided = tree.after(*EDITS).undecided()
    for words in UNDECIDED:
        assert any(words in problem for problem in undecided), undecided
    places = ("src/codex_acp/", "codegen/", "tests/")
    assert all(problem.startswith(places) for problem in undecided)


def test_1_2_what_is_gone_upstream_stops_the_import(tree: Tree) -> None:
    assert "cannot import name 'AccountChatgptAuthTokensRefresh'" in tree.after(*EDITS).imported()


def test_1_2_what_moves_upstream_fails_the_type_check(tree: Tree, cache: Path) -> None:
    errors = tree.after(*EDITS).type_errors(cache)
    for words in TYPE_ERRORS:
        assert any(all(word in line for word in words) for line in errors.splitlines()), words


def test_1_2_what_is_new_upstream_stops_the_import(tree: Tree) -> None:
    assert "IncompleteTable" in tree.after(*NEW).imported()
    said = tree.imported("all tables")
    for row in ROWS:
        assert re.search(rf"does not match the schema: add a row for .*{row}", said), said


PASTED_TESTS = (
    "tests/routing/test_table.py",
    "tests/routing/test_routes.py",
    "tests/routing/test_classify.py",
    "tests/codex/test_refusals.py",
    "tests/codex/test_server_requests.py",
)


PYTEST = ("pytest", "-q", "-n0", "-p", "no:cacheprovider")

OF_NEW_ROWS = "vault or test_table or test_refusals"
"""Of these tests those that see the new rows: what the others hold, no new row changes. A decision
cannot be declined: its arm raises until somebody has said more."""


def test_what_regen_prints_can_be_pasted_as_it_stands(tree: Tree, cache: Path) -> None:
    """Nothing is left to add then; the code imports, and its types, lint and tests are green."""
    tree.after(*NEW)
    hints: dict[Path, list[Missing]] = {}
    for missing in regen.undecided(tree.root):
        hints.setdefault(tree.root / missing.path, []).append(missing)
    before = {path: path.read_text() for path in hints}
    try:
        for path, of_it in hints.items():
            _paste(path, of_it)
        assert (tree.undecided(), regen.impossible(tree.root), tree.imported()) == ([], "", "")
        assert tree.type_errors(cache) == ""
        assert _run(tree, "ruff", "check", "--no-cache", "--ignore", "I", *map(str, before)) == ""
        assert _run(tree, *PYTEST, "-k", OF_NEW_ROWS, *PASTED_TESTS) == ""
    finally:
        for path, text in before.items():
            path.write_text(text)


def _run(tree: Tree, *words: str) -> str:
    """What a tool says of the tree; empty when it is content."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree.root / "src"), str(tree.root)]),
        "CODEX_ACP_UPDATE_GOLDEN": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=tree.root, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr if done.returncode else ""


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
    monkeypatch.setattr(models, "_WRITTEN", {})
    monkeypatch.setattr(models, "_run", lambda _: "")
    with pytest.raises(Exception, match="dropped"):
        regen.regenerate()
    assert regen.current_files() == before
