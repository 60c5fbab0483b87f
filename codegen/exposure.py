"""Find the generated types that handwritten code uses, and those that public signatures show.

Reads ``src`` as syntax, without importing it. A use is an import of a generated name, or
``models.NAME``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

SRC = "src/codex_acp"
PUBLIC_PACKAGES = ("codex", "acp", "testing")
"""The packages of the stable API that can show generated types."""

_OTHER_MODULES = (
    ".calls", ".handlers", ".handler_registration", ".methods", ".version", ".discriminators",
)  # fmt: skip
"""Generated modules with other names than those of definitions and methods."""

_GENERATED = re.compile(r"_generated|codex_acp\.(?:acp|codex) import|\.(?:types|unstable|v2)\b")
"""Text that every file has which imports a generated name."""

_PACKAGES = ("models", "notifications", "server_requests", "types", "unstable", "v2")
"""Modules that files import as a whole, to write ``models.NAME``."""

_CODEX_JSON = (f"{SRC}/codex/", f"{SRC}/mapping/")
"""Folders whose modules also handle Codex's messages as plain JSON."""


@dataclass(frozen=True)
class SourceFile:
    """One handwritten file: its syntax, and the generated names that it imports."""

    path: str
    text: str
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name in this file → (``codex``, ``v1`` or ``v2``; generated name)."""
    packages: dict[str, str] = field(default_factory=dict)
    """Name in this file of a generated module (``models``) → the module's protocol."""
    lines: dict[str, int] = field(default_factory=dict)
    """Name of a generated type in this file → the line that imports the type."""

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax, read when it is first needed: most files use no generated name."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def words(self) -> frozenset[str]:
        """Every attribute, keyword and string of the file."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg:
                found.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
        return frozenset(found)

    def generated(self, node: ast.expr) -> tuple[str, str] | None:
        """Return (protocol, name) of an expression that is a generated name; else None."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            protocol = self.packages.get(node.value.id)
            return None if protocol is None else (protocol, node.attr)
        return None

    @property
    def protocols(self) -> set[str]:
        """The protocols whose generated names the file uses, or whose plain JSON it handles."""
        plain = {"codex"} if self.path.startswith(_CODEX_JSON) else set()
        return plain | {protocol for protocol, _ in self.names.values()} | {*self.packages.values()}


def read_sources(root: Path) -> list[SourceFile]:
    """Read every handwritten file of ``src``, in the order of the paths."""
    return [
        _parsed(path.relative_to(root).as_posix(), path.read_text())
        for path in sorted((root / SRC).rglob("*.py"))
        if "_generated" not in path.parts
    ]


@lru_cache(maxsize=2048)
def _parsed(path: str, text: str) -> SourceFile:
    source = SourceFile(path, text)
    for node in source.nodes if _GENERATED.search(text) else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            _add_imports(source, node.module, node)
    return source


def _add_imports(source: SourceFile, module: str, node: ast.ImportFrom) -> None:
    protocol = _protocol_of(module)
    for alias in node.names:
        name = alias.asname or alias.name
        package = _protocol_of(f"{module}.{alias.name}") if alias.name in _PACKAGES else None
        if package is not None:
            source.packages[name] = package
        elif protocol is not None and alias.name != "*":
            source.names[name] = (protocol, alias.name)
            if not module.endswith(_OTHER_MODULES):
                source.lines[name] = alias.lineno


def _protocol_of(module: str) -> str | None:
    """Return the protocol whose generated names a module has; None if it has none."""
    if module.startswith(("codex_acp.codex.", "codex_acp.acp.")):
        rest = module.split(".")[2:]
        if rest[0] not in ("_generated", "types", "unstable", "v2"):
            return None
        if module.startswith("codex_acp.codex."):
            return "codex"
        return "v2" if "v2" in rest else "v1"
    return "codex" if "._generated" in module else None


def uses(files: list[SourceFile]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (protocol, generated name) → the files that use the name."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in files:
        for key in file.names.values():
            found.setdefault(key, set()).add(file.path)
        for node in file.nodes if file.packages else ():
            if isinstance(node, ast.Attribute):
                used = file.generated(node)
                if used is not None:
                    found.setdefault(used, set()).add(file.path)
    return {key: tuple(sorted(paths)) for key, paths in found.items()}


def public_signatures(files: list[SourceFile]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (protocol, generated name) → public functions and fields annotated with the name."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in files:
        parts = Path(file.path).relative_to(SRC).with_suffix("").parts
        if parts[0] not in PUBLIC_PACKAGES or any(p.startswith("_") for p in parts[:-1]):
            continue
        for place, annotation in _annotations(file.tree, ".".join(("codex_acp", *parts))):
            for node in ast.walk(annotation):
                key = file.generated(node) if isinstance(node, ast.expr) else None
                if key is not None:
                    found.setdefault(key, set()).add(place)
    return {key: tuple(sorted(places)) for key, places in found.items()}


def _annotations(node: ast.Module | ast.ClassDef, where: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield (place, annotation) of every public signature and attribute of a module or class."""
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _annotations(child, f"{where}.{child.name}")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name.startswith("_") and child.name != "__init__":
                continue
            place = f"{where}.{child.name}"
            arguments = child.args
            for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if arg.annotation is not None:
                    yield place, arg.annotation
            if child.returns is not None:
                yield place, child.returns
        elif isinstance(child, ast.AnnAssign) and not ast.unparse(child.target).startswith("_"):
            yield f"{where}.{ast.unparse(child.target)}", child.annotation
