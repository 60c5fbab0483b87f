"""What new requests and items need beside tables and matches: the tests' rows.

Works on text and syntax. A file that is not there (a copy of ``src`` alone) asks for nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.errors import CodegenError
from codegen.ir import Protocol, UnionDef

MAPPING = "src/codex_acp/mapping"
TOOL_ITEMS = f"{MAPPING}/calls/open_calls.py"
ITEM_SAMPLES = "tests/support/tool_call_samples.py"


@dataclass(frozen=True)
class Place:
    """A table of the tests: a new request's row stands before the line where it ends."""

    path: str
    name: str
    row: str
    also: tuple[str, str] | None = None
    """(path, constant) of another table that has every request which needs no row here."""


_SAMPLE = '    "{wire}": {{}},  # its params, as Codex sends them'

_ROUTING = "tests/support/routing_samples.py"
_REFUSALS = "tests/codex/test_refusals.py"
PLACES = (
    Place("tests/codex/server_request_samples.py", "SAMPLES", _SAMPLE),
    Place(_ROUTING, "PARAMS", _SAMPLE),
    Place(
        _REFUSALS, "ERRORS",
        '    "{wire}",  # or a row of EXPECTED, where its reply can say no',
        also=(_REFUSALS, "EXPECTED"),
    ),
    Place(
        "tests/routing/test_classify.py", "TABLE",
        '    ("{wire}", request("{wire}"), running(), ProgramOnly),  # what classify() makes of it',
        also=(_ROUTING, "PARAMS"),
    ),
)  # fmt: skip


def beside(codex: Protocol, root: Path) -> Iterator[tuple[str, int, str, str]]:
    """(file, line, what is missing, the lines to add before that line)."""
    methods = codex.methods["server_requests"]
    for place in PLACES:
        if not (root / place.path).exists():
            continue
        table = _constant(root / place.path, place.name)
        has = ast.unparse(table)
        if place.also is not None:
            has += ast.unparse(_constant(root / place.also[0], place.also[1]))
        for method in methods:
            if f"'{method.wire}'" not in has:
                what = f"server request {method.wire} is not tested; add to {place.name}:"
                end = table.end_lineno or table.lineno
                yield place.path, end, what, place.row.format(wire=method.wire)
    yield from _items(codex, root)


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
