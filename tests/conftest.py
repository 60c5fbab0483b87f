"""Fixtures that every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio is the only backend this library supports."""
    return "asyncio"
