"""The keyword arguments of threads and turns are fields of the schema, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.codex import types
from codex_acp.codex.threads import options
from codex_acp.codex.threads.options import TurnOptions, params_of, wire_name

PAIRS = [
    ("StartOptions", "ThreadStartParams"),
    ("ResumeOptions", "ThreadResumeParams"),
    ("ForkOptions", "ThreadForkParams"),
    ("ListOptions", "ThreadListParams"),
    ("TurnOptions", "TurnStartParams"),
]


@pytest.mark.parametrize(("given", "model"), PAIRS)
def test_every_option_is_a_field_with_that_name_on_the_wire(given: str, model: str) -> None:
    fields: dict[str, Any] = getattr(types, model).model_fields
    names = getattr(options, given).__annotations__
    assert names
    for name in names:
        assert (fields[name].alias or name) == wire_name(name)


def test_a_directory_is_made_absolute_and_models_become_json() -> None:
    sandbox = types.ReadOnlySandboxPolicy(network_access=True)
    given = {"cwd": Path("here"), "sandbox_policy": sandbox, "effort": "high"}
    params = params_of(given, TurnOptions)
    assert params == {
        "cwd": str(Path.cwd() / "here"),
        "sandboxPolicy": {"type": "readOnly", "networkAccess": True},
        "effort": "high",
    }
