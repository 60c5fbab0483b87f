"""Whatever is started is ended with what started it, also what has made itself a daemon.

A few runs of each scene; ``python -m tests.e2e.orphan_counts`` does them by the thousand.
"""

from __future__ import annotations

import sys

import pytest

from tests.e2e.orphan_counts import BY_CHANCE, SCENES, count

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is an orphan")

RUNS = 3
"""Of a scene in which chance says when something is ended; of the others one."""


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.attack("MCP server")
def test_nothing_is_left(scene: str) -> None:
    runs = RUNS if SCENES[scene] in BY_CHANCE else 1
    found = count(scene, runs)
    assert found.runs == runs
    assert found.leaving == 0, found.names
