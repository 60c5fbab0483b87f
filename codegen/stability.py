"""Mark the parts of a protocol that only its unstable schema has, in the IR of that schema.

The unstable schema is a superset: it may add fields, union members, methods and types. Any other
difference between the two schemas stops the run.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.aliases import references
from codegen.errors import CodegenError
from codegen.ir import ClassDef, Definition, EnumDef, FieldDef, Protocol, UnionDef


def marked(whole: Protocol, stable: Protocol, *, strict: bool = True) -> Protocol:
    """Return ``whole`` with marks on unstable types and fields; stable fields come first."""
    definitions = dict(whole.definitions)
    for name, definition in whole.definitions.items():
        stable_one = stable.definitions.get(name)
        if strict and stable_one is not None:
            _check_superset(definition, stable_one)
        if isinstance(definition, ClassDef) and isinstance(stable_one, ClassDef):
            names = {field.wire for field in stable_one.fields}
            fields = [replace(f, experimental=f.wire not in names) for f in definition.fields]
            fields.sort(key=lambda field: field.experimental)
            definitions[name] = replace(definition, fields=tuple(fields))
    unstable = frozenset(whole.definitions.keys() - stable.definitions.keys())
    return replace(whole, definitions=definitions, experimental=unstable)


def _check_superset(definition: Definition, stable: Definition) -> None:
    """Raise CodegenError if ``definition`` does not merely add to ``stable``."""
    name = definition.name
    match definition, stable:
        case ClassDef(), ClassDef():
            fields = {field.wire: _shape(field) for field in definition.fields}
            wrong = [f.wire for f in stable.fields if fields.get(f.wire) != _shape(f)]
        case UnionDef(), UnionDef():
            wrong = sorted(set(stable.members) - set(definition.members))
            if definition.members != stable.members and definition.kind != "tagged":
                wrong.append(f"a {definition.kind} union")
        case EnumDef(), EnumDef():
            wrong = sorted({str(v) for v in definition.values} ^ {str(v) for v in stable.values})
        case _:
            wrong = [] if replace(definition, doc="") == replace(stable, doc="") else ["its kind"]
    if wrong:
        msg = f"{name} is otherwise in the stable schema: {', '.join(wrong)}; teach stability.py"
        raise CodegenError(msg)


def _shape(field: FieldDef) -> tuple[object, ...]:
    marks = (field.lenient, field.skip_invalid_items, field.null_as_default)
    return (field.node, field.required, *marks)


def containing(protocol: Protocol) -> frozenset[str]:
    """Return the stable definitions that contain unstable parts, at any depth."""
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
