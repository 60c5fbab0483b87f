"""What a program prints of ours says what it is: no public class is shown by its address."""

from __future__ import annotations

import importlib
import inspect

import pytest

from codex_acp.codex import ask, deny_all, first_of, trust_mcp_servers

PUBLIC = (
    "codex_acp", "codex_acp.acp", "codex_acp.codex", "codex_acp.codex.sync", "codex_acp.errors",
    "codex_acp.runtime", "codex_acp.testing", "codex_acp.transcript",
)  # fmt: skip


@pytest.mark.parametrize("package", PUBLIC)
def test_no_public_class_is_shown_by_its_address(package: str) -> None:
    module = importlib.import_module(package)
    classes = [found for name in module.__all__ if inspect.isclass(found := getattr(module, name))]

    bare = [found for found in classes if found.__repr__ is object.__repr__]

    assert [found for found in bare if not getattr(found, "_is_protocol", False)] == []


def test_a_policy_is_shown_as_it_is_written() -> None:
    def answer(_: object) -> None: ...

    policy = trust_mcp_servers({"notes"}) | ask(answer, timeout=5) | deny_all

    assert "answer, timeout=5), deny_all)" in repr(policy)
    assert repr(first_of(deny_all)) == "first_of(deny_all)"
    assert " at 0x" not in repr(policy)
