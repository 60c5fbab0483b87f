"""List the decisions that the schemas ask for and that handwritten code has not made yet.

Each is one line: a missing or superfluous row of a total table, a missing arm of a closed match, or
a name that no schema has any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent

from codegen.arms import MissingArm, closed_sets, lacking
from codegen.beside import beside
from codegen.exposure import SourceFile, read_sources
from codegen.ir import Protocol
from codegen.naming import pascal
from codegen.tables import Rows, Table, acp_tables, codex_tables, read_rows

_OTHER_NAMES = {
    "ServerRequest", "ServerNotification", "UnknownNotification", "RequestHandlers", "Refusals",
    "NotificationHandlers", "WireModel", "UnknownValue", "UnknownVariant", "AgentHandlers",
    "ClientHandlers", "ServerRequestRoutes", "DiscriminatorRows", "WaitingCalls",
}  # fmt: skip
"""Names in generated modules, in ``types`` and in ``v2`` that are not those of definitions."""


@dataclass(frozen=True)
class Missing:
    """One decision that is missing: a line to add or to remove, and its place."""

    path: str
    line: int
    text: str
    paste: str = ""
    """The lines to add before ``line``, with their indentation."""

    def __str__(self) -> str:
        return "\n".join(filter(None, (f"{self.path}:{self.line}: {self.text}", self.paste)))


def missing(codex: Protocol, root: Path, acp: dict[str, Protocol] | None = None) -> list[Missing]:
    """Return all missing decisions. ``acp`` has the protocols ``v1`` and ``v2``."""
    problems: list[Missing] = []
    for table in codex_tables(codex):
        problems += _of_table(table, read_rows(root / table.path, table.name, table.inner))
    files = read_sources(root)
    protocols = {"codex": codex, **(acp or {})}
    if acp:
        for _, table, rows in acp_tables(files, acp):
            problems += _of_table(table, rows)
    problems += map(of_match, lacking(files, closed_sets(protocols)))
    problems += [Missing(*found) for found in beside(codex, root)]
    problems += _gone(files, protocols)
    return problems


def _of_table(table: Table, rows: Rows) -> Iterator[Missing]:
    place = f"{table.name}[{table.inner!r}]" if table.inner else table.name
    for key in sorted(table.keys - rows.lines.keys()):
        row = table.rows.get(key) or table.row.format(key=key)
        text = f"{table.missing.format(key=key)}; add to {place}:"
        yield Missing(table.path, rows.end, text, indent(row, rows.indent))
    for key in sorted(rows.lines.keys() - table.keys):
        text = f"{key} is gone from the schema; remove its row from {place}"
        yield Missing(table.path, rows.lines[key], text)


def of_match(arm: MissingArm) -> Missing:
    """Return the decision for a missing arm, with the import that the arm needs."""
    above = f", and above `from {arm.module} import {arm.value}`" if arm.module else ""
    text = f"{arm.union} has {arm.value}; add before this line{above}:"
    return Missing(arm.path, arm.line, text, arm.whole_arm)


def _gone(files: list[SourceFile], protocols: dict[str, Protocol]) -> Iterator[Missing]:
    """Yield the first use in each file of each generated name that no schema has any more."""
    generated = {key: _names(protocol) for key, protocol in protocols.items()}
    for file in files:
        # Reversed, so that the first import of a name under several local names remains.
        used = {file.names[local]: line for local, line in reversed(file.lines.items())}
        for node in file.nodes if file.packages else ():
            if isinstance(node, ast.Attribute) and (key := file.generated(node)) is not None:
                used[key] = min(node.lineno, used.get(key, node.lineno))
        for (protocol, name), line in used.items():
            is_model = name[:1].isupper() and not name.isupper()
            if protocol not in generated or not is_model or name in _OTHER_NAMES:
                continue
            if name not in generated[protocol]:
                text = f"{name} is gone from the schema, but is used here"
                near = get_close_matches(name, _with_first_word(name, generated[protocol]), 1)
                yield Missing(file.path, line, "; perhaps it is now ".join((text, *near)))


def _with_first_word(name: str, names: set[str]) -> list[str]:
    """Return the names that begin with the first word of ``name``, as renamed classes often do."""
    first = re.match(r"[A-Z]+[a-z0-9]*", name)
    return sorted(n for n in names if first and re.match(rf"{first[0]}(?![a-z0-9])", n))


def _names(protocol: Protocol) -> set[str]:
    names = set(protocol.definitions)
    for direction, methods in protocol.methods.items():
        end = "Event" if direction == "server_notifications" else ""
        names |= {pascal(m.wire) + end for m in methods}
    return names
