"""Questions of a model that chooses between two machines, on the real Codex (contract 3.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.testing import Step, Text, ToolCall, apply_patch
from tests.e2e_contract.contract_bench import ContractBench, Scenes
from tests.support.environments import PRODUCTION, attach_environment

pytestmark = [pytest.mark.e2e, pytest.mark.attack("model")]

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]
MACHINES = ("local", PRODUCTION)


def run(where: str) -> list[Step]:
    arguments = {
        "cmd": f"touch on-{where}",
        "environment_id": where,
        "sandbox_permissions": "require_escalated",
        "justification": "?",
    }
    return [ToolCall("exec_command", arguments, call_id=f"run-{where}")]


def grant(where: str) -> list[Step]:
    files = {"file_system": {"write": ["/srv/app"]}}
    arguments = {"reason": "?", "permissions": files, "environment_id": where}
    return [ToolCall("request_permissions", arguments, call_id=f"grant-{where}")]


RUNS = {where: SCENES.add(f"run {where}", run(where), DONE) for where in MACHINES}
GRANTS = {where: SCENES.add(f"grant {where}", grant(where), DONE) for where in MACHINES}
LINES = ("*** Begin Patch", f"*** Environment ID: {PRODUCTION}", "*** Add File: notes", "+new")
PATCH = SCENES.add("patch", [apply_patch("\n".join((*LINES, "*** End Patch", "")))], DONE)


class TwoMachines(ContractBench):
    """A bench whose user has attached a second machine."""

    async def _serve(self) -> None:
        attach_environment(self.home)
        await super()._serve()


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    del factory
    return TwoMachines(SCENES, version)


async def ask(bench: ContractBench, session: str, scene: str) -> Any:
    """Allow what is asked in a scene; return the question."""
    prompt = bench.prompt(session, scene)
    asked = await bench.asks.next_permission()
    asked.choose("allow_once")
    assert await prompt.end() == "end_turn"
    return asked


async def test_3_8_a_command_on_another_machine_names_it_and_no_rule_reaches_both(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    here = await ask(bench, session, RUNS["local"])
    there = await ask(bench, session, RUNS[PRODUCTION])
    assert "touch on-local" in here.title
    assert here.title.startswith("Run: ")
    assert there.title.startswith("On production: Run: ")
    assert "touch on-production" in there.title
    assert "On production." in there.texts
    assert there.raw_input["environmentId"] == PRODUCTION
    assert here.kinds == there.kinds == ["allow_once", "reject_once"]
    assert bench.path("on-production").exists()


async def test_3_2_permissions_on_another_machine_name_it_and_have_another_digest(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    here, there = [await ask(bench, session, GRANTS[where]) for where in MACHINES]
    assert here.title == "Give the turn permissions: write /srv/app".replace(
        "/srv/app", here.title.rpartition(" ")[2]
    )
    assert there.title.startswith("On production: Give the turn permissions: write ")
    assert set(here.raw_input) == {"permissions", "reason"}
    assert there.raw_input["environmentId"] == PRODUCTION
    assert there.raw_input["cwd"] == str(bench.home.workspace)
    assert [there.kinds, len(here.kinds)] == [["allow_once", "reject_once"], 3]
    events: list[Any] = bench.events(session)
    digests = {e.arguments_sha256 for e in events if e.type == "approval.requested"}
    assert len(digests) == 2


async def test_3_8_an_edit_names_the_machines_and_shows_nothing_of_this_one(
    bench: ContractBench,
) -> None:
    bench.path("notes").write_text("secret of this machine\n")
    session = await bench.new_session()
    asked = await ask(bench, session, PATCH)
    named = f"On one of local, {PRODUCTION} (Codex does not say which): Write "
    assert asked.title.startswith(named)
    assert asked.title.endswith("(not looked at: it may be on another machine)")
    assert asked.raw_input["environments"] == list(MACHINES)
    assert asked.kinds == ["allow_once", "reject_once"]
    assert "secret" not in json.dumps(asked.seen)
    assert not asked.seen.get("locations")
    assert "diff" not in {part["type"] for part in asked.seen["content"]}, "no file was there?"
