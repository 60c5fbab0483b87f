"""What importing the ACP package loads, and what its lazy modules offer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import codex_acp.acp
import codex_acp.acp.types
import codex_acp.acp.unstable
import codex_acp.acp.v2
from codex_acp.acp._generated.v1.models import MODULE_OF

HEAVY = ("pydantic", "pydantic_core", "anyio", "asyncio")


def loaded_by(statement: str) -> set[str]:
    """The modules that a new interpreter has after one statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(done.stdout))


def models_in(modules: set[str]) -> set[str]:
    return {
        name
        for name in modules
        if name.startswith("codex_acp.acp._generated.") and ".models." in name
    }


@pytest.mark.parametrize(
    "statement",
    [
        "import codex_acp.acp",
        "from codex_acp.acp import ClientFeatures, negotiated_version, PROTOCOL_VERSION",
        "from codex_acp.acp import types, unstable, v2",
        "import codex_acp.acp.types",
    ],
)
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    modules = loaded_by(statement)
    assert "codex_acp.acp" in modules
    assert modules.isdisjoint(HEAVY)
    assert models_in(modules) == set()


def test_importing_the_sides_loads_no_model() -> None:
    modules = loaded_by("from codex_acp.acp import AgentSide, ClientSide, acp_connection")
    assert "asyncio" in modules
    assert "anyio" not in modules
    assert models_in(modules) == set()


def test_a_model_loads_its_own_module_only() -> None:
    modules = loaded_by("from codex_acp.acp.types import InitializeRequest")
    assert models_in(modules) == {"codex_acp.acp._generated.v1.models.handshake"}


def test_neither_version_loads_the_other() -> None:
    first = loaded_by("from codex_acp.acp.types import InitializeRequest, PromptRequest")
    assert not any("._generated.v2" in name for name in first)
    second = loaded_by("from codex_acp.acp.v2 import InitializeRequest, PromptRequest")
    assert not any("._generated.v1" in name for name in second)


SIDES = """
from codex_acp.acp import AgentSide, ClientSide, acp_connection
from codex_acp.transport.link import memory_pair
from tests.acp import {tables} as t
near, far = memory_pair()
AgentSide(acp_connection(near, name="a"), {agent})
ClientSide(acp_connection(far, name="b"), {client})
"""


def test_a_side_of_one_version_loads_nothing_of_the_other() -> None:
    agent, client = (f"t.{s}_requests(), t.{s}_notifications()" for s in ("agent", "client"))
    first = loaded_by(SIDES.format(tables="tables", agent=agent, client=client))
    assert not any("._generated.v2" in name for name in first)
    later = loaded_by(SIDES.format(tables="tables", agent=f"{agent}, v2=int", client=client))
    assert not any("._generated.v2" in name for name in later)
    second = loaded_by(
        SIDES.format(
            tables="tables_v2",
            agent=f"None, None, v2=({agent})",
            client=f"None, None, v2=({client})",
        )
    )
    v1 = {name for name in second if "._generated.v1." in name}
    assert v1 == {"codex_acp.acp._generated.v1.calls"}


def test_every_name_of_version_2_can_be_had() -> None:
    tables = {f"{s}{k}Handlers" for s in ("Agent", "Client") for k in ("Request", "Notification")}
    assert {"PromptResponse", "StopReason", "WireModel", *tables} <= set(dir(codex_acp.acp.v2))
    for name in dir(codex_acp.acp.v2):
        assert getattr(codex_acp.acp.v2, name) is not None


def test_every_public_name_can_be_had() -> None:
    for name in dir(codex_acp.acp):
        assert getattr(codex_acp.acp, name) is not None
    assert {"AgentSide", "ClientSide", "types", "unstable"} <= set(dir(codex_acp.acp))


def test_the_public_models_are_all_those_of_the_schema() -> None:
    bases = {"UnknownValue", "UnknownVariant", "WireModel"}
    assert set(dir(codex_acp.acp.types)) == set(MODULE_OF) | bases
    assert dir(codex_acp.acp.unstable) == dir(codex_acp.acp.types)
    for name in dir(codex_acp.acp.types):
        assert getattr(codex_acp.acp.types, name) is not None
    for name in dir(codex_acp.acp.types):
        assert getattr(codex_acp.acp.unstable, name) is getattr(codex_acp.acp.types, name)


@pytest.mark.parametrize(
    "module", [codex_acp.acp, codex_acp.acp.types, codex_acp.acp.unstable], ids=lambda m: m.__name__
)
def test_an_unknown_name_is_an_attribute_error_that_names_it(module: object) -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = module.Nonsense  # type: ignore[attr-defined] # what must not work
