"""Names that load when they are first used are those that type checkers and editors see."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from codegen import stubs

PACKAGES = (
    "acp", "acp.types", "acp.v2", "bridge", "codex", "fleet", "runtime", "testing", "transcript",
)  # fmt: skip


def seen(stub: str) -> Iterator[tuple[str, str]]:
    """Module and name of what a stub imports to be public."""
    for node in ast.parse(stub).body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for alias in node.names:
            assert alias.asname == alias.name, "else it is not exported"
            yield node.module, alias.name


def test_the_stubs_are_those_of_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert stubs.main(["--check"]) == 0, "run `nox -s regen`:\n" + capsys.readouterr().out


@pytest.mark.parametrize("package", PACKAGES)
def test_the_lazy_names_are_those_that_type_checkers_see(package: str) -> None:
    module = import_module(f"codex_acp.{package}")
    assert module.__file__ is not None
    stub = Path(module.__file__).with_suffix(".pyi").read_text()
    home_of = {name: home for home, name in seen(stub)}
    assert sorted(home_of) == sorted(module.__all__) == dir(module)
    for name, home in home_of.items():
        whole = f"{home}.{name}"
        known = import_module(home)
        there = getattr(known, name) if hasattr(known, name) else import_module(whole)
        assert getattr(module, name) is there, whole
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = module.Nonsense


@pytest.mark.parametrize(
    "module", ["codex_acp.acp.types", "codex_acp.acp.unstable", "codex_acp.acp.v2"]
)
def test_names_of_models_load_as_well(module: str) -> None:
    loaded = import_module(module)
    assert {"UnknownValue", "UnknownVariant", "WireModel", "InitializeRequest"} <= set(dir(loaded))
    assert all(getattr(loaded, name) is not None for name in loaded.__all__)
