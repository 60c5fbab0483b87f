"""A short soak with a fixed seed; ``nox -s soak -- --minutes 5`` is a long one."""

from __future__ import annotations

import pytest

from tests.soak.soak import Soak

SECONDS = 10.0


@pytest.mark.e2e
async def test_everything_mixed_for_a_while_leaves_nothing_behind() -> None:
    soak = Soak(7)
    await soak.run(SECONDS)
    assert soak.counts["operations"] > 0
