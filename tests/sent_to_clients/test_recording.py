"""What is recorded anew is what was recorded: the conversations are the real Codex's words."""

from __future__ import annotations

import pytest

from tests.sent_to_clients.every import RECORDED
from tests.sent_to_clients.record import SCENES
from tests.sent_to_clients.recorder import record

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("name", ["patch-approved", "mcp"])
async def test_a_scene_is_recorded_as_it_was(name: str) -> None:
    (scene,) = (each for each in SCENES if each.name == name)
    (before,) = (each for each in RECORDED if each.name == name)
    now = await record(scene)

    assert now.steps == before.steps
    assert now.history == before.history
