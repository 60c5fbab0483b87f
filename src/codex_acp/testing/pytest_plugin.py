"""Fixtures for pytest, found by themselves where this package is installed.

``scripted_model`` and ``codex_acp_home`` are functions that make the things of their names, as
often as a test likes; all is taken down when the test ends. Nothing is imported before a test
uses one, so a suite that does not is not slower.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.testing import CodexHome, ScriptedModel


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """``scripted_model([[Text("Hello.")]])`` is a running `ScriptedModel`; its arguments."""
    from codex_acp.testing import ScriptedModel

    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> ScriptedModel:
            return stack.enter_context(ScriptedModel(*args, **options))

        yield make


@pytest.fixture
def codex_acp_home() -> Iterator[Callable[..., CodexHome]]:
    """``codex_acp_home(model)`` is a throw-away `CodexHome` whose Codex asks that model."""
    from codex_acp.testing import CodexHome

    with ExitStack() as stack:

        def make(model: ScriptedModel, **options: Any) -> CodexHome:
            return stack.enter_context(CodexHome(model.base_url, **options))

        yield make
