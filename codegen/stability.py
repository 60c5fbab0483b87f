"""What of a protocol only its unstable schema has: marked in the IR, which is made from that one.

The unstable schema is a superset: fields, union members, methods and whole types may be added.
Anything else that differs between the two has no mark, and stops the run.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.aliases import references
from codegen.errors import CodegenError
from codegen.ir import ClassDef, Definition, EnumDef, FieldDef, Protocol, UnionDef


def marked(whole: Protocol, stable: Protocol, *, strict: bool = True) -> Protocol:
    """``whole`` with its unstable parts marked, and behind the stable ones in every class."""
    definitions: dict[str, Definition] = {}
    for name, definition in whole.definitions.items():
        known = stable.definitions.get(name)
        if strict and known is not None:
            _check_superset(definition, known)
        definitions[name] = _with_marks(definition, known)
    unstable = frozenset(whole.definitions.keys() - stable.definitions.keys())
    return replace(whole, definitions=definitions, experimental=unstable)


def _with_marks(definition: Definition, known: Definition | None) -> Definition:
    if not isinstance(definition, ClassDef) or not isinstance(known, ClassDef):
        return definition
    there = {field.wire for field in known.fields}
    fields = [replace(f, experimental=f.wire not in there) for f in definition.fields]
    fields.sort(key=lambda field: field.experimental)
    return replace(definition, fields=tuple(fields))


def _check_superset(definition: Definition, known: Definition) -> None:
    """Raise CodegenError if ``definition`` does not merely add to ``known``."""
    name = definition.name
    match definition, known:
        case ClassDef(), ClassDef():
            fields = {field.wire: _shape(field) for field in definition.fields}
            wrong = [f.wire for f in known.fields if fields.get(f.wire) != _shape(f)]
        case UnionDef(), UnionDef():
            wrong = sorted(set(known.members) - set(definition.members))
            if definition.members != known.members and definition.kind != "tagged":
                wrong.append(f"a {definition.kind} union")
        case EnumDef(), EnumDef():
            wrong = sorted({str(v) for v in definition.values} ^ {str(v) for v in known.values})
        case _:
            wrong = [] if replace(definition, doc="") == replace(known, doc="") else ["its kind"]
    if wrong:
        msg = f"{name} is otherwise in the stable schema: {', '.join(wrong)}; teach stability.py"
        raise CodegenError(msg)


def _shape(field: FieldDef) -> tuple[object, ...]:
    marks = (field.lenient, field.skip_invalid_items, field.null_as_default)
    return (field.node, field.required, *marks)


def containing(protocol: Protocol) -> frozenset[str]:
    """Stable definitions that hold something unstable, however deep: read otherwise without it."""
    found = {
        name
        for name, definition in protocol.definitions.items()
        if references(definition) & protocol.experimental
        or (isinstance(definition, ClassDef) and any(f.experimental for f in definition.fields))
    }
    while True:
        more = {n for n, d in protocol.definitions.items() if references(d) & found} - found
        if not more:
            return frozenset(found - protocol.experimental)
        found |= more
