"""What handwritten code lacks is printed as the line to add, with the file and the place."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from codegen import beside
from codegen.arms import closed_sets, lacking
from codegen.beside import ITEM_SAMPLES, TOOL_ITEMS
from codegen.coverage import Missing, missing, of_match
from codegen.exposure import read_sources
from codegen.ir import ClassDef, EnumDef, Method, Protocol, UnionDef
from codegen.pinned import ROOT
from codegen.regen import load_acp, load_codex
from codegen.tables import acp_tables


def protocol(shapes: str, colors: str) -> Protocol:
    """A protocol with one union and one enum."""
    names = shapes.split()
    choices = tuple((name.lower(), (name,)) for name in names)
    return Protocol(
        "codex",
        {
            **{name: ClassDef(name, ()) for name in names},
            "Shape": UnionDef("Shape", "tagged", tuple(names), "type", choices),
            "Color": EnumDef("Color", tuple(colors.split()), is_open=True),
        },
    )


MATCHES = """
from typing import assert_never

from codex_acp.codex._generated import models
from codex_acp.codex._generated.models import Circle, Square
from codex_acp.wire.model import UnknownValue


def of_classes(shape):
    match shape:
        case Circle():
            return 1
        case Square(side=4):
            return 2
        case _:
            assert_never(shape)


def of_attributes(shape):
    match shape:
        case models.Circle() | models.Square():
            return 1
        case _:
            assert_never(shape)


def of_values(color):
    match color:
        case "red" | "green":
            return 1
        case UnknownValue():
            return 2
        case _:
            assert_never(color)


def with_a_test_before(shape):
    if isinstance(shape, models.Star):
        return 0
    match shape:
        case Circle() | Square():
            return 1
        case _:
            assert_never(shape)


def open_end(shape):
    match shape:
        case Circle():
            return 1
        case _:
            return 2
