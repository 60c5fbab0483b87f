"""Class names come from the schema, stay readable, and never collide in silence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codegen import acp, codex
from codegen.errors import CodegenError, NameCollision, UnusedOverride
from codegen.ir import Protocol
from codegen.naming import MAX_NAME, Namer, pascal, snake
from codegen.patches import Patch, apply, digest
from codegen.pinned import read_pins

PUBLISHED = {"ToolsV2"}
"""Names with a digit at their end that the schema itself gives."""


def _protocol(name: str) -> Protocol:
    load = {key: pin.load() for key, pin in read_pins().items()}
    if name == "codex":
        return codex.load(load["codex/experimental.json"], load["codex/stable.json"])
    return acp.load(name, load[f"acp/{name}_unstable.json"], load[f"acp/{name}.json"])


@pytest.mark.parametrize("name", ["codex", "v1", "v2"])
def test_no_name_is_long_or_an_ordinal(name: str) -> None:
    for defined in _protocol(name).definitions:
        assert len(defined) <= MAX_NAME
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", defined), defined
        assert not defined[-1].isdigit() or defined in PUBLISHED, f"{defined} ends in an ordinal"


def test_two_definitions_under_one_name_are_an_error_that_names_the_cure() -> None:
    namer = Namer({})
    namer.claim("Thing", "a.thing")
    with pytest.raises(NameCollision, match=r"b\.thing.*NAMES override"):
        namer.claim("Thing", "b.thing")


def test_the_same_definition_may_be_claimed_again() -> None:
    namer = Namer({})
    assert namer.claim("Thing", "a") == namer.claim("Thing", "a") == "Thing"


def test_a_name_above_the_limit_is_an_error() -> None:
    with pytest.raises(NameCollision, match="51 characters"):
        Namer({}).claim("T" * 51, "somewhere")


def test_an_ordinal_is_an_error() -> None:
    with pytest.raises(NameCollision, match="ordinal"):
        Namer({"here": "Thing1"}).claim("Thing", "here")


def test_an_override_that_matches_nothing_is_an_error() -> None:
    namer = Namer({"gone": "New"})
    with pytest.raises(UnusedOverride, match="gone"):
        namer.check_overrides_used()


@pytest.mark.parametrize(
    ("wire", "python", "cls"),
    [
        ("thread/start", "thread_start", "ThreadStart"),
        ("item/commandExecution/requestApproval", "item_command_execution_request_approval",
         "ItemCommandExecutionRequestApproval"),
        ("session/set_config_option", "session_set_config_option", "SessionSetConfigOption"),
        ("$/cancel_request", "cancel_request", "CancelRequest"),
        ("mcpServer/oauthLogin/completed", "mcp_server_oauth_login_completed",
         "McpServerOauthLoginCompleted"),
    ],
)  # fmt: skip
def test_wire_methods_become_python_names(wire: str, python: str, cls: str) -> None:
    assert (snake(wire), pascal(wire)) == (python, cls)


def test_a_patch_whose_old_value_is_gone_stops_the_run() -> None:
    patch = Patch("/$defs/A/anyOf", digest([1]), None, "why")
    assert apply({"$defs": {"A": {"anyOf": [1]}}}, (patch,)) == {"$defs": {"A": {}}}
    moved: list[dict[str, Any]] = [{"$defs": {"A": {"anyOf": [2]}}}, {"$defs": {}}]
    for changed in moved:
        with pytest.raises(CodegenError, match=r"expects .* but finds"):
            apply(changed, (patch,))
