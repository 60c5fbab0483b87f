"""The source tree as it would have been for an older schema: without what only a newer one has.

A rehearsal of an upgrade is honest only if the tables are those of the old version. Rows, match
arms and imports that name something which the old schema does not define are taken out of a copy,
on the syntax tree; the copy is only read, never run.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from codegen.coverage import _OTHER_NAMES, _names
from codegen.drift_model import SchemaSet
from codegen.exposure import SRC, SourceFile, read_sources
from codegen.ir import EnumDef, Protocol, UnionDef
from codegen.pinned import ROOT
from codegen.render import DISCRIMINATORS
from codegen.tables import NOTIFICATIONS, REFUSALS, ROUTES


class _Cut(ast.NodeTransformer):
    """Takes out of one file after the other what the old schema lacks."""

    def __init__(self, codex: Protocol, now: Protocol) -> None:
        self.file: SourceFile
        self.gone = _names(now) - _names(codex) - _OTHER_NAMES
        self.gone_literals = _literals(now) - _literals(codex)
        self.tables = {
            "SERVER_REQUEST_ROUTES": _methods(codex, "server_requests"),
            "REFUSALS": _methods(codex, "server_requests"),
            "NOTIFICATION_HANDLERS": _methods(codex, "server_notifications"),
        }
        self.lists = {n: _values(codex, key) for key, (n, _) in DISCRIMINATORS.items()}

    def text_of(self, file: SourceFile) -> str:
        """The file without what is not there yet."""
        if not (self._is_table(file) or self._has_gone_names(file) or self._has_gone_cases(file)):
            return file.text
        self.file = file
        return ast.unparse(self.visit(ast.parse(file.text)))

    def _is_table(self, file: SourceFile) -> bool:
        return file.path in (ROUTES, REFUSALS, NOTIFICATIONS)

    def _has_gone_names(self, file: SourceFile) -> bool:
        return not self.gone.isdisjoint(re.findall(r"\w+", file.text))

    def _has_gone_cases(self, file: SourceFile) -> bool:
        texts = re.findall(r'"([^"]*)"', file.text) if "    match " in file.text else ()
        return not self.gone_literals.isdisjoint(texts)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        node.names = [
            a for a in node.names
            if self.file.names.get(a.asname or a.name, ("", ""))[0] != "codex"
            or a.name not in self.gone
        ]  # fmt: skip
        return node if node.names else ast.Pass()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        key = self.file.generated(node)
        if key is not None and key[0] == "codex" and key[1] in self.gone:
            node.attr = "not_yet_there"
        self.generic_visit(node)
        return node

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        kept = []
        for case in node.cases:
            pattern = self._pattern(case.pattern)
            if pattern is not None:
                case.pattern = pattern
                kept.append(case)
        node.cases = kept
        self.generic_visit(node)
        return node

    def _pattern(self, pattern: ast.pattern) -> ast.pattern | None:
        if isinstance(pattern, ast.MatchOr):
            inner = [p for p in map(self._pattern, pattern.patterns) if p is not None]
            if len(inner) > 1:
                return ast.MatchOr(inner)
            return inner[0] if inner else None
        if isinstance(pattern, ast.MatchClass):
            key = self.file.generated(pattern.cls)
            return None if key is not None and key[1] in self.gone else pattern
        if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
            return None if pattern.value.value in self.gone_literals else pattern
        return pattern

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        name = ast.unparse(node.target)
        if isinstance(node.value, ast.Dict):
            if name in self.tables:
                node.value = _only(node.value, self.tables[name])
            elif name == "DISCRIMINATORS":
                lists = zip(node.value.keys, node.value.values, strict=True)
                node.value.values = [
                    _only(rows, self.lists[str(key.value)])
                    if isinstance(key, ast.Constant) and isinstance(rows, ast.Dict)
                    else rows
                    for key, rows in lists
                ]
        self.generic_visit(node)
        return node


def write_as_of(old: SchemaSet, now: SchemaSet, root: Path) -> None:
    """Write below ``root`` the source as it would be if ``old`` were the newest schema."""
    codex, newest = old.protocols["codex"], now.protocols["codex"]
    cut = _Cut(codex, newest)
    for file in read_sources(ROOT):
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(cut.text_of(file))
    assert (root / SRC).is_dir()


def _only(table: ast.Dict, keys: set[str]) -> ast.Dict:
    rows = [
        (k, v) for k, v in zip(table.keys, table.values, strict=True)
        if not isinstance(k, ast.Constant) or k.value in keys
    ]  # fmt: skip
    return ast.Dict([k for k, _ in rows], [v for _, v in rows])


def _methods(protocol: Protocol, direction: str) -> set[str]:
    return {m.wire for m in protocol.methods[direction]}


def _values(protocol: Protocol, key: str) -> set[str]:
    definition = protocol.definitions.get(key)
    if isinstance(definition, EnumDef):
        return {str(v) for v in definition.values}
    if isinstance(definition, UnionDef):
        return {*definition.literals, *(tag for tag, _ in definition.choices)}
    return set()


def _literals(protocol: Protocol) -> set[str]:
    return {value for key in protocol.definitions for value in _values(protocol, key)}
