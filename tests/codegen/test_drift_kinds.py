"""Every kind of change is seen, and judged by what the project has decided and what it uses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codegen.drift import schema_set
from codegen.drift_compare import compare
from codegen.drift_judge import drift
from codegen.drift_model import Report, SchemaSet, Verdict
from codegen.drift_ours import Ours
from codegen.drift_render import as_json, markdown, terminal, write_report
from codegen.exposure import public_signatures, read_sources, uses
from tests.support.small_protocol import files, method

Schema = dict[str, Any]
CODE = """
from typing import assert_never

from codex_acp.codex._generated import models
from codex_acp.codex._generated.models import Color, Thing


def paint(thing: Thing, shape: models.Shape, color: Color) -> str:
    match shape:
        case models.CircleMember():
            return thing.name
        case models.SquareMember():
            return "red"
        case _:
            assert_never(shape)


def get(client) -> Thing:
    return client.thing_get(models.ThingGetParams(id="x"))
"""
"""A source file that uses the small protocol."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Ours:
    """A project that has decided everything that the small protocol asks for."""
    root = tmp_path_factory.mktemp("ours")
    (root / "src/codex_acp/codex").mkdir(parents=True)
    (root / "src/codex_acp/codex/paint.py").write_text(CODE)
    sources = read_sources(root)
    return Ours(
        routes={"ask": "approval", "known/ask": "decline", "half/ask": "approval"},
        refusals={"ask": "_no", "known/ask": "_no"},
        notifications={"item/done": "mapped by items.done", "known/note": "ignored: of no use"},
        discriminators={
            "McpServerElicitationRequestParams": {"form": "a form", "url": "a page", "eye": "shut"},
            "FileChangeApprovalDecision": {"accept": "offered", "decline": "no"},
        },
        acp_rows=frozenset(),
        mapped=frozenset({"MessageMember", "ToolMember", "KnownMember"}),
        uses=uses(sources),
        public=public_signatures(sources),
        files=tuple(sources),
    )


def at(path: str) -> Callable[[Schema], Any]:
    def find(definitions: Schema) -> Any:
        here: Any = definitions
        for step in path.split("/"):
            here = here[int(step)] if isinstance(here, list) else here[step]
        return here

    return find


def adds(envelope: str, wire: str, params: str = "AskParams") -> Callable[[Schema], None]:
    def edit(definitions: Schema) -> None:
        definitions[envelope]["oneOf"].append(method(wire, params))
        if envelope in ("ServerRequest", "ClientRequest") and params == "NewParams":
            definitions["v2"]["NewParams"] = {"type": "object", "properties": {}}
            definitions["v2"]["NewResponse"] = {"type": "object", "properties": {}}

    return edit


def drops(path: str) -> Callable[[Schema], None]:
    return lambda definitions: at(path)(definitions).pop()


def member(union: str, tag: str, value: str) -> Callable[[Schema], None]:
    def edit(definitions: Schema) -> None:
        definitions["v2"][union]["oneOf"].append(
            {
                "type": "object",
                "title": value[0].upper() + value[1:] + "Member",
                "properties": {tag: {"type": "string", "enum": [value]}},
                "required": [tag],
            }
        )

    return edit


def two_under_one_tag(union: str, number: int) -> Callable[[Schema], None]:
    """The member is itself one of two."""

    def edit(definitions: Schema) -> None:
        whole = definitions["v2"][union]["oneOf"][number]
        text = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "title": "Text"}
        other = {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "title": "File"}
        whole["anyOf"] = [text, other]

    return edit


def field(owner: str, name: str, schema: Schema, *, required: bool) -> Callable[[Schema], None]:
    def edit(definitions: Schema) -> None:
        definition = definitions["v2"][owner]
        definition["properties"][name] = schema
        definition["required"] = [r for r in definition["required"] if r != name]
        definition["required"] += [name] if required else []

    return edit


def without(owner: str, name: str) -> Callable[[Schema], None]:
    def edit(definitions: Schema) -> None:
        del definitions["v2"][owner]["properties"][name]
        definitions["v2"][owner]["required"] = []

    return edit


def value(enum: str, text: str) -> Callable[[Schema], None]:
    return lambda definitions: definitions["v2"][enum]["enum"].append(text)


def no_value(enum: str, text: str) -> Callable[[Schema], None]:
    return lambda definitions: definitions["v2"][enum]["enum"].remove(text)


def object_for_enum(definitions: Schema) -> None:
    definitions["v2"]["Color"] = {"type": "object", "properties": {}}


