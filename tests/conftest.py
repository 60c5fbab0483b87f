"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

from tests.support.codex_version import skip_differences


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With another Codex than the wheel's, leave out what that one is known not to pass."""
    skip_differences(items)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio is the only backend this library supports."""
    return "asyncio"
