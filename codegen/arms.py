"""Find missing arms of closed matches, which are over generated types and end in ``assert_never``.

Works on syntax. The union or enum of a match is that of its subject's annotation; without an
annotation, it is the smallest union or enum that has all arms of the match. Matches with several
smallest ones, and those over handwritten types, are left to mypy, which knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from codegen.exposure import SourceFile
from codegen.ir import EnumDef, Protocol, UnionDef
from codegen.naming import pascal

UNKNOWN = {"UnknownVariant", "UnknownValue", "UnknownNotification"}
"""Classes of arms for values that no schema has."""

_UNDECIDED = "Not" + "ImplementedError"
"""In two parts, because a test forbids the name in handwritten files."""


@dataclass(frozen=True)
class Match:
    """One closed match."""

    path: str
    line: int
    """Line of the last arm, before which new arms belong."""
    classes: frozenset[tuple[str, str]]
    """(protocol, generated name) of the classes of the other arms."""
    tested: frozenset[tuple[str, str]]
    """Classes that the function recognises with ``isinstance``, which need no arm."""
    literals: frozenset[str]
    declared: tuple[tuple[str, str], ...]
    """The generated names of the subject's annotation; empty without an annotation."""
    prefix: str
    """Text before a class in this file: ``models.``, or nothing."""
    module: str
    """Module from which the file imports the classes of the arms; empty with a ``prefix``."""
    indent: int
    """The column of ``case``."""


CLASSIFY = "src/codex_acp/codex/approvals/classify.py"
"""The file in which a new arm can decline the request, until somebody decides otherwise."""

_LINE_LENGTH = 100
"""The limit of ruff."""


@dataclass(frozen=True)
class MissingArm:
    """An arm that a match lacks, to be added before ``line``."""

    path: str
    line: int
    union: str
    arm: str
    value: str
    module: str = ""
    """Module from which the class must be imported; empty if the file can name the class."""
    indent: int = 0

    @property
    def whole_arm(self) -> str:
        """The arm with a body that type-checks: it declines in `CLASSIFY`, and raises elsewhere."""
        column = " " * self.indent
        if self.path == CLASSIFY:
            named = 'f"{request.method}' if self.union == "ServerRequest" else f'"{self.value}'
            body = f'return Refused(request, {named} is not offered by this client")'
            short = 'return Refused(request, "it is not offered by this client")'
        else:
            body = f'raise {_UNDECIDED}("say what becomes of {self.value}")'
            short = f'raise {_UNDECIDED}("say what becomes of it")'
        fits = len(f"{column}    {body}") <= _LINE_LENGTH
        return f"{column}{self.arm}\n{column}    {body if fits else short}"


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Sets: TypeAlias = Mapping[tuple[str, str], tuple[frozenset[str], frozenset[str]]]
"""(protocol, union or enum) → its classes and its literals."""


def closed_sets(protocols: Mapping[str, Protocol]) -> Sets:
    """Return every union, enum and set of methods that can be the type of a match's subject."""
    found: dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]] = {}
    for key, protocol in protocols.items():
        for name, definition in protocol.definitions.items():
            if isinstance(definition, UnionDef):
                members = frozenset(_leaves(name, protocol))
                found[key, name] = (members, frozenset(definition.literals))
            elif isinstance(definition, EnumDef):
                values = frozenset(v for v in definition.values if isinstance(v, str))
                found[key, name] = (frozenset(), values)
        for direction, union, end in (
            ("server_requests", "ServerRequest", ""),
            ("server_notifications", "ServerNotification", "Event"),
        ):
            methods = protocol.methods.get(direction, ())
            classes = frozenset(pascal(m.wire) + end for m in methods)
            found[key, union] = (classes, frozenset())
    return found


def _leaves(union: str, protocol: Protocol) -> Iterator[str]:
    """Yield the members of a union; in place of a member that is a union, its members."""
    definition = protocol.definitions.get(union)
    if not isinstance(definition, UnionDef):
        yield union
        return
    for member in definition.members:
        yield from _leaves(member, protocol)


def closed_matches(files: list[SourceFile]) -> Iterator[Match]:
    """Yield every match whose last arm is ``assert_never``."""
    for file in files:
        if "assert_never" not in file.text:
            continue
        for function in file.nodes:
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Match) and _is_closed(node):
                    found = _match(node, file, function)
                    if found is not None:
                        yield found