TEXT: Schema = {"type": "string"}
YES, NO = Verdict.DECISION, Verdict.COMPATIBLE
CASES = [
    (adds("ServerRequest", "new/ask"), "server request", "added", "new/ask", YES, "UNROUTED"),
    (adds("ServerRequest", "known/ask"), "server request", "added", "known/ask", NO, "as decline"),
    (adds("ServerRequest", "half/ask"), "server request", "added", "half/ask", YES, "no negative"),
    (drops("ServerRequest/oneOf"), "server request", "removed", "ask", YES, "superfluous"),
    (adds("ServerNotification", "new/note"), "notification", "added", "new/note", YES, "unmapped"),
    (adds("ServerNotification", "known/note"), "notification", "added", "known/note", NO, "of no"),
    (drops("ServerNotification/oneOf"), "notification", "removed", "item/done", YES, "superfl"),
    (adds("ClientRequest", "new/get", "NewParams"), "request", "added", "new/get", NO, "new_get"),
    (drops("ClientRequest/oneOf"), "request", "removed", "thing/get", YES, "paint.py"),
    (member("ThreadItem", "type", "new"), "item", "added", "new", YES, "unmapped"),
    (member("ThreadItem", "type", "known"), "item", "added", "known", NO, "mapped"),
    (member("McpServerElicitationRequestParams", "mode", "ear"),
     "elicitation mode", "added", "ear", YES, "undecided"),
    (member("McpServerElicitationRequestParams", "mode", "eye"),
     "elicitation mode", "added", "eye", NO, "decided: shut"),
    (value("FileChangeApprovalDecision", "maybe"), "decision", "added", "maybe", YES, "undecided"),
    (no_value("FileChangeApprovalDecision", "decline"),
     "decision", "removed", "decline", YES, "superfluous"),
    (member("Shape", "type", "star"), "member", "added", "star", YES, "paint.py:"),
    (two_under_one_tag("ThreadItem", 0), "item", "changed", "message", YES, "unmapped"),
    (two_under_one_tag("Shape", 0), "member", "changed", "circle", YES, "paint.py:"),
    (drops("v2/Shape/oneOf"), "member", "removed", "square", YES, "paint.py"),
    (value("Color", "blue"), "value", "added", "blue", NO, "codex_acp.codex.paint"),
    (no_value("Color", "red"), "value", "removed", "red", YES, "handwritten code names it"),
    (no_value("Color", "green"), "value", "removed", "green", NO, ""),
    (field("Thing", "age", TEXT, required=False), "field", "added", "age", NO, ""),
    (field("Thing", "age", TEXT, required=True), "field", "added", "age", NO, "older versions"),
    (field("ThingGetParams", "age", TEXT, required=True), "field", "added", "age", YES, "must set"),
    (without("Thing", "name"), "field", "removed", "name", YES, "paint.py"),
    (without("Thing", "note"), "field", "removed", "note", NO, ""),
    (field("Thing", "name", TEXT, required=False), "field", "changed", "name", YES, "may use it"),
    (field("Thing", "note", TEXT, required=True), "field", "changed", "note", NO, ""),
    (field("Thing", "name", {"type": "integer"}, required=True),
     "field", "changed", "name", YES, "may use it"),
    (field("Thing", "name", {"type": ["string", "null"]}, required=True),
     "field", "changed", "name", YES, "may use it"),
    (object_for_enum, "type", "changed", "Color", YES, "paint.py"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "area", "kind", "name", "verdict", "said"),
    CASES,
    ids=[f"{kind} {area} {name} {v.name}" for _, area, kind, name, v, _ in CASES],
)
def test_a_change_is_seen_and_judged(
    ours: Ours,
    edit: Callable[[Schema], None],
    area: str,
    kind: str,
    name: str,
    verdict: Verdict,
    said: str,
) -> None:
    report = drift(schema_set(files()), schema_set(files(edit)), ours)
    (found,) = (
        j for j in report.judged
        if (j.change.area, j.change.kind, j.change.name) == (area, kind, name)
    )  # fmt: skip
    assert found.verdict is verdict
    assert said in f"{found.meaning} {found.places}"
    for render in (terminal, markdown, as_json):
        assert name in render(report)
    wanted = max(j.verdict for j in report.judged)
    assert json.loads(as_json(report))["exit_code"] == int(wanted) == int(report.verdict)


def test_a_new_type_comes_with_what_uses_it(ours: Ours) -> None:
    def edit(definitions: Schema) -> None:
        definitions["v2"]["Box"] = {"type": "object", "properties": {}}
        definitions["v2"]["Thing"]["properties"]["box"] = {"$ref": "#/definitions/v2/Box"}

    report = drift(schema_set(files()), schema_set(files(edit)), ours)
    assert {(j.change.area, j.change.name) for j in report.judged} == {
        ("type", "Box"),
        ("field", "box"),
    }
    assert int(report.verdict) == 3


def test_what_only_the_experimental_bundle_has_is_noted() -> None:
    new = files(value("Color", "blue"))
    stable = new.files["codex/stable.json"]["definitions"]["v2"]["Color"]["enum"]
    stable.remove("blue")
    (change,) = compare(schema_set(files()), schema_set(new))
    assert (change.name, change.experimental) == ("blue", True)


def test_another_name_for_a_plain_value_is_no_change() -> None:
    def edit(definitions: Schema) -> None:
        definitions["v2"]["Label"] = {"type": "string"}
        label = {"$ref": "#/definitions/v2/Label"}
        definitions["v2"]["Thing"]["properties"]["name"] = label

    assert compare(schema_set(files()), schema_set(files(edit))) == ()


def test_what_a_field_is_for_tells_how_the_type_travels() -> None:
    new = schema_set(files(field("ThingGetParams", "age", TEXT, required=False)))
    (change,) = compare(schema_set(files()), new)
    assert change.flow == "sent"


def _report(ours: Ours, edit: Callable[[Schema], None], versions: tuple[str, str]) -> Report:
    def named(made: SchemaSet, version: str) -> SchemaSet:
        return SchemaSet({"codex": version}, made.protocols, made.stable)

    old, new = named(schema_set(files()), versions[0]), named(schema_set(files(edit)), versions[1])
    return drift(old, new, ours)


def test_the_changelog_holds_each_step_once_newest_first(ours: Ours, tmp_path: Path) -> None:
    path = tmp_path / "CHANGELOG.md"
    first = _report(ours, value("Color", "blue"), ("1.0.0", "1.1.0"))
    second = _report(ours, value("Color", "pink"), ("1.1.0", "1.2.0"))
    write_report(path, first)
    write_report(path, second)
    text = path.read_text()
    assert text.startswith("# Changelog\n")
    assert text.index("1.1.0 → 1.2.0") < text.index("1.0.0 → 1.1.0")
    write_report(path, second)
    assert path.read_text() == text
