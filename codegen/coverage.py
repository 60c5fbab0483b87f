"""Which decisions the schema asks for and no handwritten table has taken yet.

Reads the tables as syntax, without importing them: a table that lacks a row does not import.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from codegen.errors import CodegenError
from codegen.ir import Protocol
from codegen.render import discriminators

REFUSALS = "src/codex_acp/codex/refusals.py"
ROUTES = "src/codex_acp/routing/table.py"
NOTIFICATIONS = "src/codex_acp/mapping/notifications.py"


@dataclass(frozen=True)
class Table:
    """A handwritten table: where it is, what its keys must be, and how a new row looks."""

    path: str
    name: str
    keys: frozenset[str]
    row: str
    what: str
    inner: str = ""
    """The key below which the rows stand, for a table of tables."""


@dataclass(frozen=True)
class Missing:
    """One decision to take: the line to add or to remove, and where."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def tables(codex: Protocol) -> list[Table]:
    """Every table that must have a row for each method or value of the schema."""
    requests = frozenset(m.wire for m in codex.methods["server_requests"])
    notifications = frozenset(m.wire for m in codex.methods["server_notifications"])
    found = [
        Table(
            ROUTES, "SERVER_REQUEST_ROUTES", requests,
            "{key!r}: _any,  # or _approval_or_decline, or _program_only",
            "server request {key} is UNROUTED: decide whether it is an approval, an elicitation "
            "or a decline, teach codex/classify.py",
        ),
        Table(
            REFUSALS, "REFUSALS", requests, "{key!r}: _the_negative_reply_of_this_method,",
            "server request {key} has no negative reply",
        ),
        Table(
            NOTIFICATIONS, "NOTIFICATION_HANDLERS", notifications,
            '{key!r}: Ignored("why it is not shown"),  # or a function of this package',
            "notification {key} is unmapped",
        ),
    ]  # fmt: skip
    for name, values, _ in discriminators(codex):
        found.append(
            Table(
                ROUTES, "DISCRIMINATORS", frozenset(values), '{key!r}: "what becomes of it",',
                f"{name}: the value {{key}} is undecided", inner=name,
            )
        )  # fmt: skip
    return found


def missing(codex: Protocol, root: Path) -> list[Missing]:
    """Every row to add or to remove, over all tables."""
    problems: list[Missing] = []
    for table in tables(codex):
        keys, line = _keys(root / table.path, table)
        place = f"{table.name}[{table.inner!r}]" if table.inner else table.name
        for key in sorted(table.keys - keys.keys()):
            what, row = table.what.format(key=key), table.row.format(key=key)
            problems.append(Missing(table.path, line, f"{what}; add to {place}:  {row}"))
        for key in sorted(keys.keys() - table.keys):
            text = f"{key} is gone from the schema; remove its row from {place}"
            problems.append(Missing(table.path, keys[key], text))
    return problems


def _keys(path: Path, table: Table) -> tuple[dict[str, int], int]:
    """The table's keys with their lines, and the line of its last row."""
    for node in ast.parse(path.read_text()).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == table.name:
            value: ast.expr | None = node.value if isinstance(node, ast.AnnAssign) else None
            if table.inner and isinstance(value, ast.Dict):
                value = dict(zip(map(_text, value.keys), value.values, strict=True)).get(
                    table.inner
                )
            if isinstance(value, ast.Dict):
                found = {_text(k): k.lineno for k in value.keys if k is not None}
                return found, value.end_lineno or value.lineno
    msg = (
        f"{path} has no table {table.name} {table.inner} that can be read; mend codegen/coverage.py"
    )
    raise CodegenError(msg)


def _text(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
