"""The examples that run fleets: each runs as a user would run it, with a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_acp.testing import ModelResponse, Text, add_file
from tests.examples.example_bench import codex, run, untested
from tests.fleet.fleet_bench import repository

pytestmark = pytest.mark.e2e


def test_every_fleet_example_has_a_test() -> None:
    assert untested("fleet_*.py", __file__) == []


def test_a_fleet_on_this_machine_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    out, source = str(tmp_path / "out"), str(repository(tmp_path / "source"))
    script = (ModelResponse(add_file("made.txt", "one\n")), ModelResponse(Text("Made.")))
    with codex(*script, sandbox_mode="workspace-write") as (home, _model):
        first = run("fleet_local.py", home, out, "Make it.", source)
        again = run("fleet_local.py", home, out, "Make it.", source)
    assert first == f"{source}: completed (end_turn), 7 lines of patch\n"
    assert again == f"{source}: completed (end_turn), 0 lines of patch\n"


@pytest.mark.ray
def test_a_fleet_on_ray_gives_answers_of_a_type(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: nox -s fleet")
    answer = '{"sentence": "It is a test.", "languages": ["Python"]}'
    out, source = str(tmp_path / "out"), str(repository(tmp_path / "source"))
    with codex(ModelResponse(Text(answer))) as (home, _model):
        printed = run("fleet_ray.py", home, out, "What is it for?", source)
    assert printed == f"{source}: It is a test.\n"
