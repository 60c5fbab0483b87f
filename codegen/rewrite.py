"""Rewrite the classes of datamodel-code-generator to this project's rules, on the syntax tree.

Adds literal tags with their value, defaults, the annotations of ``codex_acp.wire.reading``, and
attribute docstrings.
"""

from __future__ import annotations

import ast

from codegen.errors import CodegenError
from codegen.ir import ClassDef, FieldDef
from codegen.normalise import is_nullable

RENAMED = {"field_meta": "meta"}
"""Attribute of datamodel-code-generator → this project's name (the property is ``_meta``)."""

_EMPTY: dict[str, object] = {"boolean": False, "array": [], "object": {}}
"""Default of an optional value that is not nullable and has no default in the schema."""


def fields_of(
    node: ast.ClassDef, definition: ClassDef
) -> dict[str, tuple[ast.AnnAssign, FieldDef]]:
    """Return attribute → its statement, and its property. Raises CodegenError if they differ."""
    wires = {f.wire: f for f in definition.fields}
    fields: dict[str, tuple[ast.AnnAssign, FieldDef]] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            wire = _alias(statement.annotation) or statement.target.id
            attribute = RENAMED.get(statement.target.id, statement.target.id)
            if wire not in wires or attribute in fields:
                msg = f"{definition.name}.{attribute} matches no single property of the schema"
                raise CodegenError(msg)
            fields[attribute] = (statement, wires[wire])
    if len(fields) != len(wires):
        msg = f"{definition.name} lost {sorted(set(wires) - {f.wire for _, f in fields.values()})}"
        raise CodegenError(msg)
    return fields


def rewrite_class(node: ast.ClassDef, definition: ClassDef) -> ast.ClassDef:
    """Return the class statement for the generated module."""
    fields = fields_of(node, definition)
    body: list[ast.stmt] = []
    if definition.doc:
        body.append(ast.Expr(ast.Constant(_clean(definition.doc))))
    tags = [a for a, (_, f) in fields.items() if "const" in f.node]
    if tags:
        value = ast.Tuple([ast.Constant(t) for t in tags], ast.Load())
        kind = ast.parse("ClassVar[tuple[str, ...]]", mode="eval").body
        body.append(ast.AnnAssign(ast.Name("wire_tags", ast.Store()), kind, value, 1))
    for attribute, (statement, field) in fields.items():
        body.append(_field(attribute, statement, field))
        if field.doc:
            body.append(ast.Expr(ast.Constant(_clean(field.doc))))
    return ast.ClassDef(
        definition.name, [ast.Name("WireModel", ast.Load())], [], body or [ast.Pass()], []
    )


def _clean(doc: str) -> str:
    return "\n".join(line.rstrip() for line in doc.strip().splitlines())


def _metadata(annotation: ast.expr) -> tuple[ast.expr, list[ast.keyword]]:
    """Return ``T`` and the keywords of ``Annotated[T, Field(...)]``."""
    if (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.value, ast.Name)
        and annotation.value.id == "Annotated"
        and isinstance(annotation.slice, ast.Tuple)
    ):
        bare, *extras = annotation.slice.elts
        keywords = [k for call in extras if isinstance(call, ast.Call) for k in call.keywords]
        return bare, keywords
    return annotation, []


def _alias(annotation: ast.expr) -> str | None:
    for keyword in _metadata(annotation)[1]:
        if keyword.arg == "alias" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return None


def _without_none(annotation: ast.expr) -> ast.expr:
    if (
        isinstance(annotation, ast.BinOp)
        and isinstance(annotation.right, ast.Constant)
        and annotation.right.value is None
    ):
        return annotation.left
    return annotation


def _annotated(annotation: ast.expr, *extras: ast.expr) -> ast.expr:
    if not extras:
        return annotation
    inner = ast.Tuple([annotation, *extras], ast.Load())
    return ast.Subscript(ast.Name("Annotated", ast.Load()), inner, ast.Load())


def _drop_invalid_items(annotation: ast.expr) -> ast.expr:
    """Turn ``list[T]`` (or ``list[T] | None``) into ``list[Annotated[T, OMIT_IF_INVALID]]``."""
    if isinstance(annotation, ast.BinOp):
        return ast.BinOp(_drop_invalid_items(annotation.left), ast.BitOr(), annotation.right)
    if not isinstance(annotation, ast.Subscript):
        raise CodegenError(f"skip-invalid-items on {ast.unparse(annotation)}, which is no list")
    item = _annotated(annotation.slice, ast.Name("OMIT_IF_INVALID", ast.Load()))
    return ast.Subscript(annotation.value, item, ast.Load())


def _field(attribute: str, statement: ast.AnnAssign, field: FieldDef) -> ast.AnnAssign:
    bare, keywords = _metadata(statement.annotation)
    default, has_default = default_of(field)
    marks: list[str] = []
    is_any = ast.unparse(_without_none(bare)) == "Any"
    if is_any or (field.required and not is_nullable(field.node)):
        bare = _without_none(bare)
    elif has_default and not is_nullable(field.node):
        if default is None:
            marks.append("NOT_NULL")
        else:
            bare = _without_none(bare)
    if field.skip_invalid_items:
        bare = _drop_invalid_items(bare)
    if field.null_as_default:
        marks.append("EMPTY_IF_NULL")
    if field.lenient:
        marks.append("EMPTY_IF_INVALID" if field.required else "OMIT_IF_INVALID")
    extras: list[ast.expr] = []
    if keywords:
        # ``Field`` first, so that its bounds apply to the value and not to the result of a mark.
        extras.append(ast.Call(ast.Name("Field", ast.Load()), [], keywords))
    extras += [ast.Name(m, ast.Load()) for m in marks]
    return ast.AnnAssign(
        ast.Name(attribute, ast.Store()),
        _annotated(bare, *extras),
        ast.parse(repr(default), mode="eval").body if has_default else None,
        1,
    )


def default_of(field: FieldDef) -> tuple[object, bool]:
    """Return the attribute's default, and whether it has one; of required fields, only tags do."""
    if "const" in field.node:
        return field.node["const"], True
    if field.required:
        return None, False
    if field.has_default and not isinstance(field.default, dict):
        return field.default, True
    if not is_nullable(field.node) and "$ref" not in field.node:
        kind = str(field.node.get("type"))
        if kind in _EMPTY:
            return _EMPTY[kind], True
    return None, True
