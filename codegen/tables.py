"""Handwritten tables as they stand in the source: their rows, by syntax, without importing them.

A table that lacks a row does not import. Owns where the tables are and what a new row looks like.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codegen.errors import CodegenError
from codegen.exposure import SourceFile
from codegen.ir import ClassDef, EnumDef, Method, Protocol, UnionDef
from codegen.naming import snake
from codegen.render import routing_tables

REFUSALS = "src/codex_acp/codex/approvals/refusals.py"
ROUTES = "src/codex_acp/routing/table.py"
ROUTE_TABLE = "SERVER_REQUEST_ROUTES"
NOTIFICATIONS = "src/codex_acp/mapping/notifications.py"

ACP_TABLES = {
    "AgentRequestHandlers": ("agent_requests",),
    "AgentNotificationHandlers": ("agent_notifications", "protocol_notifications"),
    "ClientRequestHandlers": ("client_requests",),
    "ClientNotificationHandlers": ("client_notifications", "protocol_notifications"),
}
"""Generated table type of ACP → the directions whose methods are its keys."""


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
    rows: Mapping[str, str] = field(default_factory=dict)
    """Key → how its row looks, where that is not ``row``."""


@dataclass(frozen=True)
class Rows:
    """What a table holds: key → its line and its value as text; and where a new row goes."""

    lines: Mapping[str, int]
    values: Mapping[str, str]
    end: int
    indent: str = "    "
    """What stands before a row."""


_DECLINE = """\
"{key}": Row(
    decline=(classes.Refused,), why="{key} is not offered by this client."
),"""
_NEVER = '"{key}": SentDecision(why="{key} is never sent."),'


def codex_tables(codex: Protocol) -> list[Table]:
    """Every table that must have a row for each method or value of the Codex schema."""
    requests = frozenset(m.wire for m in codex.methods["server_requests"])
    notifications = frozenset(m.wire for m in codex.methods["server_notifications"])
    found = [
        Table(
            REFUSALS, "REFUSALS", requests, '"{key}": _not_offered,',
            "server request {key} has no negative reply",
            rows={
                m.wire: f'"{m.wire}": lambda _, __: models.{m.result}({snake(name)}="{no}"),'
                for m in codex.methods["server_requests"]
                for name, no in negative_form(m, codex).items()
            },
        ),
        Table(
            NOTIFICATIONS, "NOTIFICATION_HANDLERS", notifications,
            '"{key}": Ignored("why it is not shown"),  # or a function of this package',
            "notification {key} is unmapped",
        ),
    ]  # fmt: skip
    for table in routing_tables(codex):
        keys = frozenset(key for key, _ in table["rows"])
        name, row = table["name"], _NEVER if table["row"] == "SentDecision" else _DECLINE
        if name == ROUTE_TABLE:
            what = "server request {key} is UNROUTED: say what it is, with an arm of classify() in "
            what += "codex/approvals/classify.py and a row"
            found.append(Table(ROUTES, name, keys, row, what))
        else:
            what = f"{name}: the value {{key}} is undecided"
            found.append(Table(ROUTES, "DISCRIMINATORS", keys, row, what, inner=name))
    return found


_NO = ("decline", "declined", "denied", "deny", "reject", "rejected")
"""Words of a reply that say no; the first that it has is taken."""


def negative_form(method: Method, protocol: Protocol) -> dict[str, str]:
    """The reply of a server request that says no with one word; empty if it has none."""
    result = protocol.definitions.get(method.result or "")
    required = [f for f in result.fields if f.required] if isinstance(result, ClassDef) else []
    if len(required) != 1:
        return {}
    chosen = protocol.definitions.get(str(required[0].node.get("$ref")))
    values: tuple[str | int, ...] = ()
    if isinstance(chosen, EnumDef):
        values = chosen.values
    elif isinstance(chosen, UnionDef):
        values = chosen.literals
    word = next((word for word in _NO if word in values), None)
    return {} if word is None else {required[0].wire: word}


def in_words(row: str) -> str:
    """A row of the routing table as it is printed: what it allows, and why."""
    call = ast.parse(row, mode="eval").body
    if not isinstance(call, ast.Call):
        return row
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    allowed = [name for name in ("approval", "elicitation", "decline") if name in given]
    return f"{' or '.join(allowed) or 'never sent'}: {text_of(given.get('why'))}"


def read_rows(root: Path, table: Table) -> Rows:
    """The rows of one table. Raises CodegenError if it is not where it was."""
    path = root / table.path
    for node in ast.parse(path.read_text()).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == table.name:
            value: ast.expr | None = node.value if isinstance(node, ast.AnnAssign) else None
            if table.inner and isinstance(value, ast.Dict):
                rows = dict(zip(map(text_of, value.keys), value.values, strict=True))
                value = rows.get(table.inner, value)
            if isinstance(value, ast.Dict):
                return rows_of(value)
    msg = f"{path} has no table {table.name} {table.inner} that can be read; mend codegen/tables.py"
    raise CodegenError(msg)


def rows_of(table: ast.Dict) -> Rows:
    """The rows of a dict as it is written."""
    pairs = [(k, v) for k, v in zip(table.keys, table.values, strict=True) if k is not None]
    lines = {text_of(key): key.lineno for key, _ in pairs}
    values = {text_of(key): ast.unparse(value) for key, value in pairs}
    columns = [key.col_offset for key, _ in pairs if key.lineno > table.lineno]
    return Rows(lines, values, table.end_lineno or table.lineno, " " * min(columns, default=4))


def text_of(node: ast.expr | None) -> str:
    """The text of a constant; empty for all else."""
    return str(node.value) if isinstance(node, ast.Constant) else ""


def acp_tables(
    files: list[SourceFile], protocols: Mapping[str, Protocol]
) -> Iterator[tuple[str, Table, Rows]]:
    """Every dict of handwritten code that is typed as a table of ACP's methods, with its rows.

    Each with the version whose table it is. Unstable methods are in tables that need no row.
    """
    for file in files:
        if not any(kind in file.text for kind in ACP_TABLES):
            continue
        for name, annotation, value in _typed_dicts(file):
            written = ast.unparse(annotation).rstrip("]'\"").rpartition("[")[2]
            module, _, kind = written.rpartition(".")
            version = module if module in protocols else "v1"
            version, kind = file.names.get(written, (version, kind))
            if kind not in ACP_TABLES or version not in protocols or None in value.keys:
                continue
            keys = frozenset(stable_methods(protocols[version], ACP_TABLES[kind]))
            row = '"{key}": None,  # not offered; or the function that handles it'
            table = Table(file.path, name, keys, row, f"{kind} has a new method {{key}}")
            yield version, table, rows_of(value)


def stable_methods(protocol: Protocol, directions: Iterable[str]) -> Iterator[str]:
    """The methods of some directions that the stable schema has."""
    for direction in directions:
        yield from (m.wire for m in protocol.methods[direction] if not m.experimental)


def _typed_dicts(file: SourceFile) -> Iterator[tuple[str, ast.expr, ast.Dict]]:
    """(name, annotation, dict) of every annotated constant and every function that returns one."""
    for node in file.nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            yield ast.unparse(node.target), node.annotation, node.value
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            for inner in node.body:
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
                    yield node.name, node.returns, inner.value
