"""What new requests and items need beside tables and matches: their samples, the tests' rows.

Works on text and syntax. A file that is not there (a copy of ``src`` alone) asks for nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any, assert_never

from codegen.errors import CodegenError
from codegen.ir import AliasDef, ClassDef, EnumDef, Node, Protocol, UnionDef
from codegen.tables import negative_form

MAPPING = "src/codex_acp/mapping"
TOOL_ITEMS = f"{MAPPING}/call.py"
ITEM_SAMPLES = "tests/support/tool_call_samples.py"


_CATALOGUE = "codegen/route_catalogue.py"
_SAMPLES = "tests/codex/server_request_samples.py"
_PARAMS = "tests/support/routing_samples.py"
_REFUSALS = "tests/codex/test_refusals.py"
_CLASSIFY = "tests/routing/test_classify.py"

_ELICITATION = "mcpServer/elicitation/request"
_COMMAND = "item/commandExecution/requestApproval"


@dataclass(frozen=True)
class Row:
    """A row for a new request: it stands before the line where the table ends."""

    path: str
    table: str
    text: str
    known_by: str
    """What stands in a file that needs no row; in that of the row, if no other is given."""
    known_in: str = ""


def beside(codex: Protocol, root: Path) -> Iterator[tuple[str, int, str, str]]:
    """(file, line, what is missing, the lines to add before that line)."""
    texts: dict[str, str] = {}
    for row in _rows(codex):
        for path in (row.path, row.known_in or row.path):
            if path not in texts:
                texts[path] = (root / path).read_text() if (root / path).exists() else ""
        if texts[row.path] and row.known_by not in texts[row.known_in or row.path]:
            table = _constant(root / row.path, row.table)
            end = table.end_lineno or table.lineno
            name = row.known_by.strip('"')
            what = f"{name} is not tested; add to {row.table}:"
            yield row.path, end, what, indent(row.text, "    ")
    yield from _items(codex, root)


def _rows(codex: Protocol) -> Iterator[Row]:
    """The samples of every request, mode and kind, and what the tests expect of them."""
    for method in codex.methods["server_requests"]:
        wire, known = method.wire, f'"{method.wire}"'
        here = partial(_sample, method.params or "", codex)
        yield Row(_CATALOGUE, "_ALONE", f'("{wire}", "", {here("thread-1", "turn-1")}),', known)
        yield Row(_SAMPLES, "SAMPLES", f'"{wire}": {here("t", "u")},', known)
        yield Row(_PARAMS, "PARAMS", f'"{wire}": {here("root", "turn")},', known)
        no = negative_form(method, codex)
        if no:
            yield Row(_REFUSALS, "EXPECTED", f'"{wire}": {json.dumps(no)},', known)
        else:
            yield Row(_REFUSALS, "ERRORS", f'"{wire}",', known)
        expected = f'("{wire}", request("{wire}"), running(), Refused),'
        yield Row(_CLASSIFY, "TABLE", expected, known, known_in=_PARAMS)
    modes = codex.definitions.get("McpServerElicitationRequestParams")
    for mode, names in modes.choices if isinstance(modes, UnionDef) else ():
        sample = _sample(names[0], codex, "thread-1", "turn-1")
        text = f'("{_ELICITATION}", "mode {mode}", {sample}),'
        yield Row(_CATALOGUE, "_ALONE", text, f'"{mode}"')
    kinds = codex.definitions.get("CommandExecutionApprovalKind")
    for kind in kinds.values if isinstance(kinds, EnumDef) else ():
        text = f'("{_COMMAND}", "kind {kind}", {{\n    **_RUN, "kind": "{kind}"\n}}),'
        yield Row(_CATALOGUE, "_ALONE", text, f"kind {kind}")


def _sample(name: str, codex: Protocol, thread: str, turn: str) -> str:
    """Params with what is required, as they are written in Python, a line each."""
    ids = {"threadId": thread, "conversationId": thread, "turnId": turn, "itemId": "item"}
    value = _least({"$ref": name} if name else {"type": "object"}, codex, ids)
    lines = [f'    "{key}": {each!r},'.replace("'", '"') for key, each in value.items()]
    return "\n".join(["{", *lines, "}"]) if lines else "{}"


def _least(node: Node, codex: Protocol, ids: Mapping[str, str]) -> Any:
    """The smallest value that fits a node."""
    if "const" in node:
        return node["const"]
    if "anyOf" in node:
        return _least(node["anyOf"][0], codex, ids)
    if "$ref" not in node:
        plain = {"string": "text", "integer": 1, "number": 1, "boolean": False, "array": []}
        return plain.get(str(node.get("type")), None if node.get("type") == "null" else {})
    match codex.definitions[node["$ref"]]:
        case EnumDef(values=values):
            return values[0]
        case AliasDef(node=inner):
            return _least(inner, codex, ids)
        case UnionDef(literals=literals, members=members, nodes=nodes):
            first = nodes[0] if nodes else {"$ref": members[0]} if members else {}
            return literals[0] if literals else _least(first, codex, ids)
        case ClassDef(fields=fields, tags=tags):
            needed = {f.wire: f.node for f in fields if f.required}
            made = {wire: ids.get(wire) or _least(n, codex, ids) for wire, n in needed.items()}
            return {**made, **dict(tags)}
        case definition:
            assert_never(definition)


def _items(codex: Protocol, root: Path) -> Iterator[tuple[str, int, str, str]]:
    """Members of ``ThreadItem`` that nothing of the mapping names."""
    items = codex.definitions.get("ThreadItem")
    if not isinstance(items, UnionDef) or not (root / TOOL_ITEMS).exists():
        return
    text = "".join(path.read_text() for path in sorted((root / MAPPING).rglob("*.py")))
    lines = (root / TOOL_ITEMS).read_text().splitlines()
    last = (n for n, line in enumerate(lines, 1) if line.strip() == "| UnknownVariant")
    end = next(last, len(lines))
    for tag, names in items.choices:
        for name in names:
            if re.search(rf"\b{name}\b", text) is None:
                what = (
                    f"no item of type {tag} is mapped: give it an arm in mapping/items.py if it is "
                    f"told in words; if it is a tool call, add before this line, then the arms "
                    f"that mypy asks for:"
                )
                yield TOOL_ITEMS, end, what, f"    | models.{name}"
                yield from _item_sample(tag, root / ITEM_SAMPLES)


def _item_sample(tag: str, path: Path) -> Iterator[tuple[str, int, str, str]]:
    if path.exists():
        value = _constant(path, "_OTHERS")
        row = f'    ItemSample("", None, {{"type": "{tag}", "id": "item"}}),'
        what = f"the item {tag} is not tested; if it is a tool call add to _OTHERS:"
        yield ITEM_SAMPLES, value.end_lineno or value.lineno, what, row


def _constant(path: Path, name: str) -> ast.expr:
    """The value of a constant. Raises CodegenError if the module has none of that name."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return node.value
    raise CodegenError(f"{path} has no table {name}; mend codegen/beside.py")