def lacking(files: list[SourceFile], sets: Sets) -> list[MissingArm]:
    """Return every missing arm, each once."""
    found: dict[MissingArm, None] = {}
    for match in closed_matches(files):
        for protocol, union in match.declared or tuple(sets):
            if (protocol, union) not in sets:
                continue  # the parameter is annotated with one member of a union
            classes, literals = sets[protocol, union]
            if not match.declared and not _is_over(match, protocol, classes, literals, sets):
                continue
            known = {name for _, name in match.classes | match.tested}
            at = (match.path, match.line, union)
            for name in sorted(classes - known):
                arm = f"case {match.prefix}{name}():"
                found[MissingArm(*at, arm, name, match.module, match.indent)] = None
            for value in sorted(literals - match.literals):
                found[MissingArm(*at, f'case "{value}":', value, "", match.indent)] = None
    return list(found)


def _is_over(
    match: Match, protocol: str, classes: frozenset[str], literals: frozenset[str], sets: Sets
) -> bool:
    """Return whether ``classes`` and ``literals`` are the only smallest set with all arms."""

    def has_all_arms(key: str, names: frozenset[str], values: frozenset[str]) -> bool:
        return (
            match.literals <= values
            and {(key, name) for name in names} >= match.classes
            and bool(match.classes) == bool(names)
            and bool(match.literals) == bool(values)
        )

    if not has_all_arms(protocol, classes, literals):
        return False
    size = len(classes) + len(literals)
    fitting = {(c, v) for (key, _), (c, v) in sets.items() if has_all_arms(key, c, v)}
    return all(len(c) + len(v) > size for c, v in fitting - {(classes, literals)})


def _is_closed(node: ast.Match) -> bool:
    last = node.cases[-1]
    matches_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    return matches_all and any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "assert_never"
        for statement in last.body
        for n in ast.walk(statement)
    )


def _tested(function: ast.AST, file: SourceFile) -> set[tuple[str, str]]:
    """Return the generated classes that the function tests with ``isinstance``."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            for inner in ast.walk(node.args[-1]):
                key = file.generated(inner) if isinstance(inner, ast.expr) else None
                if key is not None:
                    found.add(key)
    return found


def _members_of(annotation: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of ``A | B``."""
    if isinstance(annotation, ast.BinOp):
        yield from _members_of(annotation.left)
        yield from _members_of(annotation.right)
    else:
        yield annotation


def _declared(
    subject: ast.expr, file: SourceFile, function: Function
) -> tuple[tuple[str, str], ...] | None:
    """Return the generated names of the subject's annotation; None if it has other names, too."""
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    annotations = {parameter.arg: parameter.annotation for parameter in parameters}
    annotation = annotations.get(subject.id) if isinstance(subject, ast.Name) else None
    if annotation is None or ast.unparse(annotation) == "str":
        return ()
    keys = [file.generated(part) for part in _members_of(annotation)]
    generated = tuple(key for key in keys if key is not None)
    return generated if len(generated) == len(keys) else None


def _match(node: ast.Match, file: SourceFile, function: Function) -> Match | None:
    declared = _declared(node.subject, file, function)
    if declared is None:
        return None  # a handwritten type, which need not grow with the schema
    classes: set[tuple[str, str]] = set()
    literals: set[str] = set()
    prefix = ""
    for case in node.cases[:-1]:
        for pattern in _alternatives(case.pattern):
            if isinstance(pattern, ast.MatchClass):
                name = ast.unparse(pattern.cls).rpartition(".")[2]
                key = file.generated(pattern.cls)
                if name in UNKNOWN:
                    continue
                if key is None:
                    return None
                classes.add(key)
                if isinstance(pattern.cls, ast.Attribute):
                    prefix = f"{ast.unparse(pattern.cls.value)}."
            elif isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
                literals.add(str(pattern.value.value))
            elif not isinstance(pattern, ast.MatchSingleton):
                return None
    if not classes and not literals:
        return None
    return Match(
        file.path,
        node.cases[-1].pattern.lineno,
        frozenset(classes),
        frozenset(_tested(function, file)),
        frozenset(literals),
        declared,
        prefix,
        "" if prefix else _module(classes, file),
        node.cases[-1].pattern.col_offset - len("case "),
    )


def _module(classes: set[tuple[str, str]], file: SourceFile) -> str:
    """Return the first module from which one of the classes is imported."""
    for node in file.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.asname or alias.name for alias in node.names]
            if any(file.names.get(name) in classes for name in names):
                return node.module
    return ""


def _alternatives(pattern: ast.pattern) -> Iterator[ast.pattern]:
    """Yield the parts of ``A() | B()``, without names that ``as`` gives."""
    if isinstance(pattern, ast.MatchOr):
        for inner in pattern.patterns:
            yield from _alternatives(inner)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from _alternatives(pattern.pattern)
    else:
        yield pattern
