"""Which decisions the schemas ask for and handwritten code has not taken yet, line by line.

Rows of the total tables, arms of closed matches, and names that are gone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent

from codegen.arms import Lack, closed_sets, lacking
from codegen.beside import beside
from codegen.exposure import SourceFile, read_sources
from codegen.ir import Protocol
from codegen.naming import pascal
from codegen.tables import Rows, Table, acp_tables, codex_tables, read_rows

_ALSO_THERE = {
    "ServerRequest", "ServerNotification", "UnknownNotification", "RequestHandlers", "Refusals",
    "NotificationHandlers", "WireModel", "UnknownValue", "UnknownVariant", "AgentHandlers",
    "ClientHandlers", "ServerRequestRoutes", "DiscriminatorRows", "WaitingCalls",
}  # fmt: skip
"""Names of the generated modules, of ``types`` and of ``v2``, that no definition gives."""


@dataclass(frozen=True)
class Missing:
    """One decision to take: the line to add or to remove, and where."""

    path: str
    line: int
    text: str
    paste: str = ""
    """The lines to add before ``line``, as they are to stand there."""

    def __str__(self) -> str:
        return "\n".join(filter(None, (f"{self.path}:{self.line}: {self.text}", self.paste)))


def missing(codex: Protocol, root: Path, acp: dict[str, Protocol] | None = None) -> list[Missing]:
    """Every row and arm to add or to remove; ``acp`` is ``v1`` and ``v2``."""
    problems: list[Missing] = []
    for table in codex_tables(codex):
        problems += _of_table(table, read_rows(root, table))
    files = read_sources(root)
    protocols = {"codex": codex, **(acp or {})}
    if acp:
        for _, table, rows in acp_tables(files, acp):
            problems += _of_table(table, rows)
    for lack in lacking(files, closed_sets(protocols)):
        problems.append(of_match(lack))
    problems += [Missing(*found) for found in beside(codex, root)]
    problems += _gone(files, protocols)
    return problems


def _of_table(table: Table, rows: Rows) -> Iterator[Missing]:
    place = f"{table.name}[{table.inner!r}]" if table.inner else table.name
    for key in sorted(table.keys - rows.lines.keys()):
        what, row = table.what.format(key=key), table.rows.get(key) or table.row.format(key=key)
        yield Missing(table.path, rows.end, f"{what}; add to {place}:", indent(row, rows.indent))
    for key in sorted(rows.lines.keys() - table.keys):
        text = f"{key} is gone from the schema; remove its row from {place}"
        yield Missing(table.path, rows.lines[key], text)


def of_match(lack: Lack) -> Missing:
    """The arm that a match lacks, whole, and what to import for it."""
    above = f", and above `from {lack.module} import {lack.value}`" if lack.module else ""
    text = f"{lack.union} has {lack.value}; add before this line{above}:"
    return Missing(lack.path, lack.line, text, lack.whole_arm)


def _gone(files: list[SourceFile], protocols: dict[str, Protocol]) -> Iterator[Missing]:
    """Uses of generated names that no schema gives any more, the first of each file."""
    there = {key: _names(protocol) for key, protocol in protocols.items()}
    for file in files:
        used = {file.names[local]: line for local, line in reversed(file.lines.items())}
        for node in file.nodes if file.packages else ():
            if isinstance(node, ast.Attribute) and (key := file.generated(node)) is not None:
                used[key] = min(node.lineno, used.get(key, node.lineno))
        for (protocol, name), line in used.items():
            is_model = name[:1].isupper() and not name.isupper()
            if protocol in there and is_model and name not in there[protocol] | _ALSO_THERE:
                text = f"{name} is gone from the schema, but is used here"
                near = get_close_matches(name, _like(name, there[protocol]), 1)
                yield Missing(file.path, line, "; perhaps it is now ".join((text, *near)))


def _like(name: str, names: set[str]) -> list[str]:
    """The names that begin with the same word, as they do where a discriminator is renamed."""
    first = re.match(r"[A-Z]+[a-z0-9]*", name)
    return sorted(n for n in names if first and re.match(rf"{first[0]}(?![a-z0-9])", n))


def _names(protocol: Protocol) -> set[str]:
    names = set(protocol.definitions)
    for direction, rows in protocol.methods.items():
        end = "Event" if direction == "server_notifications" else ""
        names |= {pascal(m.wire) + end for m in rows}
    return names
