"""Read the rows of handwritten tables from their source, and write the text of new rows.

Works on syntax, because a table that lacks a row cannot be imported.
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
    """A handwritten table."""

    path: str
    name: str
    keys: frozenset[str]
    """The keys that the table must have."""
    row: str
    """Source of a new row, with ``{key}`` in place of the key."""
    missing: str
    """Text for a person about a missing row, with ``{key}``."""
    inner: str = ""
    """In a table of tables: the key of the inner table that has the rows."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """Key → source of the new row, for keys to which ``row`` does not apply."""


@dataclass(frozen=True)
class Rows:
    """The rows that a table has."""

    lines: Mapping[str, int]
    """Key → its line."""
    values: Mapping[str, str]
    """Key → source of its value."""
    end: int
    """The last line of the table, before which a new row belongs."""
    indent: str = "    "
    """Spaces before a row."""


_DECLINE = """\
"{key}": Row(
    decline=(classes.Refused,), why="{key} is not offered by this client."
),"""
_NEVER = '"{key}": SentDecision(why="{key} is never sent."),'


def codex_tables(codex: Protocol) -> list[Table]:
    """Return the tables that must have a row for each method or value of the Codex schema."""
    requests = frozenset(m.wire for m in codex.methods["server_requests"])
    notifications = frozenset(m.wire for m in codex.methods["server_notifications"])
    found = [
        Table(
            REFUSALS, "REFUSALS", requests, '"{key}": _not_offered,',
            "server request {key} has no negative reply",
            rows={
                m.wire: f'"{m.wire}": lambda _, __: models.{m.result}({snake(name)}="{word}"),'
                for m in codex.methods["server_requests"]
                for name, word in negative_form(m, codex).items()
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
            missing = (
                "server request {key} is UNROUTED: say what it is, with an arm of classify() in "
                "codex/approvals/classify.py and a row"
            )
            found.append(Table(ROUTES, name, keys, row, missing))
        else:
            missing = f"{name}: the value {{key}} is undecided"
            found.append(Table(ROUTES, "DISCRIMINATORS", keys, row, missing, inner=name))
    return found


_NEGATIVE_WORDS = ("decline", "declined", "denied", "deny", "reject", "rejected")


def negative_form(method: Method, protocol: Protocol) -> dict[str, str]:
    """Return the negative reply, as JSON, of a server request whose reply is one word; return an
    empty dict if no word of the reply is negative."""
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
    word = next((word for word in _NEGATIVE_WORDS if word in values), None)
    return {} if word is None else {required[0].wire: word}


def in_words(row: str) -> str:
    """Return the routes and the reason of a row of the routing table, for a person."""
    call = ast.parse(row, mode="eval").body
    if not isinstance(call, ast.Call):
        return row
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    routes = [name for name in ("approval", "elicitation", "decline") if name in arguments]
    return f"{' or '.join(routes) or 'never sent'}: {text_of(arguments.get('why'))}"


def read_rows(path: Path, name: str, inner: str = "") -> Rows:
    """Return the rows of the table ``name``, or of its inner table. Raises CodegenError if the file
    no longer has the table."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            value = node.value
            if inner and isinstance(value, ast.Dict):
                rows = dict(zip(map(text_of, value.keys), value.values, strict=True))
                value = rows.get(inner, value)
            if isinstance(value, ast.Dict):
                return rows_of(value)
    msg = f"{path} has no table {name} {inner} that can be read; mend codegen/tables.py"
    raise CodegenError(msg)


def rows_of(table: ast.Dict) -> Rows:
    """Return the rows of a dict's source."""
    pairs = [(k, v) for k, v in zip(table.keys, table.values, strict=True) if k is not None]
    lines = {text_of(key): key.lineno for key, _ in pairs}
    values = {text_of(key): ast.unparse(value) for key, value in pairs}
    columns = [key.col_offset for key, _ in pairs if key.lineno > table.lineno]
    return Rows(lines, values, table.end_lineno or table.lineno, " " * min(columns, default=4))


def text_of(node: ast.expr | None) -> str:
    """Return the text of a constant; empty for every other expression."""
    return str(node.value) if isinstance(node, ast.Constant) else ""


def acp_tables(
    files: list[SourceFile], protocols: Mapping[str, Protocol]
) -> Iterator[tuple[str, Table, Rows]]:
    """Yield each dict that is typed as a table of ACP's methods: its version, itself, its rows.

    A table needs no rows for unstable methods.
    """
    for file in files:
        if not any(kind in file.text for kind in ACP_TABLES):
            continue
        for name, annotation, value in _typed_dicts(file):
            # The type in brackets, as of ``Final[...]``: ``v2.AgentRequestHandlers``, or a name.
            type_name = ast.unparse(annotation).rstrip("]'\"").rpartition("[")[2]
            module, _, kind = type_name.rpartition(".")
            version = module if module in protocols else "v1"
            version, kind = file.names.get(type_name, (version, kind))
            if kind not in ACP_TABLES or version not in protocols or None in value.keys:
                continue
            keys = frozenset(stable_methods(protocols[version], ACP_TABLES[kind]))
            row = '"{key}": None,  # not offered; or the function that handles it'
            table = Table(file.path, name, keys, row, f"{kind} has a new method {{key}}")
            yield version, table, rows_of(value)


def stable_methods(protocol: Protocol, directions: Iterable[str]) -> Iterator[str]:
    """Yield the methods of ``directions`` that the stable schema has."""
    for direction in directions:
        yield from (m.wire for m in protocol.methods[direction] if not m.experimental)


def _typed_dicts(file: SourceFile) -> Iterator[tuple[str, ast.expr, ast.Dict]]:
    """Yield (name, annotation, dict) of annotated dicts, and of functions that return a dict."""
    for node in file.nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            yield ast.unparse(node.target), node.annotation, node.value
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            for inner in node.body:
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
                    yield node.name, node.returns, inner.value
