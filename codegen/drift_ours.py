"""Read from the source what this project has decided and which parts of the schemas it uses."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codegen.bundles import ACP_SCHEMAS
from codegen.exposure import SRC, SourceFile, public_signatures, read_sources, uses
from codegen.ir import Protocol
from codegen.render import DISCRIMINATORS
from codegen.tables import (
    ACP_TABLES,
    NOTIFICATIONS,
    REFUSALS,
    ROUTE_TABLE,
    ROUTES,
    Rows,
    acp_tables,
    in_words,
    read_rows,
    stable_methods,
)

Key = tuple[str, str]
"""(protocol, generated name)."""


@dataclass(frozen=True)
class Ours:
    """The decisions and the uses of one source tree."""

    routes: Mapping[str, str]
    """Server request → its routes and their reason, for a person."""
    refusals: Mapping[str, str]
    """Server request → source of its refusal."""
    notifications: Mapping[str, str]
    """Notification → how it is handled, for a person."""
    discriminators: Mapping[str, Mapping[str, str]]
    """Definition → value → its routes and their reason, for a person."""
    acp_rows: frozenset[Key]
    """(version, stable method) of ACP that every table of handlers has."""
    mapped: frozenset[str]
    """Generated names that the mapping uses."""
    uses: Mapping[Key, tuple[str, ...]]
    """Generated name → the files that use it."""
    public: Mapping[Key, tuple[str, ...]]
    """Generated name → the public functions and fields that show it."""
    files: tuple[SourceFile, ...]

    def mentioned(self, protocol: str, words: set[str]) -> tuple[str, ...]:
        """Return the files that use the protocol and have one of the words."""
        return tuple(f.path for f in self.files if protocol in f.protocols and f.words & words)


def read_ours(root: Path, protocols: Mapping[str, Protocol]) -> Ours:
    """Read the source below ``root``; of ACP the tables of the versions in ``protocols``."""
    files = read_sources(root)
    used = uses(files)
    acp = {version: p for version, p in protocols.items() if version in ACP_SCHEMAS}
    tables = acp_tables(files, acp)
    missing = {(v, key) for v, table, rows in tables for key in table.keys - rows.lines.keys()}
    directions = {direction for of_table in ACP_TABLES.values() for direction in of_table}
    stable = {(v, method) for v, p in acp.items() for method in stable_methods(p, directions)}
    return Ours(
        routes=_in_words(read_rows(root / ROUTES, ROUTE_TABLE)),
        refusals=read_rows(root / REFUSALS, "REFUSALS").values,
        notifications=_notifications(root),
        discriminators={
            key: _in_words(read_rows(root / ROUTES, "DISCRIMINATORS", name))
            for key, (name, _) in DISCRIMINATORS.items()
        },
        acp_rows=frozenset(stable - missing),
        mapped=frozenset(
            name
            for (protocol, name), paths in used.items()
            if protocol == "codex" and any(p.startswith(f"{SRC}/mapping/") for p in paths)
        ),
        uses=used,
        public=public_signatures(files),
        files=tuple(files),
    )


def _in_words(rows: Rows) -> dict[str, str]:
    return {key: in_words(row) for key, row in rows.values.items()}


def _notifications(root: Path) -> dict[str, str]:
    """Return how each notification is handled: ignored with a reason, or mapped by a function."""
    constants: dict[str, ast.expr] = {}
    for node in ast.parse((root / NOTIFICATIONS).read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = node.value
    found = {}
    rows = read_rows(root / NOTIFICATIONS, "NOTIFICATION_HANDLERS")
    for method, row in rows.values.items():
        call = constants.get(row) or ast.parse(row, mode="eval").body
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Ignored" and call.args:
            reason = call.args[0]
            text = str(reason.value) if isinstance(reason, ast.Constant) else ast.unparse(reason)
            found[method] = f"ignored: {text}"
        else:
            found[method] = f"mapped by {row}"
    return found
