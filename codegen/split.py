"""Decide which generated module each definition goes to.

A definition that one group of methods uses lives in the module of that group. A definition that
several groups use lives in the first *hot* group among them, else in ``shared``. Whoever uses a
definition also uses the definitions that it refers to, so the imports form no circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.aliases import references
from codegen.errors import CodegenError
from codegen.ir import Definition, Method, Protocol
from codegen.naming import snake

SHARED = "shared"


def group_of(method: Method, hot: Mapping[str, Sequence[str]]) -> str:
    """Return the hot group that names a method, else the first part of the method's wire name."""
    for group, methods in hot.items():
        if method.wire in methods:
            return group
    first = method.wire.removeprefix("$/").split("/", 1)[0]
    return snake(first)


def closure(roots: set[str], definitions: dict[str, Definition]) -> set[str]:
    """Return ``roots`` without ``""``, and all definitions they refer to, at any depth."""
    seen: set[str] = set()
    waiting = list(roots - {""})
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += references(definitions[name])
    return seen


def assign(protocol: Protocol, hot: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return definition → module. Raises CodegenError if a hot group names an unknown method."""
    methods = [m for of_direction in protocol.methods.values() for m in of_direction]
    unknown = {wire for group in hot.values() for wire in group} - {m.wire for m in methods}
    if unknown:
        raise CodegenError(f"the HOT table names methods that do not exist: {sorted(unknown)}")
    roots: dict[str, set[str]] = {}
    for method in methods:
        names = {method.params or "", method.result or ""}
        roots.setdefault(group_of(method, hot), set()).update(names)
    users: dict[str, set[str]] = {}
    for group, names in roots.items():
        for name in closure(names, protocol.definitions):
            users.setdefault(name, set()).add(group)
    return {name: _module(users[name], hot) for name in protocol.definitions if name in users}


def _module(users: set[str], hot: Mapping[str, Sequence[str]]) -> str:
    for group in hot:
        if group in users:
            return group
    return next(iter(users)) if len(users) == 1 else SHARED


def in_order(names: set[str], definitions: dict[str, Definition]) -> list[str]:
    """Return ``names`` in an order in which each follows the names that its definition refers to.
    Raises CodegenError for a circle."""
    done: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            msg = f"definitions refer to each other in a circle: {' → '.join((*path, name))}"
            raise CodegenError(msg)
        if name not in done:
            for other in sorted(references(definitions[name]) & names):
                visit(other, (*path, name))
            done[name] = None

    for name in sorted(names):
        visit(name, ())
    return list(done)
