"""Which Codex the tests run: the wheel of the extra ``codex``, or what ``CODEX_PATH`` names.

``nox -s compat`` runs the end-to-end tests with older and newer ones. A test that only some
versions can pass says so with `needs_codex`, and why.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version

import pytest

from codegen.pinned import version_key
from codex_acp.codex.find import find_codex
from codex_acp.codex.launch import codex_version

WHEEL = "openai-codex-cli-bin"


@cache
def codex_under_test() -> str:
    """Such as ``0.163.0``."""
    if "CODEX_PATH" in os.environ:
        return codex_version(find_codex().path)
    return version(WHEEL)


def needs_codex(oldest: str, reason: str) -> pytest.MarkDecorator:
    """Skip the test with a Codex before ``oldest``; ``reason`` is what that one does otherwise."""
    too_old = version_key(codex_under_test()) < version_key(oldest)
    return pytest.mark.skipif(too_old, reason=f"Codex {codex_under_test()}: {reason}")
