"""Who may import whom: the table of ARCHITECTURE.md, held."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src" / "codex_acp"

EVERYWHERE = {
    "errors", "_glyphs", "_json", "_last_ones", "_lazy", "_pydantic", "_record",
    "_files", "_urls", "_version",
}  # fmt: skip
"""Modules that any package may use, and that import no package."""

MAY_IMPORT: dict[str, set[str]] = {
    "jsonrpc": set(),
    "wire": {"jsonrpc"},
    "transport": {"jsonrpc"},
    "codex": {"jsonrpc", "wire", "transport"},
    "acp": {"jsonrpc", "wire", "transport"},
    "routing": {
        "jsonrpc", "wire", "codex._generated", "acp._generated", "acp.capabilities",
        "acp.form_answers", "codex.approvals.actions",
        "codex.approvals.classify", "codex.approvals.grants", "codex.approvals.refusals",
        "codex.approvals.running_items", "transcript.events",
        # What an approval shows is told like everything else that a session tells.
        "mapping.content", "mapping.events",
    },
    "mapping": {
        "jsonrpc", "wire", "codex._generated", "acp._generated", "acp.capabilities",
        "codex.approvals.actions", "codex.approvals.classify",
        "codex.approvals.grants", "codex.approvals.refusals", "codex.approvals.running_items",
        "codex.threads.opening", "transcript.events",
        # What an approval and the item it asks about show is the same text, made the same way.
        "routing.changes", "routing.display",
        "transcript.secrets",
    },
    "bridge": {
        "jsonrpc", "wire", "codex._generated", "acp._generated", "acp.capabilities",
        "codex.approvals.actions", "codex.approvals.classify",
        "codex.approvals.refusals", "codex.approvals.running_items", "mapping", "routing",
        "codex.approvals.real_paths",  # a name for programs, which bridges are only given
    },
    "transcript": {"jsonrpc"},
    "adapter": {
        "routing", "mapping", "acp", "transport", "transcript", "jsonrpc", "wire",
        # The connection to the app-server, and not the client for programs that is above it.
        "codex._generated", "codex.approvals", "codex.connection", "codex.threads.opening",
        "codex.threads.git_programs", "codex.threads.trust",
    },
    "runtime": {"acp", "transport", "jsonrpc"},
    "fleet": {
        "runtime", "acp", "jsonrpc", "transport.process_tree", "transport.shielding",
        "wire",
        "transcript.secrets",
    },
    "testing": {"acp", "jsonrpc", "transport"},
    "cli": {
        "adapter", "acp", "codex", "jsonrpc", "transport", "testing", "transcript", "routing",
        "runtime", "wire", "fleet",
    },
}  # fmt: skip
"""Package → what of ours it may import besides itself. A dotted entry is one module or package."""

MAY_ALL_THE_SAME = {("wire/lazy.py", "logging")}
"""It says once that pydantic is of a version that was not tested."""

PURE = {"bridge", "jsonrpc", "routing", "mapping", "wire"}
"""Packages that do no IO and know no clock, no chance and no event loop."""

IO_MODULES = {
    "anyio", "asyncio", "datetime", "http", "io", "logging", "os", "pathlib", "queue", "random",
    "secrets", "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile",
    "threading", "time", "uuid",
}  # fmt: skip


IO_CALLS = {"open", "print", "input", "exec", "eval"}


def _modules() -> list[Path]:
    return sorted(p for p in SRC.rglob("*.py") if p.parent != SRC)


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Absolute names of all that a module imports, wherever in the file."""
    return tuple(_each_import(path))


def _each_import(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _name(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def _package(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def test_a_module_imports_only_what_its_package_may() -> None:
    offenders = []
    for path in _modules():
        package = _package(path)
        allowed = MAY_IMPORT[package] | EVERYWHERE | {package}
        for name in _imports(path):
            ours = name.removeprefix("codex_acp.")
            if not name.startswith("codex_acp.") or ours == "__version__":
                continue
            if not any(ours == a or ours.startswith(a + ".") for a in allowed):
                offenders.append(f"{_name(path)}: {package} may not import {name}")
    assert offenders == [], "see ARCHITECTURE.md"


def test_pure_code_can_do_no_io() -> None:
    offenders = []
    for path in _modules():
        if _package(path) not in PURE:
            continue
        used = {n for n in _imports(path) if (_name(path), n) not in MAY_ALL_THE_SAME}
        names = {name.split(".")[0] for name in used} & IO_MODULES
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names |= {node.func.id} & IO_CALLS
            elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
                names.add("async")
        if names:
            offenders.append(f"{_name(path)}: {', '.join(sorted(names))}")
    assert offenders == []


def test_nobody_outside_uses_what_is_private_to_a_package() -> None:
    offenders = []
    for path in _modules():
        package = _package(path)
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] != "codex_acp" or parts[1] == package or "_generated" not in parts:
                continue
            version = "version" in parts[-2:]
            if package not in {"routing", "mapping", "adapter", "bridge"} and not (
                package == "cli" and version
            ):
                offenders.append(f"{_name(path)}: {name}")
    assert offenders == []


def test_every_package_has_a_rule() -> None:
    packages = {p.name for p in SRC.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert packages <= MAY_IMPORT.keys()


def _graph() -> dict[str, set[str]]:
    """Module → those of ours that it imports, for types or inside a function too."""
    paths = {}
    for path in (p for p in SRC.rglob("*.py") if "_generated" not in p.parts):
        parts = ("codex_acp", *path.relative_to(SRC).with_suffix("").parts)
        paths[".".join(parts).removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        graph[module] = set()
        for name in _imports(path):
            # A name of a module, or the module itself; of `codex_acp` there is only its version.
            found = next((n for n in (name, name.rpartition(".")[0]) if n in paths), None)
            if found not in (None, "codex_acp", module):
                graph[module].add(str(found))
    return graph


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """One shortest circle of what cannot be put into an order; empty if there is none."""
    left = dict(graph)
    while free := [module for module, used in left.items() if not used & left.keys()]:
        for module in free:
            del left[module]
    ways = [[module] for module in left]
    for way in ways:
        for used in sorted(left[way[-1]] & left.keys()):
            if used == way[0]:
                return [*way, used]
            if used not in way:
                ways.append([*way, used])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = _graph()
    circles = []
    while circle := _circle(graph):
        circles.append(" → ".join(circle))
        graph[circle[-2]].discard(circle[-1])
    assert circles == []


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": set[str](), "e": {"a"}}
    assert _circle(graph) == ["b", "c", "b"]
