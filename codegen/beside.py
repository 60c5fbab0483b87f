"""Find the samples and rows of tests that a new request or item still lacks.

Type checks find missing rows of tables and missing cases of matches; this module finds the rest. It
reads text and syntax. A file that does not exist (in a copy of ``src`` alone) lacks nothing.
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
    """A row that a new request needs at the end of a table."""

    path: str
    table: str
    text: str
    known_by: str
    """Text by which one sees that the row is there already."""
    known_in: str = ""
    """File to look for ``known_by``; empty for ``path``."""


def beside(codex: Protocol, root: Path) -> Iterator[tuple[str, int, str, str]]:
    """Yield (file, line, what is missing, the lines to add before ``line``)."""
    texts: dict[str, str] = {}
    for row in _rows(codex):
        for path in (row.path, row.known_in or row.path):
            if path not in texts:
                texts[path] = (root / path).read_text() if (root / path).exists() else ""
        if texts[row.path] and row.known_by not in texts[row.known_in or row.path]:
            table = _constant(root / row.path, row.table)
            end = table.end_lineno or table.lineno
            name = row.known_by.strip('"')
            missing = f"{name} is not tested; add to {row.table}:"
            yield row.path, end, missing, indent(row.text, "    ")
    yield from _items(codex, root)


def _rows(codex: Protocol) -> Iterator[Row]:
    """Yield the samples of every request, mode and kind, and the results that tests expect."""
    for method in codex.methods["server_requests"]:
        wire, known = method.wire, f'"{method.wire}"'
        sample = partial(_sample, method.params or "", codex)
        yield Row(_CATALOGUE, "_OTHERS", f'("{wire}", "", {sample("thread-1", "turn-1")}),', known)
        yield Row(_SAMPLES, "SAMPLES", f'"{wire}": {sample("t", "u")},', known)
        yield Row(_PARAMS, "PARAMS", f'"{wire}": {sample("root", "turn")},', known)
        negative = negative_form(method, codex)
        if negative:
            yield Row(_REFUSALS, "EXPECTED", f'"{wire}": {json.dumps(negative)},', known)
        else:
            yield Row(_REFUSALS, "ERRORS", f'"{wire}",', known)
        expected = f'("{wire}", request("{wire}"), running(), Refused),'
        yield Row(_CLASSIFY, "TABLE", expected, known, known_in=_PARAMS)
    modes = codex.definitions.get("McpServerElicitationRequestParams")
    for mode, names in modes.choices if isinstance(modes, UnionDef) else ():
        params = _sample(names[0], codex, "thread-1", "turn-1")
        text = f'("{_ELICITATION}", "mode {mode}", {params}),'
        yield Row(_CATALOGUE, "_OTHERS", text, f'"{mode}"')
    kinds = codex.definitions.get("CommandExecutionApprovalKind")
    for kind in kinds.values if isinstance(kinds, EnumDef) else ():
        text = f'("{_COMMAND}", "kind {kind}", {{\n    **_RUN_PARAMS, "kind": "{kind}"\n}}),'
        yield Row(_CATALOGUE, "_OTHERS", text, f"kind {kind}")


def _sample(name: str, codex: Protocol, thread: str, turn: str) -> str:
    """Return the required params of a request as Python source, one member a line."""
    ids = {"threadId": thread, "conversationId": thread, "turnId": turn, "itemId": "item"}
    value = _smallest({"$ref": name} if name else {"type": "object"}, codex, ids)
    lines = [f'    "{key}": {each!r},'.replace("'", '"') for key, each in value.items()]
    return "\n".join(["{", *lines, "}"]) if lines else "{}"


def _smallest(node: Node, codex: Protocol, ids: Mapping[str, str]) -> Any:
    """Return the smallest value that fits a node; ``ids`` has values of members that are ids."""
    if "const" in node:
        return node["const"]
    if "anyOf" in node:
        return _smallest(node["anyOf"][0], codex, ids)
    if "$ref" not in node:
        plain = {"string": "text", "integer": 1, "number": 1, "boolean": False, "array": []}
        return plain.get(str(node.get("type")), None if node.get("type") == "null" else {})
    match codex.definitions[node["$ref"]]:
        case EnumDef(values=values):
            return values[0]
        case AliasDef(node=inner):
            return _smallest(inner, codex, ids)
        case UnionDef(literals=literals, members=members, nodes=nodes):
            first = nodes[0] if nodes else {"$ref": members[0]} if members else {}
            return literals[0] if literals else _smallest(first, codex, ids)
        case ClassDef(fields=fields, tags=tags):
            required = {f.wire: f.node for f in fields if f.required}
            sample = {
                wire: ids.get(wire) or _smallest(n, codex, ids) for wire, n in required.items()
            }
            return {**sample, **dict(tags)}
        case definition:
            assert_never(definition)


def _items(codex: Protocol, root: Path) -> Iterator[tuple[str, int, str, str]]:
    """Find the members of ``ThreadItem`` that no module of `MAPPING` names."""
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
                missing = (
                    f"no item of type {tag} is mapped: give it an arm in mapping/items.py if it is "
                    f"told in words; if it is a tool call, add before this line, then the arms "
                    f"that mypy asks for:"
                )
                yield TOOL_ITEMS, end, missing, f"    | models.{name}"
                yield from _item_sample(tag, root / ITEM_SAMPLES)


def _item_sample(tag: str, path: Path) -> Iterator[tuple[str, int, str, str]]:
    if path.exists():
        value = _constant(path, "_OTHERS")
        row = f'    ItemSample("", None, {{"type": "{tag}", "id": "item"}}),'
        missing = f"the item {tag} is not tested; if it is a tool call add to _OTHERS:"
        yield ITEM_SAMPLES, value.end_lineno or value.lineno, missing, row


def _constant(path: Path, name: str) -> ast.expr:
    """Return the value of a constant. Raises CodegenError if the module does not define it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return node.value
    raise CodegenError(f"{path} has no table {name}; mend codegen/beside.py")