"""


def lacks(root: Path, now: Protocol) -> list[tuple[int, str]]:
    found = lacking(read_sources(root), closed_sets({"codex": now}))
    return [(lack.line, lack.arm) for lack in found]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/codex_acp").mkdir(parents=True)
    (tmp_path / "src/codex_acp/shapes.py").write_text(MATCHES)
    return tmp_path


def test_a_new_member_is_missing_in_each_closed_match_but_where_it_is_tested(root: Path) -> None:
    found = lacks(root, protocol("Circle Square Star", "red green"))
    assert found == [(15, "case Star():"), (23, "case models.Star():")]


def test_what_is_to_be_added_is_whole_and_can_be_pasted(root: Path) -> None:
    source = root / "src/codex_acp/shapes.py"
    lines = source.read_text().splitlines()
    now = protocol("Circle Square Star", "red green blue")
    arms = [of_match(k) for k in lacking(read_sources(root), closed_sets({"codex": now}))]
    for arm in reversed(arms):
        lines[arm.line - 1 : arm.line - 1] = arm.paste.splitlines()
    compile("\n".join(lines), "shapes.py", "exec")
    assert [a.paste.splitlines()[0] for a in arms] == [
        "        case Star():",
        "        case models.Star():",
        '        case "blue":',
    ]
    assert "`from codex_acp.codex._generated.models import Star`" in arms[0].text
    assert "import" not in arms[1].text


def test_a_new_value_is_missing_in_its_match(root: Path) -> None:
    assert lacks(root, protocol("Circle Square", "red green blue")) == [(33, 'case "blue":')]


def test_nothing_is_missing_when_nothing_is_new(root: Path) -> None:
    assert lacks(root, protocol("Circle Square", "red green")) == []


def test_the_source_as_it_is_lacks_nothing() -> None:
    codex = load_codex()
    assert [str(m) for m in missing(codex, ROOT, load_acp())] == []


def test_a_new_method_of_acp_is_missing_in_every_table_of_its_side() -> None:
    acp = load_acp()
    v1 = acp["v1"]
    new = Method("session/dream", "NewSessionRequest", "NewSessionResponse")
    methods = {**v1.methods, "agent_requests": (*v1.methods["agent_requests"], new)}
    dreaming = Protocol("v1", v1.definitions, methods)
    found = missing(load_codex(), ROOT, {**acp, "v1": dreaming})
    tables = acp_tables(read_sources(ROOT), {"v1": v1})
    wanted = {table.path for _, table, _ in tables if "session/new" in table.keys}
    assert wanted
    assert {m.path for m in found} == wanted
    assert {m.paste.strip() for m in found} == {
        '"session/dream": None,  # not offered; or the function that handles it'
    }


def test_an_import_of_what_is_gone_is_named() -> None:
    codex = load_codex()
    definitions = {n: d for n, d in codex.definitions.items() if n != "FileChangeThreadItem"}
    found = missing(Protocol("codex", definitions, codex.methods), ROOT)
    gone = [m for m in found if m.text.startswith("FileChangeThreadItem is gone")]
    assert "src/codex_acp/codex/approvals/running_items.py" in {m.path for m in gone}
    assert isinstance(gone[0], Missing)
    assert gone[0].line > 0


def test_a_table_of_version_2_has_the_methods_of_version_2(root: Path) -> None:
    text = "from codex_acp.acp import v2\n\nrows: v2.ClientRequestHandlers = {}\n"
    path = root / "src/codex_acp/acp/paint.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    ((version, table, _),) = acp_tables(read_sources(root), load_acp())
    assert version == "v2"
    assert table.keys == {"session/request_permission", "elicitation/create"}


def test_a_table_ends_on_a_line_of_its_own_before_which_a_row_can_be_added() -> None:
    tables = acp_tables(read_sources(ROOT), load_acp())
    assert [t.path for _, t, rows in tables if rows.end in rows.lines.values()] == []


PATH = re.compile(r"(?<![\w/])(?:[\w-]+/)+[\w-]+\.(?:py|md|jinja)\b")

GENERATED = "/_generated/"


def test_each_file_that_the_generator_names_exists() -> None:
    """A hint for a file that is gone would print nothing, or send a reader nowhere."""
    places = (ROOT, ROOT / "src" / "codex_acp")
    gone = [
        f"{module.name}: {path}"
        for module in sorted((ROOT / "codegen").glob("*.py"))
        for path in PATH.findall(_words_of(module))
        if GENERATED not in path and not any((place / path).is_file() for place in places)
    ]
    assert gone == []


def _words_of(module: Path) -> str:
    """All strings of a module, those of constants that hold a path with what it is made of."""
    tree = ast.parse(module.read_text())
    words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    loaded = vars(import_module(f"codegen.{module.stem}")) if module.stem in WITH_PLACES else {}
    words += [value for name, value in loaded.items() if not name.startswith("__")]
    return "\n".join(word for word in words if isinstance(word, str))


WITH_PLACES = {"beside", "tables", "arms", "exposure"}
"""Modules whose constants are joined from others, which the syntax alone does not show."""


def test_each_table_of_samples_that_the_generator_names_exists() -> None:
    tables = {(row.path, row.table) for row in beside._rows(load_codex())}
    for path, table in tables | {(ITEM_SAMPLES, "_OTHERS")}:
        assert beside._constant(ROOT / path, table) is not None


def test_an_item_that_nothing_maps_is_printed_with_its_sample() -> None:
    codex = load_codex()
    items = codex.definitions["ThreadItem"]
    assert isinstance(items, UnionDef)
    choices = (*items.choices, ("hologram", ("HologramThreadItem",)))
    more = {**codex.definitions, "ThreadItem": replace(items, choices=choices)}
    said = {
        path: paste for path, _, _, paste in beside.beside(replace(codex, definitions=more), ROOT)
    }
    assert said[TOOL_ITEMS] == "    | models.HologramThreadItem"
    assert '{"type": "hologram", "id": "item"}' in said[ITEM_SAMPLES]
