"""Matches over generated unions and enums that end in ``assert_never``: which arms they lack.

Works on syntax. What a match is over says the annotation of its parameter; where there is none, it
is the smallest union, or the smallest enum, that has all of its arms. A match that could belong to
several, and one over a type of our own, are left to mypy, which knows.
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
"""Arms for what no schema has."""

_UNDECIDED = "Not" + "ImplementedError"
"""Written apart: that no handwritten file holds it is a test."""


@dataclass(frozen=True)
class Match:
    """One closed match: where its last arm is, and what its other arms name."""

    path: str
    line: int
    subject: str
    classes: frozenset[tuple[str, str]]
    """(protocol, generated name)."""
    elsewhere: frozenset[tuple[str, str]]
    """Classes that the function tells apart with ``isinstance``."""
    literals: frozenset[str]
    declared: tuple[tuple[str, str], ...]
    """The generated names that the parameter is annotated with; empty if it is not."""
    prefix: str
    """How the file writes a class before its name: ``models.``, or nothing."""
    module: str
    """Where the file imports the classes of its arms from, by their names; or nothing."""
    indent: int
    """The column of ``case``."""


CLASSIFY = "src/codex_acp/codex/approvals/classify.py"
"""Where an arm can decline, which is what becomes of a request until somebody decides more."""

_LINE_LENGTH = 100
"""What ruff allows."""


@dataclass(frozen=True)
class Lack:
    """An arm that a match lacks: the line to add before ``line``."""

    path: str
    line: int
    union: str
    arm: str
    value: str
    module: str = ""
    """What the class is to be imported from; empty if it is there already."""
    indent: int = 0

    @property
    def whole_arm(self) -> str:
        """The arm with a body that runs and type-checks.

        Where it can, it declines; elsewhere no test lets it pass.
        """
        column = " " * self.indent
        if self.path == CLASSIFY:
            wanted = 'f"{request.method}' if self.union == "ServerRequest" else f'"{self.value}'
            body = f'return Refused(request, {wanted} is not offered by this client")'
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
    """Every union, enum and set of methods that a match can be over."""
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
            rows = protocol.methods.get(direction, ())
            classes = frozenset(pascal(m.wire) + end for m in rows)
            found[key, union] = (classes, frozenset())
    return found


def _leaves(union: str, protocol: Protocol) -> Iterator[str]:
    """The members of a union, with those of the unions among them in their place."""
    definition = protocol.definitions.get(union)
    if not isinstance(definition, UnionDef):
        yield union
        return
    for member in definition.members:
        yield from _leaves(member, protocol)


def closed_matches(files: list[SourceFile]) -> Iterator[Match]:
    """Every match of handwritten code whose last arm is ``assert_never``."""
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


def lacking(files: list[SourceFile], sets: Sets) -> list[Lack]:
    """Every arm that is missing, each once."""
    found: dict[Lack, None] = {}
    for match in closed_matches(files):
        for union in match.declared or tuple(sets):
            if union not in sets:
                continue  # a class: the parameter is one of the members
            classes, literals = sets[union]
            if not match.declared and not _is_over(match, union[0], classes, literals, sets):
                continue
            named = {name for _, name in match.classes | match.elsewhere}
            at = (match.path, match.line, union[1])
            for name in sorted(classes - named):
                arm = f"case {match.prefix}{name}():"
                found[Lack(*at, arm, name, match.module, match.indent)] = None
            for value in sorted(literals - match.literals):
                found[Lack(*at, f'case "{value}":', value, "", match.indent)] = None
    return list(found)


def _is_over(
    match: Match, protocol: str, classes: frozenset[str], literals: frozenset[str], sets: Sets
) -> bool:
    """Whether this is the one smallest set that has all arms of the match."""

    def has_all(key: str, some: frozenset[str], values: frozenset[str]) -> bool:
        return (
            match.literals <= values
            and {(key, name) for name in some} >= match.classes
            and bool(match.classes) == bool(some)
            and bool(match.literals) == bool(values)
        )

    if not has_all(protocol, classes, literals):
        return False
    size = len(classes) + len(literals)
    fitting = [(c, v) for (key, _), (c, v) in sets.items() if has_all(key, c, v)]
    smallest = [(c, v) for c, v in fitting if len(c) + len(v) <= size]
    return len(set(smallest)) == 1


def _is_closed(node: ast.Match) -> bool:
    last = node.cases[-1]
    is_wild = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    return is_wild and any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "assert_never"
        for statement in last.body
        for n in ast.walk(statement)
    )


def _tested(function: ast.AST, file: SourceFile) -> set[tuple[str, str]]:
    """Generated classes that ``isinstance`` tells apart somewhere in the function."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(function):
        is_test = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_test and isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            for inner in ast.walk(node.args[-1]):
                key = file.generated(inner) if isinstance(inner, ast.expr) else None
                if key is not None:
                    found.add(key)
    return found


def _annotation(subject: ast.expr, function: Function) -> ast.expr | None:
    """How the function's parameter of that name is annotated."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if isinstance(subject, ast.Name) and argument.arg == subject.id:
            return argument.annotation
    return None


def _joined(annotation: ast.expr) -> Iterator[ast.expr]:
    """The parts of ``A | B``."""
    if isinstance(annotation, ast.BinOp):
        yield from _joined(annotation.left)
        yield from _joined(annotation.right)
    else:
        yield annotation


def _declared(
    subject: ast.expr, file: SourceFile, function: Function
) -> tuple[tuple[str, str], ...] | None:
    """What the subject is annotated with; None for a type that is not generated."""
    annotation = _annotation(subject, function)
    if annotation is None or ast.unparse(annotation) == "str":
        return ()
    keys = [file.generated(part) for part in _joined(annotation)]
    known = tuple(key for key in keys if key is not None)
    return known if len(known) == len(keys) else None


def _match(node: ast.Match, file: SourceFile, function: Function) -> Match | None:
    declared = _declared(node.subject, file, function)
    if declared is None:
        return None  # a type of our own, which need not grow with any union
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
        ast.unparse(node.subject),
        frozenset(classes),
        frozenset(_tested(function, file)),
        frozenset(literals),
        declared,
        prefix,
        "" if prefix else _module(classes, file),
        node.cases[-1].pattern.col_offset - len("case "),
    )


def _module(classes: set[tuple[str, str]], file: SourceFile) -> str:
    """The module that one of the classes is imported from."""
    for node in file.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.asname or alias.name for alias in node.names]
            if any(file.names.get(name) in classes for name in names):
                return node.module
    return ""


def _alternatives(pattern: ast.pattern) -> Iterator[ast.pattern]:
    if isinstance(pattern, ast.MatchOr):
        for inner in pattern.patterns:
            yield from _alternatives(inner)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from _alternatives(pattern.pattern)
    else:
        yield pattern
