"""Which generated module each definition goes to.

A definition used by one group of methods lives with it; one that several use lives in the first
*hot* group among them, else in ``shared``. A definition's users are a subset of the users of what
it refers to, so imports between these modules can form no cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.aliases import references
from codegen.errors import CodegenError
from codegen.ir import Definition, Method, Protocol
from codegen.naming import snake

SHARED = "shared"


def group_of(method: Method, hot: Mapping[str, Sequence[str]]) -> str:
    """The group of one method: a hot one that names it, else the first part of its wire name."""
    for group, methods in hot.items():
        if method.wire in methods:
            return group
    first = method.wire.removeprefix("$/").split("/", 1)[0]
    return snake(first)


def closure(roots: set[str], definitions: dict[str, Definition]) -> set[str]:
    """``roots`` and everything they refer to, however deep."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += references(definitions[name])
    return seen


def assign(protocol: Protocol, hot: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Definition → module. Raises CodegenError when a hot group names an unknown method."""
    methods = [m for rows in protocol.methods.values() for m in rows]
    unknown = {w for ws in hot.values() for w in ws} - {m.wire for m in methods}
    if unknown:
        raise CodegenError(f"the HOT table names methods that do not exist: {sorted(unknown)}")
    roots: dict[str, set[str]] = {}
    for method in methods:
        names = {n for n in (method.params, method.result) if n}
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
    """``names`` so that each comes after what it refers to; a cycle is an error."""
    done: list[str] = []
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == 1:
            msg = f"definitions refer to each other in a circle: {' → '.join((*path, name))}"
            raise CodegenError(msg)
        if name in state:
            return
        state[name] = 1
        for other in sorted(references(definitions[name]) & names):
            visit(other, (*path, name))
        state[name] = 2
        done.append(name)

    for name in sorted(names):
        visit(name, ())
    return done
