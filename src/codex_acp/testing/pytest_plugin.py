"""Define fixtures for pytest, which finds them if this package is installed.

Each fixture is a function that makes any number of models or homes, which end with the test. A
fixture imports its module when a test uses it, so that other test suites are not slower.
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
    """Yield a function with the arguments of `ScriptedModel` that returns a running model."""
    from codex_acp.testing import ScriptedModel

    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> ScriptedModel:
            return stack.enter_context(ScriptedModel(*args, **options))

        yield make


@pytest.fixture
def codex_acp_home() -> Iterator[Callable[..., CodexHome]]:
    """Yield a function that returns a temporary `CodexHome` whose Codex uses a given model."""
    from codex_acp.testing import CodexHome

    with ExitStack() as stack:

        def make(model: ScriptedModel, **options: Any) -> CodexHome:
            return stack.enter_context(CodexHome(model.base_url, **options))

        yield make
